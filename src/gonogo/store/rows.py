"""The few kinds of statement that the store's functions share.

Each statement is built once and kept: to build one costs several times as much as to run it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, cast

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
    column,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy import (
    cast as sql_cast,
)

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.base import loads
from gonogo.domain.errors import Refused
from gonogo.store.columns import Clean, Packed, Shared, WordColumn, Written, clean, json_text
from gonogo.store.schema import sessions, texts
from gonogo.store.transaction import Tx

# Long texts are stored once for each session.
#
# The same text of a model is in its reply, in its call, in the event that tells of the call, and in
# the audit entry that allows it. In a column of type `Shared`, a long string is stored in the table
# `texts`, and the row only refers to it; whoever reads the row gets the string. Rows without
# references are plain JSON, like the rows from before that table.
#
# A string that is itself JSON (a model's arguments, as it wrote them) is stored as its value, if
# that gives the same string again; so the long texts within it are stored once too.

LONG = 256
"""Strings of at least so many characters go into `texts`; for shorter ones it saves nothing."""
_LONG_STRING = re.compile(f'"[^"]{{{LONG}}}')
"""For JSON without escapes; besides strings it matches only many numbers in a row."""
_AT_ONCE = 16
_DEEPEST = 64
"""How many levels of a value are searched for long texts."""
_MARK = "$"
"""The only key of an object that stands for another value: `{"$": [how, what]}`."""
_TEXT, _JSON, _ITSELF = "text", "json", "itself"
_REFERENCE = re.compile(rf'{{"\{_MARK}":\["{_TEXT}","([0-9a-f]{{32}})"\]}}')
"""A reference to a long text, as JSON."""
_COMPACT = (",", ":")
_FORMS: tuple[Mapping[str, Any], ...] = (
    {"ensure_ascii": False},
    {"ensure_ascii": False, "separators": _COMPACT},
    {},
    {"separators": _COMPACT},
)
"""The styles in which programs write JSON, as options of `json.dumps`."""

_NEW = {name: bindparam(f"new_{name}", type_=Clean()) for name in ("digest", "session_id", "text")}
_ADD = insert(texts).from_select(
    list(_NEW), select(*_NEW.values()).where(~exists().where(texts.c.digest == _NEW["digest"]))
)
_PLACES = [f"digest_{place}" for place in range(_AT_ONCE)]
_FIND = select(texts.c.digest, texts.c.text).where(
    texts.c.digest.in_([bindparam(place, type_=Clean()) for place in _PLACES])
)


Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def packed_rows(tx: Tx, table: Table, rows: Rows) -> Rows:
    """Rows to insert, with references to their long texts, which are stored in `texts`."""
    if not _shared(table):
        return rows
    if isinstance(rows, Mapping):
        return packed_row(tx, table, rows[_owner(table)], rows)
    return [packed_row(tx, table, row[_owner(table)], row) for row in rows]


def packed_row(tx: Tx, table: Table, session_id: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row, or some columns of it, with references to its long texts; see `packed_rows`."""
    if session_id == SYSTEM:
        return row
    written = {name: json_text(row[name]) for name in _shared(table) if row.get(name)}
    found: dict[str, str] = {}
    kept = {name: _kept(session_id, row[name], text, found) for name, text in written.items()}
    _keep(tx, session_id, found)
    return {**row, **kept}


def packed_value(tx: Tx, session_id: str, value: Any, text: str) -> Packed | Written:  # noqa: ANN401
    """A JSON value (`text`: the same as JSON) as a column stores it; see `packed_rows`."""
    found: dict[str, str] = {}
    kept = _kept(session_id, value, text, found)
    if found:
        _keep(tx, session_id, found)
    return kept


def whole_rows(
    tx: Tx, statement: Executable, params: Mapping[str, Any], *, afresh: bool = False
) -> list[Any]:
    """The rows that a statement returns, as dictionaries, with their long texts put in.

    Args:
        afresh: Read the long texts from the database, not from the cache.
    """
    found = [dict(row) for row in tx.execute(statement, dict(params)).mappings()]
    packed = [(row, name) for row in found for name, value in row.items() if type(value) is Packed]
    if packed:
        # First collect which texts are wanted, so that they are read together.
        wanted: dict[str, str] = {}
        for row, name in packed:
            _unpacked(row[name].value, lambda digest: wanted.setdefault(digest, ""))
        wanted |= _texts(tx, wanted) if afresh else _known_texts(tx, wanted)
        for row, name in packed:
            row[name] = _unpacked(row[name].value, wanted.__getitem__)
    return found


def whole_texts(tx: Tx, kept: Sequence[str]) -> list[str]:
    """The whole JSON of stored columns, with their long texts put in."""
    wanted: dict[str, str] = {}
    for text in kept:
        if text[0] == " ":
            _whole_text(text, lambda digest: wanted.setdefault(digest, ""))
    if not wanted:
        return list(kept)
    known = _known_texts(tx, wanted)
    return [_whole_text(text, known.__getitem__) if text[0] == " " else text for text in kept]


def _whole_text(kept: str, text_of: Callable[[str], str]) -> str:
    """Replace references by their texts; parse the JSON only if a mark may mean something else."""
    whole, references = _REFERENCE.subn(lambda found: json_text(text_of(found[1])), kept[1:])
    is_flat = kept.count("[") + kept.count("{") < _DEEPEST
    if is_flat and references == kept.count(f'"{_MARK}"'):
        return whole
    return json_text(_unpacked(json.loads(kept), text_of))


@cache
def _shared(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if isinstance(column.type, Shared))


def _is_short(text: str) -> bool:
    """Whether the text of a JSON value shows that it has no long string and no mark."""
    if len(text) >= LONG and ("\\" in text or _LONG_STRING.search(text)):
        return False
    return f'"{_MARK}"' not in text


@cache
def _owner(table: Table) -> str:
    return "session_id" if "session_id" in table.columns else "chain"


def _kept(session_id: str, value: Any, text: str, found: dict[str, str]) -> Packed | Written:  # noqa: ANN401
    """A value as plain JSON, or with references to its long texts, which are put into `found`."""
    if not _is_short(text):
        packed = _packed_value(session_id, value, ours := {})
        if ours:
            found.update(ours)
            return Packed(packed)
    return Written(text)


def _packed_value(session_id: str, value: Any, found: dict[str, str], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    def within(inner: Any) -> Any:  # noqa: ANN401 - JSON
        return _packed_value(session_id, inner, found, depth + 1)

    if depth == _DEEPEST:
        return value
    if isinstance(value, str):
        return _packed_text(session_id, value, found, within)
    if isinstance(value, list | tuple):
        return [within(item) for item in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return value
    packed = {name: within(field) for name, field in cast("dict[str, Any]", value).items()}
    return {_MARK: [_ITSELF, packed[_MARK]]} if {*packed} == {_MARK} else packed


def _packed_text(
    session_id: str, text: str, found: dict[str, str], within: Callable[[Any], Any]
) -> Any:  # noqa: ANN401 - JSON
    if len(text) < LONG or clean(text) != text:
        return text
    if text[0] in "{[" and (read := _as_json(text)) is not None:
        return {_MARK: [_JSON, read[0], within(read[1])]}
    digest = hashlib.sha256(f"{session_id}\0{text}".encode()).hexdigest()[:32]
    found[digest] = text
    return {_MARK: [_TEXT, digest]}


def _as_json(text: str) -> tuple[int, Any] | None:
    """The number of the style of JSON in which a text is written, and its value; None if none."""
    try:
        inner = loads(text)
    except Refused:
        return None
    for number, form in enumerate(_FORMS):
        if json.dumps(inner, **form) == text:
            return number, inner
    return None


def _keep(tx: Tx, session_id: str, found: Mapping[str, str]) -> None:
    ours, recent = tx.outbox.texts, tx.recent
    new = {
        digest: text
        for digest, text in found.items()
        if digest not in ours and recent.get(digest) is None
    }
    if new:
        tx.execute(
            _ADD,
            [
                {"new_digest": digest, "new_session_id": session_id, "new_text": text}
                for digest, text in new.items()
            ],
        )
        ours.update(new)


def _known_texts(tx: Tx, wanted: Iterable[str]) -> dict[str, str]:
    ours, recent = tx.outbox.texts, tx.recent
    known = {
        digest: text
        for digest in wanted
        if (text := ours.get(digest) or recent.get(digest)) is not None
    }
    found = _texts(tx, {*wanted} - known.keys())
    recent.add(found)
    return known | found


def _texts(tx: Tx, wanted: Iterable[str]) -> dict[str, str]:
    digests, found = sorted(wanted), dict[str, str]()
    for start in range(0, len(digests), _AT_ONCE):
        some = digests[start : start + _AT_ONCE]
        params = dict(zip(_PLACES, [*some, *some[:1] * (_AT_ONCE - len(some))], strict=True))
        found |= {row.digest: row.text for row in tx.execute(_FIND, params)}
    return found


def _unpacked(value: Any, text_of: Callable[[str], str], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    def within(inner: Any) -> Any:  # noqa: ANN401 - JSON
        return _unpacked(inner, text_of, depth + 1)

    if depth == _DEEPEST:
        return value
    if isinstance(value, list):
        return [within(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    match fields.get(_MARK) if len(fields) == 1 else None:
        case [how, str(digest)] if how == _TEXT:
            return text_of(digest)
        case [how, int(form), inner] if how == _JSON and 0 <= form < len(_FORMS):
            return json.dumps(within(inner), **_FORMS[form])
        case [how, inner] if how == _ITSELF:
            return {_MARK: within(inner)}
        case _:
            return {name: within(field) for name, field in fields.items()}


# On PostgreSQL, several rows are written by one statement with one parameter.
#
# The driver binds and sends rows one by one, which takes several times as long as the database
# needs for them. So they are sent as one JSON text, which the database splits. SQLite does not need
# that.

Params = Mapping[str, Any]
Converter = Callable[[Any], Any] | None
FEWEST = 3
"""For fewer rows it is not worth it."""
_TOGETHER = "postgresql"
_encode = Encoder().encode
_NUL = "\\u0000"
"""NUL as JSON writes it. A text that is JSON itself may contain it, and keeps it."""


def takes(tx: Tx, rows: Sequence[Params]) -> bool:
    """Whether these rows are written by one statement."""
    return len(rows) >= FEWEST and tx.conn.dialect.name == _TOGETHER


def are_apart(table: Table, rows: Sequence[Params]) -> bool:
    """Whether the `is_…` parameters name each row of the table at most once, by its primary key.

    Two changes of one row cannot be one statement: the second needs the result of the first.
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
    """Set columns of rows to their `to_…` parameters, each if its `is_…` parameters match.

    Returns:
        How many rows matched.
    """
    shape = tuple(where), tuple(to)
    given = {f"is_{name}": name for name in where} | {f"to_{name}": name for name in to}
    return tx.execute(_update_of_many(table, *shape), _packed(table, given, rows)).rowcount


def _packed(table: Table, given: Mapping[str, str], rows: Sequence[Params]) -> dict[str, str]:
    converters = [(name, _converter(table, of)) for name, of in given.items()]
    text = _text(converters, rows)
    if text is None or _NUL in text:
        # Each text is cleaned of characters that only one of the databases can store.
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
    """The converter of a value; None for texts, as nearly all of them need no conversion."""
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
    rows = func.json_to_recordset(sql_cast(bindparam("rows", type_=Text()), JSON))
    columns = [column(name, table.c[of].type) for name, of in names.items()]
    return rows.table_valued(*columns).render_derived(with_types=True)


T = TypeVar("T")
_Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns that a change compares, and those that it sets."""


def one(tx: Tx, statement: Executable, params: Params, record: type[T]) -> T | None:
    """The one row as a record, or None."""
    found = many(tx, statement, params, record)
    return found[0] if found else None


def many(tx: Tx, statement: Executable, params: Params, record: type[T]) -> list[T]:
    """The rows as records, in the statement's order."""
    return [record(**row) for row in whole_rows(tx, statement, params)]


def rows(tx: Tx, statement: Executable, params: Params) -> list[Row[Any]]:
    """The rows as they are, without records and without their long texts."""
    return list(tx.execute(statement, dict(params)).all())


def columns_of(table: Table, record: type[Struct]) -> list[ColumnElement[Any]]:
    """The columns that a record has fields for."""
    return [table.c[name] for name in record.__struct_fields__]


def among(column: ColumnElement[Any], words: Iterable[str]) -> ColumnElement[bool]:
    """The condition that a column has one of these words, which must be the same each time.

    A statement with a bare list for `in_` cannot be prepared, as the list may have any length.
    """
    return column.in_([literal(word, column.type) for word in words])


def found_in(
    tx: Tx, place: str | None, statement: Select[Any], session_id: ColumnElement[str]
) -> Result[Any]:
    """The rows of a statement for the sessions of a place; None: for all sessions.

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
    return select(*columns_of(table, record)).where(*same(table, *keys))


def same(table: Table, *keys: str) -> list[ColumnElement[bool]]:
    """The conditions that each of these columns equals the parameter of its name."""
    return [table.c[key] == bindparam(key) for key in keys]


def count_of(table: Table, *keys: str) -> ColumnElement[int]:
    """The count of all rows whose key columns equal their parameters, as a column `total`."""
    counted = select(func.count()).where(*same(table, *keys))
    return counted.correlate(None).scalar_subquery().label("total")


def row_of(record: Struct) -> dict[str, Any]:
    """A record as a row."""
    return asdict(record)


def put(tx: Tx, table: Table, values: dict[str, Any] | Sequence[Params]) -> None:
    """Insert one row, or several of the same shape."""
    if values:
        put_packed(tx, table, packed_rows(tx, table, values))


def put_packed(tx: Tx, table: Table, packed: Rows) -> None:
    """Insert rows that are already packed, as by `packed_rows`."""
    if not isinstance(packed, Mapping) and takes(tx, packed):
        insert_together(tx, table, packed)
    else:
        tx.execute(_insert(table), packed)


def change(tx: Tx, table: Table, where: Params, to: Params) -> bool:
    """Set columns where all of `where` still holds. False: no row matches any more.

    This is the compare-and-set of every state change: `where` names the row and the status (and
    epoch) that the caller saw.
    """
    shape = tuple(where), tuple(to)
    return tx.execute(_update(table, *shape), _params(shape, where, to)).rowcount > 0


def change_all(tx: Tx, table: Table, changes: Sequence[tuple[Params, Params]]) -> bool:
    """Set columns of several rows, each where all of its `where` still holds.

    Changes of the same columns are one statement. False: a row does not match any more; the caller
    must then undo the changes of the others.
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
    """The names of the parameters of a change."""
    return (*(f"is_{name}" for name in where), *(f"to_{name}" for name in to))


def insert_for(dialect: str) -> Any:  # noqa: ANN401 - each dialect has its own
    """The dialect's `insert`, which has `on_conflict_…`; imports only this dialect."""
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
