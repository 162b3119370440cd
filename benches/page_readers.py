"""The readers of benches/page: browsers on the event stream, and people who open other pages.

A process of its own, so that reading takes no turn from the stand-in whose answers are timed. It is started with
the page's address, the number of streams, the number of people and the pause between two of their requests in
seconds; each line of its standard input, `on` or `off`, opens or closes everything. It prints `on` when every
stream has had its first event and, when its input ends, what it has read as JSON.
"""

import http.client
import json
import os
import selectors
import socket
import sys
import threading
import time

# What people open. `{id}` is a record that exists.
PAGES = [
    "/", "/report?name=intake", "/records?route=jobs", "/records?q=Smith", "/report?name=open-repairs",
    "/records?route=jobs&sort=created_at&page=3", "/report?name=mirror", "/record?route=jobs&id={id}",
    "/records?route=jobs&column=status&text=ready", "/report?name=busiest-hours", "/records?q=iPhone", "/reports",
]


class Streams:
    """So many event streams, read by one thread; what they say is thrown away."""

    def __init__(self, host, count):
        name, port = host.split(":")
        self.selector, self.bytes, self.closed = selectors.DefaultSelector(), 0, False
        self.waiting = set()
        for _ in range(count):
            stream = socket.create_connection((name, int(port)), timeout=30)
            stream.sendall(f"GET /live HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n".encode())
            self.selector.register(stream, selectors.EVENT_READ)
            self.waiting.add(stream)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.closed:
            for key, _ in self.selector.select(0.2):
                piece = key.fileobj.recv(1 << 20)
                if not piece:
                    print("a stream was closed", file=sys.stderr)
                    self.selector.unregister(key.fileobj)
                self.bytes += len(piece)
                if b"event: page" in piece:
                    self.waiting.discard(key.fileobj)

    def close(self):
        self.closed = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


class People:
    """Each opens one page after another, with a pause between them."""

    def __init__(self, host, count, pause, record):
        self.host, self.pause, self.stop = host, pause, threading.Event()
        self.pages = [page.replace("{id}", record) for page in PAGES]
        self.took, self.refused = [], 0
        self.threads = [threading.Thread(target=self.read, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def read(self, number):
        place = number * 5
        while not self.stop.wait(self.pause):
            begun = time.monotonic()
            connection = http.client.HTTPConnection(self.host, timeout=60)
            connection.request("GET", self.pages[place % len(self.pages)])
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status == 200:
                self.took.append((self.pages[place % len(self.pages)], time.monotonic() - begun))
            else:
                self.refused += 1
            place += 1

    def close(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def main():
    host, streams, people, pause, record = sys.argv[1:]
    # Browsers run on other machines: what they cost is not to slow the daemon.
    os.nice(10)
    read, refused, sent, running = {}, 0, 0, []
    for line in sys.stdin:
        if line.strip() == "on":
            live = Streams(host, int(streams))
            while live.waiting:
                time.sleep(0.05)
            running = [live, People(host, int(people), float(pause), record)]
            print("on", flush=True)
        else:
            for one in running:
                one.close()
            live, persons = running
            sent += live.bytes
            refused += persons.refused
            for page, took in persons.took:
                read.setdefault(page, []).append(took)
            print("off", flush=True)
    print(json.dumps({"stream_bytes": sent, "refused": refused, "pages": read}))


if __name__ == "__main__":
    main()
