"""The few shapes of statement that the store's functions share.

Each statement is built once for its shape and kept, since building one costs several times what
running it does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import asdict
from sqlalchemy import (
    JSON,
    ColumnElement,
    Executable,
    FromClause,
    Result,
    Row,
    Select,
    Table,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    insert,
    literal,
    select,
    update,
)

from gonogo.store.columns import Clean, WordColumn
from gonogo.store.schema import sessions
from gonogo.store.texts import Rows, packed_rows, whole_rows
from gonogo.store.transaction import Tx

# Several rows by one statement with one parameter, on PostgreSQL.
#
# Its driver binds and sends rows one by one, which takes several times what the database does for
# them. Here they go as one JSON text, which the database takes apart. SQLite has no such way, and
# needs none.

Params = Mapping[str, Any]
Converter = Callable[[Any], Any] | None
FEWEST = 3
"""Rows from which it is worth it."""
_TOGETHER = "postgresql"
_encode = Encoder().encode
_NUL = "\\u0000"
"""As JSON writes it; a text that is JSON itself may have it, and keeps it."""


def takes(tx: Tx, rows: Sequence[Params]) -> bool:
    """Whether these rows go together."""
    return len(rows) >= FEWEST and tx.conn.dialect.name == _TOGETHER


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
    tx.execute(_insert_of_many(table, names), _packed(table, {name: name for name in names}, rows))


def update_together(
    tx: Tx, table: Table, where: Sequence[str], to: Sequence[str], rows: Sequence[Params]
) -> int:
    """Set columns of rows, each where its `is_…` parameters hold, to its `to_…` parameters.

    Returns:
        How many rows were so.
    """
    shape = tuple(where), tuple(to)
    given = {f"is_{name}": name for name in where} | {f"to_{name}": name for name in to}
    return tx.execute(_update_of_many(table, *shape), _packed(table, given, rows)).rowcount


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
    from sqlalchemy.dialects.postgresql import dialect

    its = dialect()
    return table.c[name].type.dialect_impl(its).bind_processor(its)


@cache
def _insert_of_many(table: Table, names: tuple[str, ...]) -> Executable:
    given = _given(table, {name: name for name in names})
    return insert(table).from_select(list(names), select(*given.c))


@cache
def _update_of_many(table: Table, where: tuple[str, ...], to: tuple[str, ...]) -> Executable:
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


T = TypeVar("T")
_Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns that a change looks at, and those that it sets."""


def one(tx: Tx, statement: Executable, params: Params, record: type[T]) -> T | None:
    """The one row as a record, or None."""
    found = many(tx, statement, params, record)
    return found[0] if found else None


def many(tx: Tx, statement: Executable, params: Params, record: type[T]) -> list[T]:
    """The rows as records, in the statement's order."""
    return [record(**row) for row in whole_rows(tx, statement, params)]


def rows(tx: Tx, statement: Executable, params: Params) -> list[Row[Any]]:
    """The bare rows."""
    return list(tx.execute(statement, dict(params)).all())


def columns_of(table: Table, record: type[Struct]) -> list[ColumnElement[Any]]:
    """The columns that a record has fields for."""
    return [table.c[name] for name in record.__struct_fields__]


def among(column: ColumnElement[Any], words: Iterable[str]) -> ColumnElement[bool]:
    """Whether a column has one of these words, which are the same each time.

    A list that is handed to `in_` as it is may have any length, and so is never prepared.
    """
    return column.in_([literal(word, column.type) for word in words])


def found_in(
    tx: Tx, place: str | None, statement: Select[Any], session_id: ColumnElement[str]
) -> Result[Any]:
    """What a statement gives in the sessions of a place; in all of them for None.

    Args:
        session_id: The statement's column that names the session.
    """
    if place is None:
        return tx.execute(statement)
    return tx.execute(_in_place(statement, session_id), {"place": place})


@cache
def _in_place(statement: Select[Any], session_id: ColumnElement[str]) -> Select[Any]:
    own = select(sessions.c.id).where(sessions.c.place_id == bindparam("place"))
    return statement.where(session_id.in_(own))


@cache
def by(table: Table, record: type[Struct], *keys: str) -> Select[Any]:
    """`SELECT` a record's columns where each key column equals its parameter."""
    statement = select(*columns_of(table, record))
    for key in keys:
        statement = statement.where(table.c[key] == bindparam(key))
    return statement


def row_of(record: Struct) -> dict[str, Any]:
    """A record as the row that it is kept as."""
    return asdict(record)


def put(tx: Tx, table: Table, values: dict[str, Any] | Sequence[Params]) -> None:
    """Insert one row, or several of the same shape."""
    if values:
        put_packed(tx, table, packed_rows(tx, table, values))


def put_packed(tx: Tx, table: Table, packed: Rows) -> None:
    """Insert what is already as it is kept."""
    if not isinstance(packed, Mapping) and takes(tx, packed):
        insert_together(tx, table, packed)
    else:
        tx.execute(_insert(table), packed)


def change(tx: Tx, table: Table, where: Params, to: Params) -> bool:
    """Set columns where all of `where` still holds. False when no row is so any more.

    This is the compare-and-set of every state change: `where` names the row and the status (and
    epoch) that the caller saw.
    """
    shape = tuple(where), tuple(to)
    return tx.execute(_update(table, *shape), _params(shape, where, to)).rowcount > 0


def change_all(tx: Tx, table: Table, changes: Sequence[tuple[Params, Params]]) -> bool:
    """Set columns of several rows, each where all of its `where` still holds.

    Those that name the same columns are one statement. False when a row is so no more; what the
    others became is then for the caller to undo.
    """
    shapes: dict[_Shape, list[Params]] = {}
    for where, to in changes:
        shape = tuple(where), tuple(to)
        shapes.setdefault(shape, []).append(_params(shape, where, to))
    return all(
        _change_several(tx, table, *shape, params) == len(params)
        for shape, params in shapes.items()
    )


def _change_several(
    tx: Tx, table: Table, where: tuple[str, ...], to: tuple[str, ...], rows: Sequence[Params]
) -> int:
    if takes(tx, rows) and are_apart(table, rows):
        return update_together(tx, table, where, to, rows)
    return tx.execute(_update(table, where, to), rows).rowcount


def _params(shape: _Shape, where: Params, to: Params) -> Params:
    return dict(zip(_names(*shape), (*where.values(), *to.values()), strict=True))


@cache
def _names(where: tuple[str, ...], to: tuple[str, ...]) -> tuple[str, ...]:
    """How the parameters of a change are named."""
    return (*(f"is_{name}" for name in where), *(f"to_{name}" for name in to))


def insert_for(dialect: str) -> Any:  # noqa: ANN401 - each dialect has its own
    """The `insert` that knows what to do about a row that is there; brings its dialect alone."""
    return import_module(f"sqlalchemy.dialects.{dialect}").insert


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
