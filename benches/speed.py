"""How fast deliveries are, beside a bare loop with the same HTTP library."""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import time
import urllib.request

from harness import Process, cpu_seconds, wait_until

STAMP = "2026-01-01T00:00:00.000000Z"
CHANGES, CONCURRENCY, SLOW_MS = 10_200, 4, 50
TICK = os.sysconf("SC_CLK_TCK")


def body(number):
    text = "A repair of ordinary length. " * 12
    return json.dumps({"id": number, "name": f"Job {number}", "status": "open", "note": text})


def insert(store, first, count, kind):
    """Adds records that are new to the log of a store without a daemon."""
    rows = (
        (f"evt_{n:032x}", f"b{n}", kind, STAMP, body(n)) for n in range(first, first + count)
    )
    store.executemany(
        "INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body)"
        " VALUES (?, 'jobs', ?, ?, 1, ?, ?)",
        rows,
    )


class Receiver:
    """The bench program `post receive`."""

    def __init__(self, program, delay_ms):
        self.child = subprocess.Popen([program, "receive", str(delay_ms)], stdout=subprocess.PIPE, text=True)
        self.url = self.child.stdout.readline().strip()

    def counts(self):
        """The number of requests, and the seconds of the first and the last one."""
        with urllib.request.urlopen(self.url) as response:
            requests, first, last = response.read().decode().split()
        return int(requests), int(first) / 1e6, int(last) / 1e6

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def memory(pid):
    """Resident memory now and at its highest, in MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    read = lambda key: int(status.split(f"{key}:")[1].split()[0]) / 1024
    return read("VmRSS"), read("VmHWM")


def bare(program, receiver):
    """Requests a second of the bare loop, and its CPU time for each."""
    length = len(body(5_000)) + 330
    out = subprocess.check_output(
        [program, "bare", receiver.url, str(CHANGES), str(CONCURRENCY), str(length)], text=True
    )
    took, user, system = out.split()
    return CHANGES / float(took), (int(user) + int(system)) / TICK / CHANGES


class Speed:
    def __init__(self, benches, post):
        self.benches, self.post = benches, post

    def prepared(self, sink, before):
        """A configuration whose store has `before` old changes and is then polled seldom."""
        conveyor = self.benches.conveyor()
        _, config = self.benches.place(conveyor, sink)

        def fill(store):
            insert(store, 10_000_000, before, "baseline")
            store.execute("UPDATE sinks SET position = (SELECT max(seq) FROM changes)")

        self.benches.prepared(conveyor, config, fill)
        config.write_text(config.read_text().replace("100ms", "1h"))
        return config

    def webhook(self, delay_ms, before=0, changes=CHANGES):
        """Deliveries a second, CPU for each, and memory above that of an idle daemon."""
        with Receiver(self.post, delay_ms) as receiver:
            sink = f'[sinks.out]\ntype = "webhook"\nurl = "{receiver.url}"\nconcurrency = {CONCURRENCY}\n'
            config = self.prepared(sink, before)
            with self.benches.daemon(config) as daemon:
                time.sleep(2)
                idle_cpu, (idle, _) = cpu_seconds(daemon.pid), memory(daemon.pid)
            with contextlib.closing(sqlite3.connect(config.parent / "mirror.db")) as store, store:
                insert(store, 1, changes, "created")
            with self.benches.daemon(config) as daemon:
                wait_until(lambda: receiver.counts()[0] >= changes, 120, "all changes")
                time.sleep(1)
                cpu, (_, most) = cpu_seconds(daemon.pid), memory(daemon.pid)
            requests, first, last = receiver.counts()
        return (requests - 1) / (last - first), (cpu - idle_cpu) / changes, most - idle

    def file(self, changes):
        config = self.prepared('[sinks.out]\ntype = "file"\npath = "out.ndjson"\n', 0)
        with self.benches.daemon(config) as daemon:
            time.sleep(2)
            idle, _ = memory(daemon.pid)
        with contextlib.closing(sqlite3.connect(config.parent / "mirror.db")) as store, store:
            insert(store, 1, changes, "created")
            last = store.execute("SELECT max(seq) FROM changes").fetchone()[0]
        out = config.parent / "out.ndjson"
        with self.benches.daemon(config) as daemon:
            wait_until(lambda: out.exists() and out.stat().st_size > 0, 60, "the first line")
            begun = time.monotonic()
            store = sqlite3.connect(f"file:{config.parent / 'mirror.db'}?mode=ro", uri=True)
            position = lambda: store.execute("SELECT position FROM sinks").fetchone()[0]
            wait_until(lambda: position() >= last, 120, "the last line")
            took = time.monotonic() - begun
            _, most = memory(daemon.pid)
        return changes / took, most - idle

    def run(self):
        """Prints every figure; returns those that miss their target."""
        missed = []

        def figure(name, text, reached):
            print(f"{name}: {text}{'' if reached else '  MISSED'}", flush=True)
            if not reached:
                missed.append(name)

        with Receiver(self.post, 0) as receiver:
            plain = max(bare(self.post, receiver) for _ in range(3))
        rate, cpu, more = self.webhook(0)
        figure("webhook", f"{rate:.0f}/s and {cpu * 1e6:.0f} µs of CPU each, {more:.1f} MiB above idle; bare loop {plain[0]:.0f}/s and {plain[1] * 1e6:.0f} µs: {rate / plain[0]:.2f} times", rate >= 0.6 * plain[0] and cpu <= 90e-6 and more <= 12)
        large, cpu, more = self.webhook(0, before=1_000_000)
        figure("a million in the log", f"{large:.0f}/s and {cpu * 1e6:.0f} µs of CPU each, {more:.1f} MiB above idle: {rate / large:.2f} times slower", rate / large <= 1.2 and more <= 12)
        ideal = CONCURRENCY / SLOW_MS * 1000
        slow, _, _ = self.webhook(SLOW_MS, changes=800)
        figure("a receiver that takes 50 ms", f"{slow:.1f}/s of {ideal:.0f}: {slow / ideal:.2f} times", slow >= 0.9 * ideal)
        lines, more = self.file(300_000)
        figure("file", f"{lines:.0f} lines a second, {more:.1f} MiB above idle", lines >= 100_000 and more <= 12)
        return missed
