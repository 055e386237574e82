"""The yardstick: what the bare driver takes to make one row durable on the same disk."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import psycopg

from bench._rig import median

_ROWS = 200


def commit_ms() -> float:
    """Milliseconds for one INSERT and its COMMIT: SQLite, WAL, synchronous=FULL, no library."""
    with TemporaryDirectory() as folder:
        conn = sqlite3.connect(Path(folder) / "yardstick.db", isolation_level=None)
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=FULL")
        conn.execute("CREATE TABLE steps (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")
        took = _each(conn.execute, "BEGIN IMMEDIATE")
        conn.close()
    return took


def postgres_commit_ms(url: str) -> float:
    """Milliseconds for the same on the PostgreSQL at an address, as `pgbench` does it."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE steps (id bigserial PRIMARY KEY, body text NOT NULL)")
        took = _each(partial(conn.execute, prepare=True), "BEGIN")
        conn.execute("DROP TABLE steps")
    return took


def _each(execute: Callable[[str], object], begin: str) -> float:
    return median([_one(execute, begin) for _ in range(_ROWS)]) * 1000


def _one(execute: Callable[..., object], begin: str) -> float:
    began = perf_counter()
    execute(begin)
    execute('INSERT INTO steps (body) VALUES (\'{"output": "done"}\')')
    execute("COMMIT")
    return perf_counter() - began
