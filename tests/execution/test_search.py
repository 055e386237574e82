"""Plans with their planner: who may comment and send one back, and which search still counts."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes import rows
from fakes.world import World, world_of
from gonogo.domain.errors import GonogoError
from gonogo.domain.failures import hint_of
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.reviews import MOST_OPEN
from gonogo.domain.states import ApprovalKind, PlanStatus, SubtaskStatus
from gonogo.execution.plans.approvals import ReviseTalk
from gonogo.execution.plans.replanning import (
    ReplanTalk,
    _detail,
    _public,
    _what_happened,
    reflection,
)
from gonogo.execution.scheduling import Superseded
from gonogo.i18n import cause_and_fix
from gonogo.store import Tx
from gonogo.store.calls import add_approval
from gonogo.store.plans import move_plan, plan_of, set_plan
from gonogo.store.sessions import add_session


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path, {}) as found:
        found.honest = False
        yield found


def proposed(tx: Tx, **more: Any) -> None:
    add_session(tx, rows.session(workspace="/"))
    rows.begin_plan(tx)
    later = tx.now + timedelta(hours=1)
    asked = {"kind": ApprovalKind.PLAN, "plan_id": "p1", "revision": 1, "expires_at": later}
    add_approval(tx, rows.approval(**{**asked, **more}))


def plan_now(tx: Tx) -> Plan:
    plan = plan_of(tx, "p1")
    assert plan is not None
    return plan


async def refusal(world: World, verb: Any, *args: Any, **more: Any) -> str:
    def write(tx: Tx) -> None:
        verb(tx, *args, **more)

    with pytest.raises(GonogoError) as refused:
        await world.runtime.parts.store.write(write)
    return str(refused.value)


async def test_who_comments_or_sends_back_what_does_not_wait_is_told_why_not(world: World) -> None:
    answering, store, ann = world.runtime.parts.answering, world.runtime.parts.store, world.ann
    await store.write(proposed)

    async def comment(plan_id: str = "p1", **more: Any) -> str:
        return await refusal(world, answering.comment, plan_id, "Hm", ann, **more)

    def set_back(tx: Tx) -> None:
        answering.comment(tx, "p1", "Hm", ann, subtask_id="a", revision=1)
        answering.send_back(tx, "p1", ann)
        tx.outbox.jobs.clear()

    only = "you can comment only on a plan that waits for approval"
    assert await comment("p2") == f"Plan p2 is gone; {only}"
    assert await comment(revision=2) == (
        "The plan is at revision 1 (sha256:1), not 2; look at the plan again"
    )
    assert await comment(subtask_id="x") == (
        "Plan p1 has no subtask x; list its subtasks: gonogo plans show p1"
    )
    none = "Plan p1 has no comment without an answer; comment on it first"
    assert await refusal(world, answering.send_back, "p1", ann) == none
    await store.write(set_back)
    again = "Plan p1 is already with its planner; wait for the new revision"
    assert await refusal(world, answering.send_back, "p1", ann) == again

    def over(tx: Tx) -> None:
        assert move_plan(tx, plan_now(tx), PlanStatus.REJECTED)

    await store.write(over)
    assert await comment() == f"Plan p1 is rejected; {only}"


async def test_a_question_that_is_closed_takes_no_comment_although_no_timer_fired(
    world: World,
) -> None:
    answering, store = world.runtime.parts.answering, world.runtime.parts.store
    await store.write(lambda tx: proposed(tx, expires_at=tx.now))

    said = await refusal(world, answering.comment, "p1", "Hm", world.ann)
    assert said == "The question about plan p1 is closed; look at it again"


async def test_a_plan_takes_so_many_comments_without_an_answer(world: World) -> None:
    answering = world.runtime.parts.answering

    def many(tx: Tx) -> None:
        proposed(tx)
        for _ in range(MOST_OPEN):
            answering.comment(tx, "p1", "Hm", world.ann)

    await world.runtime.parts.store.write(many)
    said = await refusal(world, answering.comment, "p1", "Hm", world.ann)
    assert said == (
        f"A plan can have at most {MOST_OPEN} comments without an answer; send it back to its "
        "planner first"
    )


async def test_a_search_counts_while_it_is_the_one_that_was_wanted_last(world: World) -> None:
    def begun(tx: Tx) -> tuple[str, str, str]:
        proposed(tx)
        assert set_plan(tx, plan_now(tx), revising={"id": "r1", "comments": []})
        talk = ReviseTalk(plan_now(tx))
        talk.check(tx)
        names = talk.name, talk.script
        assert set_plan(tx, plan_now(tx), revising={"id": "r2", "comments": []})
        with pytest.raises(Superseded) as other:
            talk.check(tx)
        assert set_plan(tx, plan_now(tx), revising=None)
        with pytest.raises(Superseded) as none:
            talk.check(tx)
        assert names == ("p1/revise/r1", "revise-1")
        return str(other.value), str(none.value), talk.column

    assert await world.runtime.parts.store.write(begun) == (
        "Plan p1 was sent back again", "Plan p1 is no longer with its planner", "revising",
    )  # fmt: skip

    def replanned(tx: Tx) -> list[str]:
        for status in (PlanStatus.APPROVED, PlanStatus.RUNNING, PlanStatus.REPLANNING):
            assert move_plan(tx, plan_now(tx), status, replans=1)
        talk = ReplanTalk(plan_now(tx))
        talk.check(tx)
        said = [talk.name, talk.script]
        for change in ({"replans": 2}, {"replans": 1, "revision": 1}):
            assert set_plan(tx, plan_now(tx), **change)
            try:
                talk.check(tx)
            except Superseded as over:
                said.append(str(over))
        assert move_plan(tx, plan_now(tx), PlanStatus.RUNNING)
        with pytest.raises(Superseded) as over:
            talk.check(tx)
        return [*said, str(over.value)]

    gone = "Plan p1 is no longer replanned"
    assert await world.runtime.parts.store.write(replanned) == [
        "p1/replan/1", "replan-1", gone, gone,
    ]  # fmt: skip


# What is told of a failure ------------------------------------------------------------------------

FAILURE = {"message": "no network", "category": "network", "severity": "medium"}


def test_the_cause_of_a_failure_is_said_with_what_is_known_of_its_kind() -> None:
    cause, fix = cause_and_fix(hint_of("network"), "en")
    assert reflection({"failure": FAILURE}, "en") == (f"no network ({cause})", fix)
    own = {**FAILURE, "suggestion": "plug it in", "hint": hint_of("quota")}
    other, _ = cause_and_fix(hint_of("quota"), "ru")
    assert reflection({"failure": own}, "ru") == (f"no network ({other})", "plug it in")
    assert reflection({}, "en") == (None, None)


def test_people_are_told_of_a_replan_what_there_is_to_tell() -> None:
    about = {"cause": "network", "reason": "r", "by": None, "subtask_id": "a", "failure": FAILURE}
    cause, fix = cause_and_fix(hint_of("network"), "en")
    assert _public(rows.plan(replan=about), "en") == {
        "cause": "network", "reason": "r", "root_cause": f"no network ({cause})",
        "suggestion": fix, "subtask_id": "a",
    }  # fmt: skip
    asked = {"cause": "person", "reason": "r", "by": "user:ann"}
    assert _public(rows.plan(replan=asked), "en") == asked
    assert _public(rows.plan(), "en") == {}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"reason": "left out", "result": {"output": 1}}, '\n  {"output": 1}'),
        ({"error": {"message": "no"}, "result": 1}, '\n  {"message": "no"}'),
        ({"reason": "x" * 2_001}, f"\n  {'x' * 2_000}… (1 more characters)"),
    ],
)
def test_what_came_of_a_subtask_is_told_in_a_line_of_bounded_length(
    more: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {
        "key": "p1/1/a", "plan_id": "p1", "revision": 1, "subtask_id": "a", "position": 1,
        "status": SubtaskStatus.FAILED, "attempt": 1, "epoch": 1, "not_before": None,
        "started_at": None, "active_since": None, "finished_at": None, "result": None,
        "error": None, "reason": None,
    }  # fmt: skip
    assert _detail(SubtaskRow(**{**given, **more}), "en") == said


def test_a_planner_is_told_the_reason_of_the_person_who_asks_for_another_plan() -> None:
    asked = {"cause": "person", "reason": "Try it with c"}
    assert _what_happened(asked, "en") == "A person asked for another plan: Try it with c"
