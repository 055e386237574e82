"""The yardstick: what the bare driver takes to make one row durable on the same disk."""

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench._rig import median

_ROWS = 200


def commit_ms() -> float:
    """Milliseconds for one INSERT and its COMMIT: SQLite, WAL, synchronous=FULL, no library."""
    with TemporaryDirectory() as folder:
        conn = sqlite3.connect(Path(folder) / "yardstick.db", isolation_level=None)
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=FULL")
        conn.execute("CREATE TABLE steps (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")
        took = [_one(conn) for _ in range(_ROWS)]
        conn.close()
    return median(took) * 1000


def _one(conn: sqlite3.Connection) -> float:
    began = perf_counter()
    conn.execute("BEGIN IMMEDIATE")
    conn.execute('INSERT INTO steps (body) VALUES (\'{"output": "done"}\')')
    conn.execute("COMMIT")
    return perf_counter() - began
