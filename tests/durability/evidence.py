"""What a run of gonogo left behind, read without gonogo's own code: it is not its own witness."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import literal_column, select, table

Row = dict[str, Any]
_ALL = select(literal_column("*"))
TABLES = (
    "sessions turns messages events plans plan_revisions subtasks tool_calls approvals grants "
    "audit chains timers answers model_requests texts"
).split()
_FORMS = (
    {"ensure_ascii": False},
    {"ensure_ascii": False, "separators": (",", ":")},
    {},
    {"separators": (",", ":")},
)
_JSON = frozenset(
    "body subtasks result details decision arguments proposed_arguments base_hashes "
    "effects verdict scope answer".split()
)
CONTROL, TERMINAL_CALLS = (
    "control",
    frozenset({"denied", "completed", "failed", "rejected", "expired", "cancelled"}),
)
OVER = frozenset({"completed", "failed", "partial", "cancelled", "rejected", "expired"})
"""Plans that have ended."""
SUBTASK_OVER = frozenset({"completed", "failed", "cancelled", "skipped"})


@cache
def _all_of(name: str) -> str:
    return str(_ALL.select_from(table(name)))


@dataclass(frozen=True)
class Evidence:
    """The rows of a database, and what lies beside it."""

    url: str
    tables: dict[str, list[Row]]
    flaws: list[str]
    """What the database itself finds wrong with its file."""
    workspace: Path | None
    ledger: list[Row]
    model_requests: list[Row]

    @cached_property
    def sessions(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["sessions"]}

    @cached_property
    def plans(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["plans"]}

    @cached_property
    def calls(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["tool_calls"]}

    @cached_property
    def subtasks(self) -> dict[str, Row]:
        return {row["key"]: row for row in self.tables["subtasks"]}

    @cached_property
    def events(self) -> dict[str, list[Row]]:
        """By session, in order."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.tables["events"], key=lambda row: row["seq"]):
            found[row["session_id"]].append(row)
        return found

    @cached_property
    def chains(self) -> dict[str, list[Row]]:
        """Audit entries by chain, in order."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.tables["audit"], key=lambda row: row["seq"]):
            found[row["chain"]].append(row)
        return found

    def is_kept(self, session_id: str) -> bool:
        """Whether a session is there, and was not deleted."""
        return session_id in self.sessions and not self.sessions[session_id]["deleted"]

    def started(self, *, control: bool = False) -> list[Row]:
        """Calls that were set going.

        Args:
            control: Also those that speak to the runtime.
        """
        begun = [call for call in self.calls.values() if call["started_at"]]
        return [call for call in begun if control or call["tool_class"] != CONTROL]

    def notes(self, action: str) -> list[Row]:
        """Audit entries of one kind."""
        return [row for row in self.tables["audit"] if row["action"] == action]

    def pending(self, **fields: Any) -> list[Row]:
        """Open questions that fit."""
        wanted = {"status": "pending", **fields}
        return [a for a in self.tables["approvals"] if wanted.items() <= a.items()]

    def revisions(self) -> dict[tuple[str, int], Row]:
        return {(r["plan_id"], r["number"]): r for r in self.tables["plan_revisions"]}


def read(
    database: Path | str,
    workspace: Path | None,
    ledger: Iterable[Row],
    requests: Iterable[Row],
    names: Iterable[str] = TABLES,
) -> Evidence:
    """Read everything; the database is a file of SQLite, or any URL."""
    url = f"sqlite:///{database}" if isinstance(database, Path) else database
    is_file = url.startswith("sqlite:///")
    try:
        with closing(_opened(url)) as conn:
            texts = {row["digest"]: row["text"] for row in _rows(conn, "texts")}
            tables = {name: [_decoded(row, texts) for row in _rows(conn, name)] for name in names}
            flaws = _flaws(conn) if names is TABLES and is_file else []
    except (sqlite3.Error, psycopg.Error) as error:
        return Evidence(
            url, defaultdict(list), [f"the database cannot be read: {error}"], None, [], []
        )
    return Evidence(url, tables, flaws, workspace, list(ledger), list(requests))


def _opened(url: str) -> Any:
    # By its driver alone: SQLAlchemy takes longer to begin than all rows take to be read.
    kind, _, file = url.partition(":///")
    return sqlite3.connect(file) if kind == "sqlite" else psycopg.connect(url)


def _rows(conn: Any, name: str) -> Iterator[Row]:
    found = conn.execute(_all_of(name))
    columns = [column[0] for column in found.description]
    return (dict(zip(columns, row, strict=True)) for row in found)


def _flaws(conn: sqlite3.Connection) -> list[str]:
    said = [str(row[0]) for row in conn.execute("PRAGMA integrity_check")]
    keys = [f"foreign key {tuple(row)}" for row in conn.execute("PRAGMA foreign_key_check")]
    return [line for line in said if line != "ok"] + keys


def _decoded(row: Row, texts: dict[str, str]) -> Row:
    return {
        name: stored_value(value, texts) if name in _JSON and isinstance(value, str) else value
        for name, value in row.items()
    }


def stored_value(text: str, texts: dict[str, str]) -> Any:
    """A column's value; after a blank come references to long texts."""
    value = json.loads(text)
    return _referred(value, texts) if text.startswith(" ") else value


def _referred(value: Any, texts: dict[str, str]) -> Any:
    match value:
        case {"$": ["text", digest], **others} if not others:
            return texts[digest]
        case {"$": ["json", form, inner], **others} if not others:
            return json.dumps(_referred(inner, texts), **_FORMS[form])
        case {"$": ["itself", inner], **others} if not others:
            return {"$": _referred(inner, texts)}
        case dict():
            return {name: _referred(inner, texts) for name, inner in value.items()}
        case list():
            return [_referred(inner, texts) for inner in value]
        case _:
            return value
