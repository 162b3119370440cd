#!/usr/bin/env python3
"""The script that a shop would write instead: poll, parse, insert one row per new record.

    loop.py BASE_URL KEY DATABASE ROUTES POLLS PAUSE_MS

`benches/run` compares the daemon with it. It keeps no log, notices no edit, and does not check for gaps.
"""

import json
import sqlite3
import sys
import time

import requests

base_url, key, database, routes, polls, pause_ms = sys.argv[1:]
store = sqlite3.connect(database, isolation_level=None)
store.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
workspace = requests.Session()
workspace.headers["authorization"] = f"Bearer {key}"
for _ in range(int(polls)):
    for route in routes.split(","):
        address = f"{base_url}/automation/triggers/{route}"
        page = workspace.get(address, params={"limit": 100}, timeout=30)
        page.raise_for_status()
        store.execute("BEGIN IMMEDIATE")
        store.execute(f'CREATE TABLE IF NOT EXISTS "{route}" (id PRIMARY KEY, body)')
        rows = [(record["id"], json.dumps(record)) for record in page.json()]
        store.executemany(f'INSERT OR IGNORE INTO "{route}" VALUES (?, ?)', rows)
        store.execute("COMMIT")
    time.sleep(int(pause_ms) / 1000)
