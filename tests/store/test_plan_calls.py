"""What a plan's calls and questions came to: what may have been done, and what was let be done."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from fakes.rows import NOW, approval, begin, begin_plan, call
from gonogo.domain.states import GUARDED_NAMES, ApprovalStatus, CallStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.store import calls
from gonogo.store.rows import put, row_of
from gonogo.store.schema import approvals

SECOND = timedelta(seconds=1)
OF_A = {"plan_id": "p1", "revision": 1, "subtask_id": "a"}


@pytest.mark.parametrize(
    ("fields", "acted"),
    [
        ({}, True),
        ({"tool_class": ToolClass.IRREVERSIBLE}, True),
        ({"tool_class": ToolClass.OTHER}, True),
        ({"revision": 2}, True),
        ({"tool_class": ToolClass.PURE}, False),
        ({"tool_class": ToolClass.CONTROL}, False),
        ({"status": CallStatus.FAILED}, False),
        ({"status": CallStatus.STARTED}, False),
        ({"plan_id": "p2"}, False),
        ({"subtask_id": "b"}, False),
        ({"session_id": "s2"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_subtask_has_acted_once_it_completed_what_could_change_something(
    store, fields, acted
):
    given = {**OF_A, "status": CallStatus.COMPLETED, **fields}
    await store.write(begin, "s1", "s2")
    await store.write(calls.add_calls, [call(**given)])

    assert await store.read(calls.has_acted, "s1", "p1", "a") is acted


async def test_calls_are_judged_until_they_are_and_counted(store):
    several = [
        call("c1"), call("c2", position=2), call("c3", thread="x", position=3),
        call("c4", session_id="s2"),
    ]  # fmt: skip
    await store.write(begin, "s1", "s2")
    await store.write(calls.add_calls, several)
    await store.write(calls.begin_judging, [])
    for _ in range(2):
        await store.write(calls.begin_judging, [several[0], several[2]])
    await store.write(calls.begin_judging, [several[3]])

    async def judgings():
        return [(await store.read(calls.call_of, f"c{n}")).judgings for n in range(1, 5)]

    assert await judgings() == [2, 0, 2, 1]
    await store.write(calls.end_judging, "s1", "main")
    assert await judgings() == [0, 0, 2, 1]


async def test_calls_that_are_open_are_found_by_their_conversation_and_what_is_part_of_it(store):
    open_ = ("proposed", "awaiting_approval", "allowed", "started", "unknown")
    over = ("completed", "failed", "denied", "rejected", "expired", "cancelled")

    def made(tx):
        begin(tx, "s1", "s2")
        for number, status in enumerate((*over, *open_), start=1):
            calls.add_calls(tx, [
                call(status, thread="t", position=number, status=CallStatus(status)),
                call(f"{status} below", thread="t/check", position=100 - number,
                     status=CallStatus(status), created_at=NOW + number * SECOND),
            ])  # fmt: skip
        calls.add_calls(tx, [
            call("other", thread="tt/check"), call("its own", thread="t/x", session_id="s2"),
            call("same moment", thread="t/z", position=7, created_at=NOW + 7 * SECOND),
        ])  # fmt: skip

    await store.write(made)
    own = await store.read(calls.open_calls, "s1", "t")
    below = await store.read(calls.open_calls_below, "s1", "t")
    assert [each.id for each in own] == [*open_]
    assert [each.id for each in below] == [
        "same moment", *(f"{each} below" for each in open_),
    ]  # fmt: skip
    assert await store.read(calls.next_position, "s1", "t") == 12
    assert await store.read(calls.next_position, "s1", "none") == 1


async def test_what_a_plan_was_asked_and_told_is_known(store):
    def made(tx):
        begin(tx, "s1", "s2")
        begin_plan(tx)
        kinds = [
            ("pending", {}), ("guarded", {"details": {"about": GUARDED_NAMES}}),
            *((status, {"status": ApprovalStatus(status), "decided_at": NOW + 9 * SECOND})
              for status in ("rejected", "approved", "edited", "expired", "cancelled")),
            ("whole plan's", {"subtask_id": None, "kind": "plan"}),
            ("other's", {"plan_id": "p2", "session_id": "s2"}),
        ]  # fmt: skip
        for number, (name, more) in enumerate(kinds):
            given = {**OF_A, "created_at": NOW + (20 - number) * SECOND, **more}
            calls.add_approval(tx, approval(name, **given))

    await store.write(made)
    pending = await store.read(calls.pending_of_plan, "p1")
    decided = await store.read(calls.decided_of_plan, "p1")
    asked = await store.read(calls.questions_of_plan, "p1")
    assert {each.id for each in pending} == {"pending", "whole plan's"}
    assert [each.id for each in decided] == ["expired", "edited", "approved", "rejected"]
    assert [(each.created_at - NOW).seconds for each in asked] == list(range(14, 21))
    assert asked[-1] == ("a", 1, NOW + 20 * SECOND, None)
    assert asked[0] == ("a", 1, NOW + 14 * SECOND, NOW + 9 * SECOND)
    assert await store.read(calls.count_open_questions) == {"tool": 3, "plan": 1}


@pytest.mark.parametrize(
    ("fields", "let"),
    [
        ({}, True),
        ({"status": ApprovalStatus.PENDING}, False),
        ({"status": ApprovalStatus.EDITED}, False),
        ({"kind": "tool"}, False),
        ({"subtask_id": "b"}, False),
        ({"revision": 2}, False),
        ({"plan_id": "p2"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_subtask_is_let_start_by_an_answer_about_just_its_start(store, fields, let):
    given = {**OF_A, "kind": "subtask", "status": ApprovalStatus.APPROVED, **fields}
    await store.write(begin)
    await store.write(calls.add_approval, approval(**given))

    assert await store.read(calls.is_let_start, "p1", 1, "a") is let


def doubt(tx, name, *, after=0, of=None, status="pending", kind="intervention", **more) -> None:
    """A question about a call, so many seconds later."""
    about = {"arguments": {"path": name}, **(of or {})}
    calls.add_calls(tx, [call(f"c {name} {after}", **OF_A, **about)])
    calls.add_approval(tx, approval(
        f"a {name} {after}", kind=kind, call_id=f"c {name} {after}",
        status=ApprovalStatus(status), created_at=NOW + after * SECOND, **{**OF_A, **more},
    ))  # fmt: skip


async def test_what_may_have_been_done_is_known_until_it_was_let_run_again(store):
    def made(tx):
        begin(tx)
        for status in ("pending", "edited", "expired", "cancelled", "approved", "rejected"):
            doubt(tx, status, status=status)
        doubt(tx, "control", of={"tool_class": ToolClass.CONTROL})
        doubt(tx, "tool's", kind="tool")
        doubt(tx, "elsewhere", plan_id="p2")
        doubt(tx, "later revision's", revision=2, subtask_id="b")
        for name, status, after in (
            ("let again", "approved", 1), ("edited again", "edited", 1),
            ("let before", "approved", -1), ("let at once", "approved", 0.5),
            ("not let", "rejected", 1),
        ):  # fmt: skip
            doubt(tx, name, status="pending")
            doubt(tx, name, after=after, status=status, kind="tool")
        doubt(tx, "let ahead", status="pending")
        # By a clock that was set back until the call itself was doubted.
        calls.add_approval(tx, approval(
            "let", call_id="c let ahead 0", status=ApprovalStatus.APPROVED,
            created_at=NOW + 3_600 * SECOND, **OF_A,
        ))  # fmt: skip
        doubt(tx, "same", of={"tool": "run_command"})
        doubt(tx, "same", after=1, status="approved", kind="tool")

    await store.write(made)
    found = await store.read(calls.perhaps_done, "p1")
    assert sorted(each.arguments["path"] for each in found) == [
        "cancelled", "edited", "expired", "later revision's", "let ahead", "let before", "not let",
        "pending", "same",
    ]  # fmt: skip
    [same] = [each for each in found if each.arguments["path"] == "same"]
    assert same == ("run_command", {"path": "same"}, "c same 0", NOW)
    assert await store.read(calls.perhaps_done, "p9") == []
    assert await store.read(calls.doubted_subtasks, "p1", 1) == frozenset({"a"})
    assert await store.read(calls.doubted_subtasks, "p1", 2) == frozenset({"b"})
    assert await store.read(calls.doubted_subtasks, "p2", 1) == frozenset({"a"})
    assert await store.read(calls.doubted_subtasks, "p2", 2) == frozenset()


async def test_questions_are_listed_newest_first_and_no_more_than_wanted(store):
    def made(tx):
        begin(tx)
        for number in range(4):
            calls.add_approval(tx, approval(f"a{number}", group_key=f"g{number % 2}"))

    every = {"status": None, "session_id": None, "kind": None}

    async def listed(**more):
        found = await store.read(calls.list_approvals, **{**every, **more})
        return [each.id for each in found]

    await store.write(made)
    assert await listed() == ["a3", "a2", "a1", "a0"]
    assert await listed(group="g1") == ["a3", "a1"]
    assert await listed(most=3) == ["a3", "a2", "a1"]
    assert await listed(before=replace(approval("a2"))) == ["a1", "a0"]


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_thousand_questions_are_listed_where_nobody_says_how_many(store):
    def made(tx):
        begin(tx)
        put(tx, approvals, [row_of(approval(f"{number:04}")) for number in range(1_001)])

    await store.write(made)
    found = await store.read(
        lambda tx: calls.list_approvals(tx, status=None, session_id="s1", kind=None)
    )
    assert [each.id for each in found] == [f"{number:04}" for number in range(1_000, 0, -1)]
