"""What all tables share: their names for what they hold, and how they are made."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, UniqueConstraint

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMES)
SERIAL = Integer().with_variant(BigInteger(), "postgresql")


def table(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    """A table whose columns hold on SQLite only what their type says."""
    return Table(name, METADATA, *columns, sqlite_strict=True)
