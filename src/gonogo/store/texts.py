"""Long texts, each kept once in its session: calls, events, messages and the audit say the same.

What a model writes is in its reply, in its call, in the event that tells of the call, and in the
audit entry that allows it. In a column that is `Shared`, a long string lies in the table `texts`,
and its row refers to it; whoever reads the row gets the string. Rows that refer to nothing are
plain JSON, as they are where there was no such table yet.

A string that is itself JSON (a model's arguments as it wrote them) is kept by what it holds, where
that gives back the same string; so what is within it is kept once too.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from sqlalchemy import Executable, Table, bindparam, exists, insert, select

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.errors import Refused
from gonogo.domain.strict_json import loads
from gonogo.store.columns import Clean, Packed, Shared, Written, clean, json_text
from gonogo.store.schema import texts
from gonogo.store.transaction import Tx

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
        packed = _packed(session_id, value, ours := {})
        if ours:
            found.update(ours)
            return Packed(packed)
    return Written(text)


def _packed(session_id: str, value: Any, found: dict[str, str], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    def within(inner: Any) -> Any:  # noqa: ANN401 - JSON
        return _packed(session_id, inner, found, depth + 1)

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
