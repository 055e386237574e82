"""Bring a database to the current schema; refuse one that this code cannot read.

An empty database gets the tables of the current schema. A database of an earlier schema is upgraded
step by step. Both are one transaction: if two processes start at once, the second finds nothing to
do.

The upgrade also works while processes share the work, if their code can use the new schema: a step
expands the schema, and only a step of a later version removes what older code needs.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gonogo.domain.errors import Conflict
from gonogo.store.outage import is_away, raise_told
from gonogo.store.schema import METADATA

HEAD = "0013"
EXPANDED_FROM = "0011"
"""Code of this schema and of later ones can use the current schema too, as the steps since then
only add things. A step that removes something must raise this to the first schema whose code does
not need that."""
BASE = "0003"
"""The schema before the first step."""
_LOCK = 0x676F6E6F676F
_NO_TABLE = "42P01"
_SHORT = "SET LOCAL lock_timeout = 300"
"""Milliseconds. Others wait behind a step no longer; PostgreSQL seeks deadlocks only later."""
_HOLD_VERSION = "LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"
_PAUSE = 0.2
_VERSION = text("SELECT version_num FROM alembic_version")
_VERSIONS = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
"""Alembic's table: every gonogo reads the version there."""


def version_of(engine: Engine) -> str | None:
    """The schema version that the database names; None for an empty database.

    Plain SQL: importing Alembic costs more than half a second.

    Raises:
        Busy: the database is away, so nobody knows whether it is empty.
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
            # Look again: another process may have made or upgraded it meanwhile.
            if not inspect(conn).has_table("alembic_version"):
                _make(conn)
            elif (version := conn.execute(_VERSION).scalar()) != HEAD:
                _upgrade(conn, version)
    except SQLAlchemyError as error:
        raise_told(error)


def migrate_beside(
    engine: Engine, sharers: Callable[[], Mapping[str, str]], seconds: float
) -> None:
    """Bring the database to the current schema while other processes share the work there.

    Args:
        sharers: Returns, by the name of each process, the schema of its code. A process that joins
            later checks the database's version itself.
        seconds: How long to try while others lock the tables.

    Raises:
        Conflict: a process has code that cannot use the new schema; or as `migrate` does.
        Busy: the database is away, or too much in use; nothing has changed.
    """
    until = monotonic() + seconds
    while (version := version_of(engine)) != HEAD:
        _check(version)
        try:
            with _alone(engine) as conn:
                conn.exec_driver_sql(_SHORT)
                conn.exec_driver_sql(_HOLD_VERSION)
                _check_expanded(sharers())
                if (version := conn.execute(_VERSION).scalar()) != HEAD:
                    _upgrade(conn, version)
        except SQLAlchemyError as error:
            if not is_away(error) or monotonic() > until:
                raise_told(error)
            sleep(_PAUSE)


def check_known(engine: Engine) -> str | None:
    """The schema version that the database has, if this code can use it; None for an empty one.

    Raises:
        Conflict: a newer gonogo made the database, or one that is too old.
        Busy: the database is away.
    """
    version = version_of(engine)
    _check(version)
    return version


def _check_expanded(sharers: Mapping[str, str]) -> None:
    # A process whose name has no schema is of a version that did not write it yet.
    older = [n for n, schema in sharers.items() if len(schema) != 4 or schema < EXPANDED_FROM]
    if older:
        raise Conflict(
            "The new schema removes what these processes still use: {processes}. Stop them, then "
            "try again",
            processes=", ".join(sorted(" ".join(name.split()[:4]) for name in older)),
        )


def _check(version: str | None) -> None:
    if version in (None, BASE, HEAD):
        return
    from gonogo.store.steps import STEPS

    if version in STEPS:
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
    _set_version(conn)


def _upgrade(conn: Connection, version: str | None) -> None:
    # Imported late: see `version_of`.
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    from gonogo.store.steps import STEPS

    op = Operations(MigrationContext.configure(conn, opts={"target_metadata": METADATA}))
    for made, step in STEPS.items():
        if version is None or made > version:
            step(op)
    conn.exec_driver_sql("DELETE FROM alembic_version")
    _set_version(conn)


def _set_version(conn: Connection) -> None:
    conn.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')")  # noqa: S608
