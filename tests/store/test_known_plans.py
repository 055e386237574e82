"""What the writer knows of plans: after every transaction it is what a fresh read gives."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from fakes import rows
from fakes.nursery import python
from gonogo.domain.errors import Conflict
from gonogo.domain.schedule import STRATEGIES, Standings, schedule
from gonogo.domain.states import PLAN, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.execution.scheduling.plan_state import PlanState, shape_of
from gonogo.store import Store, Tx, new_id, part
from gonogo.store.plans import (
    add_plan,
    add_revision,
    end_revising,
    keep_account,
    lock_plan,
    revise_plan,
    standings,
    subtask_row,
    take_subtask,
)
from gonogo.store.schema import subtasks
from gonogo.store.sessions import add_session
from plugins.nightly import examples

pytestmark = pytest.mark.each_database
S = SubtaskStatus


class Undone(Exception):
    """What was begun is taken back."""


class Outsider:
    """Another process on the same database."""

    def __init__(self, url: str) -> None:
        program = Path(__file__).with_name("outsider.py")
        self.process = subprocess.Popen(
            [sys.executable, program, url], env=python(measured=False), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def execute(self, sql: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{sql}\n")
        assert self.process.stdout.readline() == "done\n"

    def close(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture
def outsider(database_url: str) -> Iterator[Outsider]:
    opened = Outsider(database_url)
    yield opened
    opened.close()


def begin(tx: Tx, plan_ids: Sequence[str]) -> None:
    add_session(tx, rows.session(plan_ids[0]))
    for plan_id in plan_ids:
        first = revision_of(plan_id, 1)
        add_plan(tx, rows.plan(plan_id, digest=first.digest, session_id=plan_ids[0]))
        add_revision(tx, first, "architect", "first")


def revision_of(plan_id: str, number: int) -> Any:
    made = [
        rows.subtask("d"), rows.subtask("a"), rows.subtask("b", "a", after_skipped="run"),
        rows.subtask("c", "a", "b"),
    ]  # fmt: skip
    return rows.revision(*made[number % 2 :][::-1], plan_id=plan_id, number=number)


def move(tx: Tx, plan_id: str, n: int) -> None:
    """Have a subtask go somewhere that its table allows, with other columns of its row."""
    board = PlanState.open(tx, plan_id)
    key = sorted(board.rows)[n % len(board.rows)]
    row = board.rows[key]
    ways = sorted(to for to in S if to in SUBTASK.moves[row.status])
    if not ways:
        return
    to: dict[str, Any] = {
        "epoch": row.epoch + n % 2, "attempt": row.attempt + n % 3, "declined": n % 5 == 0,
        "not_before": tx.now if n % 2 else None, "result": {"output": "x"},
    }  # fmt: skip
    board.move(key, ways[n % len(ways)], **to)
    board.write()


def forget_to_write(tx: Tx, plan_id: str, n: int) -> None:
    board = PlanState.open(tx, plan_id)
    for key in sorted(board.stand.ready):
        board.move(key, S.RUNNING)


def move_plan(tx: Tx, plan_id: str, n: int) -> None:
    board = PlanState.open(tx, plan_id)
    ways = sorted(to for to in PlanStatus if to in PLAN.moves[board.plan.status])
    if ways:
        board.move_plan(ways[n % len(ways)], approved_revision=board.plan.revision)


def set_columns(tx: Tx, plan_id: str, n: int) -> None:
    PlanState.open(tx, plan_id).set_plan(budget={"runs": n}, pause_reason=f"p{n}")


def revise(tx: Tx, plan_id: str, n: int) -> None:
    plan = PlanState.open(tx, plan_id).plan
    made = revision_of(plan_id, plan.revision + 1)
    add_revision(tx, made, "ann", "edited")
    assert revise_plan(tx, plan, made, 0, approved_revision=made.number)


def take(tx: Tx, plan_id: str, n: int) -> None:
    board = PlanState.open(tx, plan_id)
    row = subtask_row(tx, board.key(sorted(board.rows)[n % len(board.rows)]))
    assert row is not None
    take_subtask(tx, row)


def by_the_way(tx: Tx, plan_id: str, n: int) -> None:
    """Write as no function for it does."""
    tx.execute(update(subtasks).where(subtasks.c.plan_id == plan_id).values(attempt=n))


def aside(tx: Tx, plan_id: str, n: int) -> None:
    keep_account(tx, plan_id, f"account {n}")
    end_revising(tx, plan_id)


def move_in_the_revision_before(tx: Tx, plan_id: str, n: int) -> None:
    board = PlanState.open(tx, plan_id)
    revise(tx, plan_id, n)
    PlanState.open(tx, plan_id)
    for key in sorted(board.stand.ready):
        board.move(key, S.RUNNING)
    board.write()


def undone_in_part(tx: Tx, plan_id: str, n: int) -> None:
    with suppress(Undone), part(tx):
        move(tx, plan_id, n)
        set_columns(tx, plan_id, n)
        PlanState.open(tx, plan_id)
        raise Undone


ACTS = (
    move, move, move, move_plan, set_columns, revise, take, by_the_way, aside, undone_in_part,
    forget_to_write, move_in_the_revision_before,
)  # fmt: skip


def several(tx: Tx, plan_id: str, acts: Sequence[tuple[int, int]], *, undone: bool) -> None:
    for which, n in acts:
        ACTS[which](tx, plan_id, n)
    if undone:
        raise Undone


def seen(stand: Standings) -> Mapping[str, Any]:
    found = {name: getattr(stand, name) for name in Standings.__slots__ if name != "graph"}
    return {**found, "counts": +stand.counts, "rows": list(stand.rows.items())}


def check(tx: Tx, plan_ids: Sequence[str]) -> None:
    """Hold what is known against what the database says."""
    for plan_id in plan_ids:
        board, plan = PlanState.open(tx, plan_id), lock_plan(tx, plan_id)
        assert plan is not None
        assert board.plan == plan
        shape = shape_of(tx, plan)
        fresh = Standings(shape.graph, standings(tx, plan_id, plan.revision))
        assert board.shape == shape
        assert seen(board.stand) == seen(fresh)
        for each in STRATEGIES.values():
            more = {"max_parallel": 2, "now": tx.now, "strategy": each}
            assert schedule(board.stand, **more) == schedule(fresh, **more)


acts = st.tuples(st.integers(0, len(ACTS) - 1), st.integers(0, 30))
steps = st.lists(acts, min_size=1, max_size=3)
transactions = st.tuples(st.integers(0, 1), steps, st.sampled_from(["", "", "undone", "outside"]))


@given(stories=st.lists(st.lists(transactions, min_size=1, max_size=3), min_size=4, max_size=12))
@settings(
    max_examples=examples(15, nightly=400), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_after_every_transaction_what_is_known_is_what_a_fresh_read_gives(
    stories: Any, store: Store, outsider: Outsider
) -> None:
    plan_ids = [new_id("plan"), new_id("plan")]

    async def one(which: int, acts: Any, how: str) -> None:
        # Where many write at once, who did not lock the plan may come first.
        with suppress(Undone, Conflict):
            await store.write(several, plan_ids[which], acts, undone=how == "undone")
        if how == "outside":
            outsider.execute(
                "UPDATE subtasks SET epoch = epoch + 1 "  # noqa: S608 - our own id
                f"WHERE plan_id = '{plan_ids[which]}' AND subtask_id = 'a'"
            )

    async def tell() -> None:
        await store.write(begin, plan_ids)
        for together in stories:
            async with anyio.create_task_group() as group:
                for transaction in together:
                    group.start_soon(one, *transaction)
            await store.write(check, plan_ids)

    anyio.run(tell)


async def test_a_statement_that_comes_by_another_way_has_what_is_known_forgotten(
    store: Store,
) -> None:
    plan_ids = ["p1", "p2"]
    await store.write(begin, plan_ids)
    await store.write(check, plan_ids)

    await store.write(by_the_way, "p1", 7)

    await store.write(check, plan_ids)
