"""The checker of several processes: each kind of damage to a history is found under its number."""

from collections.abc import Callable
from typing import Any

import pytest

from durability.checker import History, Told, check_history
from durability.evidence import Evidence

FOLDER, COMMAND = "/w", "python3 tick.py 0"
NOW, EARLIER = "2026-01-01T00:00:07.000000Z", "2026-01-01T00:00:00.000000Z"
Row = dict[str, Any]


def event(seq: int, text: str) -> Row:
    body = {"type": "assistant_message", "content": text}
    return {"session_id": "s", "seq": seq, "ts": f"t{seq}", "type": body["type"], "body": body}


def owned(seq: int, fence: int, node: str) -> Row:
    return {
        "chain": "system", "seq": seq, "action": "place.owned", "subject": "p",
        "actor": f"node:{node}", "details": {"fence": fence},
    }  # fmt: skip


def call(number: int, tool: str, **arguments: str) -> Row:
    return {
        "id": f"c{number}", "session_id": "s", "tool": tool, "tool_class": "unsafe",
        "arguments": arguments, "status": "completed", "result": {}, "started_at": "t1",
    }  # fmt: skip


def tick(phase: str, at: int, command: str = COMMAND) -> Row:
    return {"command": command, "phase": phase, "at": at}


@pytest.fixture
def history() -> History:
    """Two owners of a place, one after the other, a file and a command; all of it is well."""
    tables: dict[str, list[Row]] = {
        "sessions": [
            {"id": "s", "workspace": FOLDER, "place_id": "p", "fence": 2, "last_seq": 3}
        ],
        "events": [event(1, "one"), event(2, "two"), event(3, "three")],
        "audit": [owned(1, 1, "first"), owned(2, 2, "second")],
        "turns": [{"id": "t", "session_id": "s", "content": "Do 0.", "status": "done"}],
        "approvals": [{"id": "a", "decided_by": "user:owner"}],
        "tool_calls": [
            call(1, "write_file", path="0.txt", content="0!"),
            call(2, "execute_command", command=COMMAND),
        ],
        "places": [{"id": "p", "fence": 2, "owner": "second", "placed": 1}],
        "nodes": [{"id": "second", "beat_at": NOW}, {"id": "other", "beat_at": NOW}],
        "handoffs": [],
    }  # fmt: skip
    first = event(1, "one")
    told = Told(
        events=[{**first["body"], "seq": 1, "session_id": "s", "ts": "t1"}],
        said={"s Do 0.": "Do 0."}, decided={"a"},
    )  # fmt: skip
    return History(
        found=Evidence("", tables, [], None, [], []), told=told,
        ledgers={FOLDER: [tick("start", 1), tick("end", 2)]}, files={FOLDER: {"0.txt": "0!"}},
    )  # fmt: skip


def ledger(history: History) -> list[Row]:
    return history.ledgers[FOLDER]  # type: ignore[return-value]


def rows(history: History, table: str) -> list[Row]:
    return history.found.tables[table]


DAMAGE: dict[str, tuple[str, Callable[[History], Any]]] = {
    "an event is missing": ("M1", lambda h: rows(h, "events").pop(1)),
    "an audit entry is missing": ("M1", lambda h: rows(h, "audit").pop(0)),
    "a fence falls": ("M2", lambda h: rows(h, "audit").append(owned(3, 1, "first"))),
    "a place forgets its fence": ("M2", lambda h: rows(h, "places")[0].update(fence=1)),
    "a session is ahead of its place": ("M2", lambda h: rows(h, "sessions")[0].update(fence=3)),
    "a place is gone": ("M2", lambda h: rows(h, "places").clear()),
    "a fence has two owners": ("M3", lambda h: rows(h, "audit").append(owned(3, 2, "third"))),
    "an owner was never given the place": (
        "M3", lambda h: rows(h, "places")[0].update(owner="first"),
    ),
    "an event changed after it was told": (
        "M4", lambda h: rows(h, "events")[0]["body"].update(content="other"),
    ),
    "a message is lost": ("M4", lambda h: rows(h, "turns")[0].update(content="other")),
    "a message is there twice": (
        "M4", lambda h: rows(h, "turns").append({**rows(h, "turns")[0], "id": "u"}),
    ),
    "an answer is lost": ("M4", lambda h: rows(h, "approvals")[0].update(decided_by=None)),
    "a command ran twice": ("M5", lambda h: ledger(h).append(tick("start", 3))),
    "a command ran that nobody set going": (
        "M5", lambda h: rows(h, "tool_calls").pop(1),
    ),
    "a command of a stale owner lives on": (
        "M5", lambda h: ledger(h).insert(1, tick("start", 1, "python3 tick.py 1")),
    ),
    "a command is done that never ended": ("M6", lambda h: ledger(h).pop()),
    "a file is written that is not there": (
        "M6", lambda h: h.files[FOLDER].clear(),  # type: ignore[attr-defined]
    ),
    "a turn never ends": ("M7", lambda h: rows(h, "turns")[0].update(status="parked")),
    "a call never ends": ("M7", lambda h: rows(h, "tool_calls")[0].update(status="started")),
    "a place has work and its owner is dead": ("M7", lambda h: rows(h, "nodes").pop(0)),
    "a place has work and its owner beats no more": (
        "M7", lambda h: rows(h, "nodes")[0].update(beat_at=EARLIER),
    ),
    "what was handed over is taken by nobody": (
        "M7",
        lambda h: rows(h, "handoffs").append({"op": "job", "kind": "turn", "place_id": "p"}),
    ),
}  # fmt: skip


def test_a_history_in_which_all_is_well_has_no_problem(history: History) -> None:
    assert check_history(history) == []


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_to_a_history_is_found(history: History, what: str) -> None:
    number, damage = DAMAGE[what]
    damage(history)

    assert number in {problem.split()[0] for problem in check_history(history)}
