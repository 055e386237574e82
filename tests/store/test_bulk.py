"""Rows that are written together: what is kept is the same as one by one, by fewer statements."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import event

from fakes.rows import NOW, begin, begin_plan, session, subtask
from gonogo.domain.events import AssistantMessage
from gonogo.domain.states import SubtaskStatus
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.plans import Move, move_subtasks, subtask_rows
from gonogo.store.rows import change_all, put, rows
from gonogo.store.schema import sessions, subtasks, timers
from gonogo.store.sessions import add_session

ODD = [
    "plain", "two\nlines", 'a "quote" and a \\', "нет", "a\x00b", "half \ud800 of a pair",
    "\\u0000", "", "x" * 300, "\U0001f600", '{"json": "\x00"}', '{"json": "\\u0000"}',
]  # fmt: skip
S = SubtaskStatus
IDS = ["a", "b", "c", "d"]


def say_all(tx: Tx, said: list[str]) -> None:
    log.tell(tx, "s1", *(AssistantMessage(content=each) for each in said))


async def test_events_told_together_are_those_told_one_by_one(store: Store) -> None:
    await store.write(add_session, session())
    for each in ODD:
        await store.write(say_all, [each])
    await store.write(say_all, ODD)
    found = await store.read(log.events_after, "s1", 0)
    assert [event["seq"] for event in found] == list(range(1, 2 * len(ODD) + 1))
    said = [event["content"] for event in found]
    assert said[: len(ODD)] == said[len(ODD) :]
    assert said[:5] == ODD[:5]


@pytest.mark.parametrize("odd", ODD)
async def test_a_text_in_a_column_is_kept_the_same_whether_alone_or_with_others(
    store: Store, odd: str
) -> None:
    def add(tx: Tx, *keys: str) -> None:
        put(tx, timers, [{"kind": odd, "key": key, "run_at": NOW} for key in keys])

    await store.write(add, "1")
    await store.write(add, "2", "3", "4")
    found = await store.read(rows, timers.select().order_by(timers.c.key), {})
    assert [row.key for row in found] == ["1", "2", "3", "4"]
    assert {row.run_at for row in found} == {NOW}
    assert len({row.kind for row in found}) == 1


def start(subtask_id: str, **to: Any) -> Move:
    return Move(f"p1/1/{subtask_id}", S.PENDING, 0, S.RUNNING, {"epoch": 1, "attempt": 1, **to})


async def begun(store: Store) -> None:
    await store.write(begin)
    await store.write(begin_plan, *map(subtask, IDS))


async def test_rows_changed_together_each_get_what_is_theirs_and_others_stay(store: Store) -> None:
    await begun(store)
    moves = [start(each, started_at=NOW, reason=f"of {each}") for each in IDS[:3]]
    assert await store.write(move_subtasks, moves)
    found = {row.subtask_id: row for row in await store.read(subtask_rows, "p1", 1)}
    assert [found[each].status for each in IDS] == [S.RUNNING] * 3 + [S.PENDING]
    assert [found[each].reason for each in IDS] == ["of a", "of b", "of c", None]
    assert [found[each].started_at for each in IDS] == [NOW] * 3 + [None]


async def test_of_rows_changed_together_one_that_has_changed_is_noticed(store: Store) -> None:
    await begun(store)
    assert await store.write(move_subtasks, [start("b")])
    assert not await store.write(move_subtasks, [start(each) for each in IDS])


async def test_a_row_that_is_changed_twice_at_once_is_changed_one_after_the_other(
    store: Store,
) -> None:
    await begun(store)
    steps = [(each, 0) for each in IDS] + [("a", 1)]
    changes = [({"key": f"p1/1/{each}", "epoch": n}, {"epoch": n + 1}) for each, n in steps]
    assert await store.write(change_all, subtasks, changes)
    found = {row.subtask_id: row.epoch for row in await store.read(subtask_rows, "p1", 1)}
    assert found == {"a": 2, "b": 1, "c": 1, "d": 1}


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_fifty_rows_are_bound_as_one(store: Store, kind: str) -> None:
    await store.write(add_session, session())
    sent = list[tuple[str, bool]]()

    def hear(conn: Any, cursor: Any, statement: str, given: Any, context: Any, many: bool) -> None:
        sent.append((statement, many))

    event.listen(store._backend.engine, "before_cursor_execute", hear)
    await store.write(partial(say_all, said=["well"] * 50))
    [many] = [many for statement, many in sent if "INSERT INTO events" in statement]
    assert not many
    assert await store.read(rows, sessions.select(), {})
