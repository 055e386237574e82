"""Several rows by one statement with one parameter, on PostgreSQL.

Its driver binds and sends rows one by one, which takes several times what the database does for
them. Here they go as one JSON text, which the database takes apart. SQLite has no such way, and
needs none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.json import Encoder
from sqlalchemy import (
    JSON,
    Executable,
    FromClause,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import dialect

from gonogo.store.columns import Clean, WordColumn
from gonogo.store.transaction import Tx

Params = Mapping[str, Any]
Converter = Callable[[Any], Any] | None
FEWEST = 3
"""Rows from which it is worth it."""
_DIALECT = dialect()
_encode = Encoder().encode
_NUL = "\\u0000"
"""As JSON writes it; a text that is JSON itself may have it, and keeps it."""


def takes(tx: Tx, rows: Sequence[Params]) -> bool:
    """Whether these rows go together."""
    return len(rows) >= FEWEST and tx.conn.dialect.name == _DIALECT.name


def are_apart(table: Table, rows: Sequence[Params]) -> bool:
    """Whether `is_…` parameters name each row of the table at most once, by its primary key.

    One that is changed twice is changed by the second on what the first has made of it.
    """
    keys = [f"is_{column.name}" for column in table.primary_key]
    named = all(key in rows[0] for key in keys)
    return named and len({tuple(row[key] for key in keys) for row in rows}) == len(rows)


def insert_together(tx: Tx, table: Table, rows: Sequence[Params]) -> None:
    """Insert rows of the same shape, in their order."""
    names = tuple(rows[0])
    tx.execute(_insert(table, names), _packed(table, {name: name for name in names}, rows))


def update_together(
    tx: Tx, table: Table, where: Sequence[str], to: Sequence[str], rows: Sequence[Params]
) -> int:
    """Set columns of rows, each where its `is_…` parameters hold, to its `to_…` parameters.

    Returns:
        How many rows were so.
    """
    shape = tuple(where), tuple(to)
    given = {f"is_{name}": name for name in where} | {f"to_{name}": name for name in to}
    return tx.execute(_update(table, *shape), _packed(table, given, rows)).rowcount


def _packed(table: Table, given: Mapping[str, str], rows: Sequence[Params]) -> dict[str, str]:
    converters = [(name, _converter(table, of)) for name, of in given.items()]
    text = _text(converters, rows)
    if text is None or _NUL in text:
        # What only one of the databases could keep is looked for in each text by itself.
        thorough = [(name, _processor(table, of)) for name, of in given.items()]
        text = _text(thorough, rows)
    return {"rows": text or ""}


def _text(converters: Sequence[tuple[str, Converter]], rows: Sequence[Params]) -> str | None:
    found = [
        {name: row[name] if convert is None else convert(row[name]) for name, convert in converters}
        for row in rows
    ]
    try:
        return _encode(found).decode()
    except UnicodeEncodeError:
        return None


@cache
def _converter(table: Table, name: str) -> Converter:
    """What makes a value ready; None for texts, which nearly always are."""
    kind = table.c[name].type
    return None if isinstance(kind, Clean | WordColumn) else _processor(table, name)


@cache
def _processor(table: Table, name: str) -> Converter:
    return table.c[name].type.dialect_impl(_DIALECT).bind_processor(_DIALECT)


@cache
def _insert(table: Table, names: tuple[str, ...]) -> Executable:
    given = _given(table, {name: name for name in names})
    return insert(table).from_select(list(names), select(*given.c))


@cache
def _update(table: Table, where: tuple[str, ...], to: tuple[str, ...]) -> Executable:
    given = _given(
        table, {f"is_{name}": name for name in where} | {f"to_{name}": name for name in to}
    )
    statement = update(table).where(*(table.c[name] == given.c[f"is_{name}"] for name in where))
    return statement.values({name: given.c[f"to_{name}"] for name in to})


def _given(table: Table, names: Mapping[str, str]) -> FromClause:
    """The rows of the parameter, as a table."""
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text()), JSON))
    columns = [column(name, table.c[of].type) for name, of in names.items()]
    return rows.table_valued(*columns).render_derived(with_types=True)
