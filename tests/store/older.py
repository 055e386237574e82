"""A database that an older gonogo made and left in the middle of its work."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg

_SCHEMA = Path(__file__).with_name("schema_0003.sql")
_DUMP = Path(__file__).with_name("database_0003.sql")
KILLED = datetime(2026, 1, 5, 12, 0, 2, tzinfo=UTC)
"""When it was killed."""
OPEN, RUNNING, GONE = "open", "running", "gone"
"""Its sessions: one with a plan that waits, one with a plan that runs, one that was deleted."""
FILES = {"first.txt": "first\n", "works.txt": "half\n", "todo.txt": "shoes\n"}
"""What was in its workspace."""
_PLACES = (
    "UPDATE sessions SET workspace = '{0}'",
    "UPDATE file_changes SET workspace = '{0}'",
)
_SERIALS = "SELECT setval(pg_get_serial_sequence('{0}', 'id'), (SELECT max(id) FROM {0}))"


def load(url: str, workspace: Path) -> None:
    """Make the database at a URL where there is none, and the workspace that it speaks of."""
    workspace.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (workspace / name).write_text(text)
    dump = _DUMP.read_text(encoding="utf-8")
    places = ";".join(place.format(workspace) for place in _PLACES)
    serials = ";".join(_SERIALS.format(name) for name in ("messages", "file_changes"))
    make(url, f"{dump};{places}", "" if url.startswith("sqlite") else serials)


def make(url: str, *statements: str) -> None:
    """Make a database of the older schema at a URL, and run statements on it."""
    schema = _SCHEMA.read_text(encoding="utf-8")
    if not url.startswith("sqlite:///"):
        with psycopg.connect(url) as conn:
            conn.execute(";".join([schema, *statements]).encode())
        return
    schema = schema.replace("\n);", "\n) STRICT;")
    for word in ("BIGSERIAL", "BIGINT"):
        schema = schema.replace(word, "INTEGER")
    schema = schema.replace("VARCHAR(32)", "TEXT")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        file.executescript(";".join(["BEGIN", schema, *statements, "COMMIT"]))
