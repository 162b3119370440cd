"""What the programs in this folder share: the sandbox, a conveyor of pages, processes and CPU clocks.

Standard library only. Everything listens on free ports of the loopback and ends with the program.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUTES = ["jobs", "customers", "leads", "payments", "job_status_changes", "outsourced_jobs"]


def build(*benches, profile="dist"):
    """Builds the program with every sink, and these bench programs beside it; returns their paths in this order."""
    what = ["--package", "shopmirror", "--all-features", "--bin", "shopmirror"]
    for bench in benches:
        what += ["--bench", bench]
    paths = compiled(profile, what)
    return [paths[name] for name in ("shopmirror", *benches)]


def build_bare(profile):
    """Builds the programs in bare/; returns their paths by name."""
    return compiled(profile, ["--package", "shopmirror-bare"])


def compiled(profile, what):
    command = ["cargo", "build", "--profile", profile, "--locked", "--message-format=json", *what]
    made = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    paths = {}
    for line in made.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            paths[message["target"]["name"]] = message["executable"]
    return paths


def wait_until(condition, limit, what, every=0.005):
    """Waits until `condition` holds, `limit` seconds at most; returns what it gave."""
    deadline = time.monotonic() + limit
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {limit} s for {what}")
        time.sleep(every)


def cpu_seconds(pid):
    """User and system time of a process and all its threads, ended ones too, to the nanosecond."""
    # The clock id of another process's CPU clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime((~pid << 3) | 2)


def memory_kib(pid):
    """Resident memory of a process, now and at its peak."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", text))
    return int(found["VmRSS"]), int(found["VmHWM"])


class Process:
    """A program that is stopped when the block ends."""

    def __init__(self, command, log=None, **more):
        out = open(log, "ab") if log else subprocess.DEVNULL
        self.child = subprocess.Popen(command, stderr=out, stdout=more.pop("stdout", out), **more)
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGTERM):
        if self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)
            self.child.wait(timeout=20)


def run_to_end(command, log):
    """Runs a program to its end; returns its CPU seconds and its wall seconds."""
    with open(log, "ab") as out:
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command} ended with {child.returncode}; see {log}")
    return usage.ru_utime + usage.ru_stime, wall


class Sandbox(Process):
    """The imitation of the workspace, without a limit that matters here."""

    def __init__(self, program, *options):
        command = [program, "sandbox", "--listen", "127.0.0.1:0", "--requests-per-minute", "1000000"]
        super().__init__([*command, *options], stdout=subprocess.PIPE, text=True)
        lines = [self.child.stdout.readline() for _ in range(5)]
        words = dict(re.findall(r"^(base_url|automation key|control)\s+(\S+)$", "".join(lines), re.M))
        self.base_url, self.key = words["base_url"], words["automation key"]
        self.control_url = words["control"]

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request((self.control_url + path).rstrip("/"), data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def truth(self):
        """All records ever made, by route as the daemon names it."""
        told = self.control("GET", "truth")
        return {route.replace("-", "_"): records for route, records in told.items()}


class StandIn(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A server on a free port of the loopback, with a thread for each connection."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request, client_address):
        """A process that is stopped cuts its connection; nothing is wrong then."""


class Conveyor:
    """Serves one route whose page moves on by so many records before each poll.

    `at(n)` calls back when the n-th request arrives, before it is answered.
    """

    def __init__(self, records):
        self.records = records
        self.step = 0
        self.shown = 100
        self.requests = 0
        self.marks = {}
        self.reached = threading.Condition()
        conveyor = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                # Searches find no customer.
                body = conveyor.next_page() if "/triggers/" in self.path else b"[]"
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("x-ratelimit-limit", "1000000")
                self.send_header("x-ratelimit-remaining", "999000")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = StandIn(Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}/api"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next_page(self):
        with self.reached:
            self.requests += 1
            if mark := self.marks.pop(self.requests, None):
                mark()
            self.shown = min(self.shown + self.step, len(self.records))
            self.reached.notify_all()
            newest = self.records[self.shown - 100 : self.shown]
        return ("[" + ",".join(reversed(newest)) + "]").encode()

    def begin(self, step):
        """Counts from here on, with so many new records before each poll."""
        with self.reached:
            self.step, self.requests, self.marks = step, 0, {}

    def wait_for(self, requests, limit):
        with self.reached:
            if not self.reached.wait_for(lambda: self.requests >= requests, limit):
                raise SystemExit(f"waited {limit} s for poll {requests}, saw {self.requests}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_config(folder, base_url, key, routes="", poll="", sinks="", workspace=""):
    """Writes a configuration and its key file; returns the configuration's path."""
    folder = pathlib.Path(folder)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    secret = folder / "api-key"
    secret.touch(mode=0o640)
    secret.write_text(key)
    path = folder / "shopmirror.toml"
    path.write_text(
        f'[workspace]\nbase_url = "{base_url}"\napi_key_file = "api-key"\n{workspace}\n'
        f"[budget]\nrequests_per_minute = 1000000\n\n[poll]\n{poll}\n\n"
        f'[store]\npath = "mirror.db"\n\n{routes}\n{sinks}'
    )
    return path
