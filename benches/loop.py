#!/usr/bin/env python3
"""The script that a shop would write instead: poll, parse, insert one row per new record.

    loop.py BASE_URL KEY DATABASE ROUTES POLLS PAUSE_MS

`benches/run` compares the daemon with it. It uses one connection and the SQLite settings of the daemon. It keeps no
log, notices no edit, and does not check for gaps. Standard library only.
"""

import http.client
import json
import sqlite3
import sys
import time
import urllib.parse

base, key, database, routes, polls, pause_ms = sys.argv[1:]
address = urllib.parse.urlsplit(base)
store = sqlite3.connect(database, isolation_level=None)
store.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
connection = http.client.HTTPConnection(address.hostname, address.port)
for _ in range(int(polls)):
    for route in routes.split(","):
        path = f"{address.path}/automation/triggers/{route}?limit=100"
        connection.request("GET", path, headers={"authorization": f"Bearer {key}"})
        records = json.loads(connection.getresponse().read())
        store.execute("BEGIN IMMEDIATE")
        store.execute(f'CREATE TABLE IF NOT EXISTS "{route}" (id PRIMARY KEY, body)')
        rows = [(str(record["id"]), json.dumps(record)) for record in records]
        store.executemany(f'INSERT OR IGNORE INTO "{route}" VALUES (?, ?)', rows)
        store.execute("COMMIT")
    time.sleep(int(pause_ms) / 1000)
