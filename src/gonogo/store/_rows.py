"""The few shapes of statement that the store's functions share.

Each statement is built once for its shape and kept, since building one costs several times what
running it does.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Row,
    Table,
    Update,
    bindparam,
    insert,
    select,
    update,
)

T = TypeVar("T")
Params = Mapping[str, Any]


def one(conn: Connection, statement: Executable, params: Params, record: type[T]) -> T | None:
    """The one row as a record, or None."""
    row = conn.execute(statement, dict(params)).one_or_none()
    return None if row is None else record(**row._mapping)


def many(conn: Connection, statement: Executable, params: Params, record: type[T]) -> list[T]:
    """The rows as records, in the statement's order."""
    return [record(**row._mapping) for row in conn.execute(statement, dict(params))]


def rows(conn: Connection, statement: Executable, params: Params) -> list[Row[Any]]:
    """The bare rows."""
    return list(conn.execute(statement, dict(params)).all())


def columns_of(table: Table, record: type) -> list[ColumnElement[Any]]:
    """The columns that a record has fields for."""
    names = record.__dataclass_fields__.keys()  # type: ignore[attr-defined]
    return [table.c[name] for name in names]


@cache
def by(table: Table, record: type, *keys: str) -> Executable:
    """`SELECT` a record's columns where each key column equals its parameter."""
    statement = select(*columns_of(table, record))
    for key in keys:
        statement = statement.where(table.c[key] == bindparam(key))
    return statement


def put(conn: Connection, table: Table, values: Params | Iterable[Params]) -> None:
    """Insert one row, or several of the same shape."""
    given = dict(values) if isinstance(values, Mapping) else [dict(row) for row in values]
    if given:
        conn.execute(_insert(table), given)


def change(conn: Connection, table: Table, where: Params, to: Params) -> bool:
    """Set columns where all of `where` still holds. False when no row is so any more.

    This is the compare-and-set of every state change: `where` names the row and the status (and
    epoch) that the caller saw.
    """
    statement = _update(table, tuple(where), tuple(to))
    params = {f"is_{name}": value for name, value in where.items()}
    params |= {f"to_{name}": value for name, value in to.items()}
    return conn.execute(statement, params).rowcount > 0


@cache
def _insert(table: Table) -> Executable:
    return insert(table)


@cache
def _update(table: Table, where: tuple[str, ...], to: tuple[str, ...]) -> Update:
    statement = update(table)
    for name in where:
        statement = statement.where(
            table.c[name] == bindparam(f"is_{name}", type_=table.c[name].type)
        )
    return statement.values(
        {name: bindparam(f"to_{name}", type_=table.c[name].type) for name in to}
    )
