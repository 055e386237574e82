"""Bring a database to the current schema; refuse one that is newer than this code."""

from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gonogo.domain.errors import Conflict
from gonogo.store.outage import raise_told

HEAD = "0005"
_FOLDER = Path(__file__).parent / "migrations"
_NO_TABLE = "42P01"


def version_of(engine: Engine) -> str | None:
    """The schema version that the database says it has; None for an empty one.

    Plain SQL: importing Alembic costs more than half a second.

    Raises:
        Busy: the database is away, which is not to be empty.
    """
    try:
        with engine.connect() as conn:
            return conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
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
    """Bring the database to the current schema, one transaction for all of it.

    Raises:
        Conflict: the database was made by a newer gonogo.
        Busy: the database is away; nothing has changed.
    """
    version = version_of(engine)
    if version == HEAD:
        return
    known = {path.name.split("_")[0] for path in (_FOLDER / "versions").glob("[0-9]*.py")}
    if version is not None and version not in known:
        raise Conflict(
            f"The database has the schema {version}, newer than {HEAD}: upgrade gonogo to use it"
        )
    try:
        _upgrade(engine)
    except SQLAlchemyError as error:
        raise_told(error)


def _says_that_there_is_no_table(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _NO_TABLE or "no such table" in str(error.orig)


def _upgrade(engine: Engine) -> None:
    # Imported late: see `version_of`.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
