"""Bring a database to the current schema; refuse one that is newer than this code."""

from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from gonogo.domain.errors import Conflict

HEAD = "0004"
_FOLDER = Path(__file__).parent / "migrations"


def version_of(engine: Engine) -> str | None:
    """The schema version that the database says it has; None for an empty one.

    Plain SQL: importing Alembic costs more than half a second.
    """
    try:
        with engine.connect() as conn:
            return conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
    except DBAPIError:
        return None


def migrate(engine: Engine) -> None:
    """Bring the database to the current schema, one transaction for all of it.

    Raises:
        Conflict: the database was made by a newer gonogo.
    """
    version = version_of(engine)
    if version == HEAD:
        return
    known = {path.name.split("_")[0] for path in (_FOLDER / "versions").glob("[0-9]*.py")}
    if version is not None and version not in known:
        raise Conflict(
            f"The database has the schema {version}, newer than {HEAD}: upgrade gonogo to use it"
        )
    _upgrade(engine)


def _upgrade(engine: Engine) -> None:
    # Imported late: see `version_of`.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
