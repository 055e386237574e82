"""A database that an older gonogo made and left in the middle of its work."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine

from gonogo.store.migrate import _FOLDER

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
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    upgrade(engine, "0003")
    engine.dispose()
    dump = _DUMP.read_text(encoding="utf-8")
    places = ";".join(place.format(workspace) for place in _PLACES)
    if url.startswith("sqlite:///"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.executescript(f"BEGIN;{dump};{places};COMMIT")
        file.close()
        return
    serials = ";".join(_SERIALS.format(name) for name in ("messages", "file_changes"))
    with psycopg.connect(url) as conn:
        conn.execute(f"{dump};{places};{serials}".encode())


def upgrade(engine: Engine, version: str) -> None:
    """Bring a database to a version of the schema."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, version)
