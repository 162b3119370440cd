#!/usr/bin/env python3
"""A webhook's receiver for `benches/run`, in a process of its own: `receiver.py [STATUS]` answers every POST with it.

It prints its port. `GET /` answers with the time of the first and the last POST that it got, their number, and how
many seconds after `observed_at` each event of the kind `created` or `updated` arrived. Standard library only.
"""

import asyncio
import datetime
import json
import sys
import time

STATUS = sys.argv[1] if len(sys.argv) > 1 else "204"
seen = {"first": None, "last": None, "count": 0, "delays": []}


def take(body):
    now = time.time()
    seen["first"] = seen["first"] or now
    seen["last"] = now
    seen["count"] += 1
    event = json.loads(body)
    if event.get("data", {}).get("kind") in ("created", "updated"):
        at = datetime.datetime.fromisoformat(event["data"]["observed_at"].replace("Z", "+00:00"))
        seen["delays"].append(now - at.timestamp())


async def serve(reader, writer):
    while head := await reader.readuntil(b"\r\n\r\n"):
        lines = head.decode().lower().split("\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        if lines[0].startswith("get"):
            text = json.dumps(seen).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))
        else:
            take(body)
            writer.write(f"HTTP/1.1 {STATUS} x\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()


async def guarded(reader, writer):
    try:
        await serve(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
