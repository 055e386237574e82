"""The few shapes of statement that the store's functions share.

Each statement is built once for its shape and kept, since building one costs several times what
running it does.
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

# Long texts, each kept once in its session: calls, events, messages and the audit say the same.
#
# What a model writes is in its reply, in its call, in the event that tells of the call, and in the
# audit entry that allows it. In a column that is `Shared`, a long string lies in the table `texts`,
# and its row refers to it; whoever reads the row gets the string. Rows that refer to nothing are
# plain JSON, as they are where there was no such table yet.
#
# A string that is itself JSON (a model's arguments as it wrote them) is kept by what it holds,
# where that gives back the same string; so what is within it is kept once too.

LONG = 256
"""Characters from which a string is kept once. A shorter one takes less room than the reference."""
_LONG_STRING = re.compile(f'"[^"]{{{LONG}}}')
"""In JSON without escapes; of what is no string, nothing is that long but numbers in a row."""
_AT_ONCE = 16
_DEEPEST = 64
"""Levels of a value that are looked into."""
_MARK = "$"
"""The only key of an object that stands for something else: `{"$": [how, what]}`."""
_TEXT, _JSON, _ITSELF = "text", "json", "itself"
_REFERENCE = re.compile(rf'{{"\{_MARK}":\["{_TEXT}","([0-9a-f]{{32}})"\]}}')
"""A reference to a long text, as it stands in JSON."""
_COMPACT = (",", ":")
_FORMS: tuple[Mapping[str, Any], ...] = (
    {"ensure_ascii": False},
    {"ensure_ascii": False, "separators": _COMPACT},
    {},
    {"separators": _COMPACT},
)
"""The ways in which programs write JSON."""

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
    """Rows that are to be inserted, with their long texts kept in their sessions."""
    if not _shared(table):
        return rows
    if isinstance(rows, Mapping):
        return packed_row(tx, table, rows[_owner(table)], rows)
    return [packed_row(tx, table, row[_owner(table)], row) for row in rows]


def packed_row(tx: Tx, table: Table, session_id: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row, or some columns of it, with its long texts kept in its session."""
    if session_id == SYSTEM:
        return row
    written = {name: json_text(row[name]) for name in _shared(table) if row.get(name)}
    found: dict[str, str] = {}
    kept = {name: _kept(session_id, row[name], text, found) for name, text in written.items()}
    _keep(tx, session_id, found)
    return {**row, **kept}


def packed_value(tx: Tx, session_id: str, value: Any, text: str) -> Packed | Written:  # noqa: ANN401
    """A JSON value and its text as a column has it, with its long texts kept in its session."""
    found: dict[str, str] = {}
    kept = _kept(session_id, value, text, found)
    if found:
        _keep(tx, session_id, found)
    return kept


def whole_rows(
    tx: Tx, statement: Executable, params: Mapping[str, Any], *, afresh: bool = False
) -> list[Any]:
    """The rows that a statement gives, as dictionaries, with their texts.

    Args:
        afresh: Whatever is remembered, read the texts that the database has.
    """
    found = [dict(row) for row in tx.execute(statement, dict(params)).mappings()]
    packed = [(row, name) for row in found for name, value in row.items() if type(value) is Packed]
    if packed:
        # First to see which texts are wanted, so that they are read together.
        wanted: dict[str, str] = {}
        for row, name in packed:
            _unpacked(row[name].value, lambda digest: wanted.setdefault(digest, ""))
        wanted |= _texts(tx, wanted) if afresh else _known_texts(tx, wanted)
        for row, name in packed:
            row[name] = _unpacked(row[name].value, wanted.__getitem__)
    return found


def whole_texts(tx: Tx, kept: Sequence[str]) -> list[str]:
    """JSON as it was before its long texts were kept elsewhere, of what a column has."""
    wanted: dict[str, str] = {}
    for text in kept:
        if text[0] == " ":
            _whole_text(text, lambda digest: wanted.setdefault(digest, ""))
    if not wanted:
        return list(kept)
    known = _known_texts(tx, wanted)
    return [_whole_text(text, known.__getitem__) if text[0] == " " else text for text in kept]


def _whole_text(kept: str, text_of: Callable[[str], str]) -> str:
    """Puts the texts in where nothing but references to them can be meant, else reads it all."""
    whole, references = _REFERENCE.subn(lambda found: json_text(text_of(found[1])), kept[1:])
    is_flat = kept.count("[") + kept.count("{") < _DEEPEST
    if is_flat and references == kept.count(f'"{_MARK}"'):
        return whole
    return json_text(_unpacked(json.loads(kept), text_of))


@cache
def _shared(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if isinstance(column.type, Shared))


def _is_short(text: str) -> bool:
    """Whether a JSON value surely has no long string and no mark, by its text."""
    if len(text) >= LONG and ("\\" in text or _LONG_STRING.search(text)):
        return False
    return f'"{_MARK}"' not in text


@cache
def _owner(table: Table) -> str:
    return "session_id" if "session_id" in table.columns else "chain"


def _kept(session_id: str, value: Any, text: str, found: dict[str, str]) -> Packed | Written:  # noqa: ANN401
    """A value by its own text, or by references to what is put into `found`."""
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
    """The way of writing JSON that gives a text, and what is so written."""
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
    rows = func.json_to_recordset(sql_cast(bindparam("rows", type_=Text()), JSON))
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
    return select(*columns_of(table, record)).where(*same(table, *keys))


def same(table: Table, *keys: str) -> list[ColumnElement[bool]]:
    """That each of these columns equals the parameter of its name."""
    return [table.c[key] == bindparam(key) for key in keys]


def count_of(table: Table, *keys: str) -> ColumnElement[int]:
    """How many rows there are in all whose key columns equal their parameters, as `total`."""
    counted = select(func.count()).where(*same(table, *keys))
    return counted.correlate(None).scalar_subquery().label("total")


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
