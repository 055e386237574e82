"""Bring a database to the current schema; refuse one that this code cannot read.

An empty one is given the tables of the schema as they are now. One of an earlier schema is brought
up step by step. Either is one transaction: of two processes that start at once the second finds
nothing to do.

Under processes that share the work it goes up too, as long as their code can work with the new one:
a step expands the schema, and what older code needs is taken away by a step of a later version.
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
"""Code of this schema, and of later ones, works with the current one too: the steps since only add
what older code need not know. A step that takes something away counts this up to the first schema
whose code does not need it."""
BASE = "0003"
"""The schema that the first of the steps begins with."""
_LOCK = 0x676F6E6F676F
_NO_TABLE = "42P01"
_SHORT = "SET LOCAL lock_timeout = 300"
"""Milliseconds. Whoever waits behind a step waits no longer, and no deadlock is looked for yet."""
_HOLD_VERSION = "LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"
_PAUSE = 0.2
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


def migrate_beside(
    engine: Engine, sharers: Callable[[], Mapping[str, str]], seconds: float
) -> None:
    """Bring the database to the current schema under processes that share the work there.

    Args:
        sharers: By name the schema of the code of each; whoever joins them later looks at the
            version of the database then.
        seconds: How long it is tried while they hold what is changed.

    Raises:
        Conflict: one of them has code that could not go on; or as `migrate` does.
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
    # What says nothing of itself is of a version that did not yet.
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
