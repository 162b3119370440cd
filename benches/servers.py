"""PostgreSQL and nats-server for the programs in this folder: started on free ports, ended with them."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, limit=60):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise SystemExit(f"nothing listens on port {port} after {limit} s")


def family(pid):
    """The ids of a process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(word) for word in task.read_text().split()]
    return found


class Server:
    """A server with a folder of its own; both go when the block ends."""

    def __init__(self, how):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shopmirror-bench-"))
        self.port = free_port()
        self.how = how

    def begin(self, command, **more):
        log = open(self.folder / "log", "ab")
        self.child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", **more)
        self.pid = self.child.pid
        wait_for_port(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, self.how)
        self.child.wait(timeout=30)
        shutil.rmtree(self.folder)


class Postgres(Server):
    """PostgreSQL with its usual durability."""

    def __init__(self, connections=100):
        super().__init__(signal.SIGINT)
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            raise SystemExit("PostgreSQL is missing: apt-get install postgresql")
        more = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            more = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        initdb = [programs[-1] / "initdb", "--pgdata", data, "--auth=trust", "--username=shop", "--encoding=UTF8", "--locale=C"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **more)
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=",
                    f"max_connections={connections + 10}", "shared_buffers=256MB", "max_wal_size=4GB"]
        command = [programs[-1] / "postgres", "-D", data]
        for setting in settings:
            command += ["-c", setting]
        self.begin(command, **more)
        self.url = f"postgresql://shop@127.0.0.1:{self.port}/postgres"
        while subprocess.run(["psql", "-qd", self.url, "-c", "select 1"], capture_output=True).returncode:
            time.sleep(0.05)

    def rows(self, sql):
        command = ["psql", "-XAtqd", self.url, "-v", "ON_ERROR_STOP=1", "-c", sql]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [line.split("|") for line in out.splitlines()]

    def number(self, sql):
        with contextlib.suppress(subprocess.CalledProcessError):
            return int(self.rows(sql)[0][0])
        return -1


class Nats(Server):
    """nats-server with JetStream."""

    def __init__(self):
        super().__init__(signal.SIGTERM)
        self.begin(["nats-server", "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "data")])
        self.url = f"nats://127.0.0.1:{self.port}"

    def ask(self, subject, body):
        """One request of the protocol, and its answer."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as line:
            text = json.dumps(body) if body else ""
            line.sendall(f'CONNECT {{"verbose":false}}\r\nSUB answer 1\r\nPUB {subject} answer {len(text)}\r\n{text}\r\nPING\r\n'.encode())
            got = b""
            while b"MSG answer" not in got or not got.endswith(b"\r\n"):
                got += line.recv(65536)
            return json.loads(got.split(b"MSG answer", 1)[1].split(b"\r\n")[1])

    def make_stream(self, name, subjects):
        told = self.ask(f"$JS.API.STREAM.CREATE.{name}", {
            "name": name, "subjects": subjects, "retention": "limits", "storage": "file",
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "num_replicas": 1,
            "duplicate_window": 3_600_000_000_000,
        })
        if "error" in told:
            raise SystemExit(told["error"])

    def messages(self, name):
        told = self.ask(f"$JS.API.STREAM.INFO.{name}", None)
        return told["state"]["messages"] if "state" in told else 0
