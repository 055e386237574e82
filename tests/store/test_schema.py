"""The schema: what migrations make is what the code means, and a newer one is left alone."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from gonogo.domain.errors import Conflict
from gonogo.store import Store
from gonogo.store.migrate import HEAD, version_of
from gonogo.store.schema import METADATA
from gonogo.store.sqlite import _engine
from plugins.nightly import examples

SOURCE = Path(__file__).parents[2] / "src"
OPEN = """
import sys
import gonogo.store.steps
from gonogo.store import Store
print("ready", flush=True)
sys.stdin.readline()
Store(sys.argv[1], patience=30).close()
"""


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def differences(engine: Engine) -> list[object]:
    with engine.connect() as conn:
        context = MigrationContext.configure(
            conn, opts={"compare_type": True, "compare_server_default": True}
        )
        return compare_metadata(context, METADATA)


def test_migrations_from_nothing_make_the_schema_of_the_code(empty_url):
    Store(empty_url).close()
    engine = engine_of(empty_url)

    assert differences(engine) == []
    assert version_of(engine) == HEAD
    engine.dispose()


def test_an_empty_database_has_no_version(empty_url):
    engine = engine_of(empty_url)

    assert version_of(engine) is None
    assert differences(engine) != []
    engine.dispose()


def test_opening_again_changes_nothing(database_url, engine):
    Store(database_url).close()
    Store(database_url).close()

    assert differences(engine) == []


def test_a_database_of_a_newer_version_is_refused_and_left_alone(empty_url):
    Store(empty_url).close()
    engine = engine_of(empty_url)
    with engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(
        Conflict,
        match=f"^The database has the schema 9999, newer than {HEAD}: upgrade gonogo to use it$",
    ):
        Store(empty_url)
    assert version_of(engine) == "9999"
    engine.dispose()


def test_every_sqlite_table_is_strict(tmp_path):
    url = f"sqlite:///{tmp_path / 'odd % name?x=1.db'}"
    Store(url).close()
    assert (tmp_path / "odd % name?x=1.db").exists()
    engine = create_engine("sqlite://", connect_args={}, creator=lambda: _connect(tmp_path))
    with engine.connect() as conn:
        found = conn.execute(
            text("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
        ).all()
    engine.dispose()
    loose = {row.name for row in found if not row.strict}

    assert loose - {"alembic_version"} == {"sqlite_schema"}
    assert {table.name for table in METADATA.sorted_tables} <= {row.name for row in found}


def _connect(folder: Path):
    import sqlite3

    return sqlite3.connect(folder / "odd % name?x=1.db")


def test_processes_that_start_at_once_make_one_schema(empty_url):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, empty_url],
            env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(examples(2, nightly=3))
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == b"ready\n"
    for each in processes:
        assert each.stdin is not None
        each.stdin.write(b"go\n")
        each.stdin.flush()
    said = [each.communicate(timeout=60)[1].decode() for each in processes]
    engine = engine_of(empty_url)

    assert {each.returncode for each in processes} == {0}, said
    assert differences(engine) == []
    engine.dispose()


def test_of_connections_that_open_a_new_file_at_once_none_is_refused(tmp_path):
    together = threading.Barrier(4)

    def open_each() -> list[str]:
        found = []
        for n in range(60):
            engine = _engine(tmp_path / f"{n}.db", 10)
            together.wait(60)
            with engine.connect() as conn:
                found.append(conn.exec_driver_sql("PRAGMA journal_mode").scalar())
            engine.dispose()
        return found

    with ThreadPoolExecutor(together.parties) as pool:
        opened = [pool.submit(open_each) for _ in range(together.parties)]
        assert [each.result(60) for each in opened] == [["wal"] * 60] * together.parties


def test_a_file_that_stays_locked_is_not_waited_for_without_end(tmp_path):
    with sqlite3.connect(tmp_path / "held.db", isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        engine = _engine(tmp_path / "held.db", 0.05)
        with pytest.raises(OperationalError, match="locked"), engine.connect():
            pass
        holder.execute("ROLLBACK")
