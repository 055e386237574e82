"""Bring a database to the current schema; refuse one that this code cannot read.

An empty one is given the tables of the schema as they are now. One of an earlier schema is brought
up step by step. Either is one transaction: of two processes that start at once the second finds
nothing to do.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gonogo.domain.errors import Conflict
from gonogo.store.outage import raise_told
from gonogo.store.schema import METADATA

HEAD = "0012"
BASE = "0003"
"""The schema that the first of the steps begins with."""
_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x676F6E6F676F
_NO_TABLE = "42P01"
_VERSION = text("SELECT version_num FROM alembic_version")
_VERSIONS = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
"""Alembic's table, by whose name every gonogo looks for the version."""


def version_of(engine: Engine) -> str | None:
    """The schema version that the database says it has; None for an empty one.

    Plain SQL: importing Alembic costs more than half a second.

    Raises:
        Busy: the database is away, which is not to be empty.
    """
    try:
        with engine.connect() as conn:
            return conn.execute(_VERSION).scalar()
    except DBAPIError as error:
        if _says_that_there_is_no_table(error):
            return None
        raise_told(error)


def is_current(engine: Engine) -> bool:
    """Whether the database has the schema of this code.

    Raises:
        Busy: the database is away.
    """
    return version_of(engine) == HEAD


def migrate(engine: Engine) -> None:
    """Bring the database to the current schema.

    Raises:
        Conflict: a newer gonogo made the database, or one that is too old.
        Busy: the database is away; nothing has changed.
    """
    version = version_of(engine)
    if version == HEAD:
        return
    _check(version)
    try:
        with _alone(engine) as conn:
            # What another process did meanwhile is done.
            if not inspect(conn).has_table("alembic_version"):
                _make(conn)
            elif (version := conn.execute(_VERSION).scalar()) != HEAD:
                _upgrade(conn, version)
    except SQLAlchemyError as error:
        raise_told(error)


def _check(version: str | None) -> None:
    if version is None or version == BASE:
        return
    known = {path.name.split("_")[0] for path in (_FOLDER / "versions").glob("[0-9]*.py")}
    if version in known:
        return
    if version < BASE:
        raise Conflict(
            "The database has the schema {version}, older than {base}, which this gonogo cannot "
            "read; use another database",
            version=version, base=BASE,
        )  # fmt: skip
    raise Conflict(
        "The database has the schema {version}, newer than {head}: upgrade gonogo to use it",
        version=version, head=HEAD,
    )  # fmt: skip


def _says_that_there_is_no_table(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _NO_TABLE or "no such table" in str(error.orig)


@contextmanager
def _alone(engine: Engine) -> Generator[Connection]:
    """A transaction in which nobody else changes the schema."""
    with engine.connect() as conn, conn.begin():
        if engine.dialect.name == "sqlite":
            conn.exec_driver_sql("BEGIN IMMEDIATE")
            yield conn
            conn.exec_driver_sql("COMMIT")
        else:
            conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield conn


def _make(conn: Connection) -> None:
    METADATA.create_all(conn)
    conn.exec_driver_sql(_VERSIONS)
    conn.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')")  # noqa: S608


def _upgrade(conn: Connection, version: str | None) -> None:
    # Imported late: see `version_of`.
    from alembic import command
    from alembic.config import Config

    if version == BASE:
        conn.exec_driver_sql("DELETE FROM alembic_version")
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, "head")
