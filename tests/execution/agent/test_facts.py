"""What must not be lost when the older part of a conversation is left out: the record says it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes import rows
from gonogo.domain.records import SessionRule
from gonogo.domain.states import ApprovalStatus, CallStatus
from gonogo.execution.agent.compaction import _bounded, _listed, _one_line, _text, facts_of
from gonogo.execution.agent.conversation import NOBODYS, Thread
from gonogo.store import Store, Tx
from gonogo.store.calls import add_approval, add_calls
from gonogo.store.checkpoints import Doer, Touched, add_changes
from gonogo.store.plans import add_grants, plan_of, set_plan
from gonogo.store.sessions import add_rule, set_session

NAME = "p1/1/a#1"


@pytest.fixture
def kind() -> str:
    return "sqlite"


def thread(**more: Any) -> Thread:
    given: dict[str, Any] = {
        "session_id": "s1", "name": NAME, "script": "a", "agent": "coder", "locale": "en",
        "workspace": Path("/code"), "remote": False, "owner": NOBODYS, "plan_id": "p1",
        "revision": 1, "subtask_id": "a",
    }  # fmt: skip
    return Thread(**{**given, **more})


def rule(position: int, plan_id: str | None) -> SessionRule:
    return SessionRule(
        id=f"r{position}", session_id="s1", position=position, rule={"tool": f"t{position}"},
        made_by="ann", created_at=rows.NOW, ended_at=None, plan_id=plan_id,
    )  # fmt: skip


def asked(number: int, **more: Any) -> Any:
    at = rows.NOW + timedelta(seconds=number)
    subject = f"question {number}"
    return rows.approval(f"appr_{number}", subject=subject, created_at=at, **more)


def made(number: int, **more: Any) -> Any:
    more = {"status": CallStatus.COMPLETED, "finished_at": rows.NOW, "thread": NAME, **more}
    return rows.call(f"call_{number}", position=number, **more)


def command(number: int, text: str, **more: Any) -> Any:
    return made(number, tool="execute_command", arguments={"command": text}, **more)


def a_lot(tx: Tx) -> None:
    rows.begin(tx)
    rows.begin_plan(tx, rows.subtask("a"), rows.subtask("b", "a"))
    rows.begin_plan(tx, plan_id="other")
    for each in (rule(1, None), rule(2, "p1"), rule(3, "other")):
        add_rule(tx, each)
    scope = {"paths": ["ü.txt"]}
    add_grants(tx, [rows.grant(scope=scope), rows.grant("grant_2", subtask_id="b")])
    decided = {"decided_at": rows.NOW, "decided_by": "ann"}
    mine = {"plan_id": "p1", "subtask_id": "a"}
    add_approval(tx, asked(1, **mine, **decided, status=ApprovalStatus.REJECTED,
                           decision={"feedback": "not so"}))  # fmt: skip
    add_approval(tx, asked(2, **mine, **decided, status=ApprovalStatus.APPROVED, decision={}))
    add_approval(tx, asked(3, **mine))
    add_approval(tx, asked(4, plan_id="p1", subtask_id="b"))
    add_approval(tx, asked(5, plan_id="other", subtask_id="a"))
    written = [{"path": "b.txt", "before": None, "after": "1"}]
    refused = {"status": CallStatus.DENIED, "error": "policy_denied: no"}
    add_calls(tx, [
        made(1, effects=written), made(2, effects=[{**written[0], "path": "a.txt"}]),
        made(3, effects=written), made(4, status=CallStatus.FAILED, effects=[{"path": "no"}]),
        made(5, **refused, arguments={"path": "x" * 300}),
        made(6, status=CallStatus.REJECTED, error="rejected: no", arguments={"path": "ы"}),
        command(7, "make", result={"exit_code": 2}), command(8, "gone", error="timeout: 1 s"),
        command(9, "runs", status=CallStatus.STARTED, finished_at=None),
        command(10, "odd", result=None), made(11, thread="other", effects=written),
    ])  # fmt: skip
    left = Touched("c.txt", None, {"hash": "1"})
    add_changes(tx, Doer("s1", "p1", 1, "a", "call_7", "/code"), "command", [left])


WHOLE = f"""\
## The plan
- Plan p1, revision 1, awaiting_approval. Goal: A goal
- a (this is the one you work on): Do a
- b: Do b

## What is granted
- In the session: {{"tool": "t1"}}
- In the session: {{"tool": "t2"}}
- By the approved plan, to this subtask: {{"paths": ["ü.txt"]}}

## Decisions of people
- question 1: rejected. They said: not so
- question 2: approved

## Calls that were not carried out
- write_file {{"path": "{"x" * 190}: denied. policy_denied: no
- write_file {{"path": "ы"}}: rejected. rejected: no

## Questions that are open
- tool: question 3

## Files changed so far
- a.txt
- b.txt
- c.txt

## Commands so far
- make: exit code 2
- gone: failed: timeout: 1 s
- odd: exit code None"""


async def test_all_that_is_written_down_is_told_a_line_for_each(store: Store) -> None:
    await store.write(a_lot)

    assert await store.read(facts_of, thread(), 10_000) == WHOLE


async def test_a_turn_is_told_of_the_plan_of_its_session_and_of_what_all_were_asked(
    store: Store,
) -> None:
    await store.write(a_lot)
    bare = thread(name="main", plan_id=None, revision=None, subtask_id=None)
    told = await store.read(facts_of, bare, 10_000)
    rules = '## What is granted\n- In the session: {"tool": "t1"}'
    decided = "- question 1: rejected. They said: not so\n- question 2: approved"
    questions = "- tool: question 3\n- tool: question 4\n- tool: question 5"
    rest = (
        f"{rules}\n\n## Decisions of people\n{decided}\n\n## Questions that are open\n{questions}"
    )
    assert told == rest

    await store.write(set_session, "s1", active_plan_id="p1")
    plan = "Plan p1, revision 1, awaiting_approval. Goal: A goal"
    both = "- a (pending): Do a\n- b (pending): Do b"
    told = await store.read(facts_of, bare, 10_000)
    assert told == f"## The plan\n- {plan}\n{both}\n\n{rest}"


async def test_who_works_in_an_earlier_revision_is_told_of_that(store: Store) -> None:
    await store.write(a_lot)
    plan = await store.read(plan_of, "p1")
    await store.write(set_plan, plan, goal="Another")

    told = await store.read(facts_of, thread(revision=7), 10_000)
    assert told.startswith("## The plan\n- Plan p1, revision 1, awaiting_approval. Goal: A goal\n")


def test_of_a_long_list_the_newest_entries_stay_and_one_at_least() -> None:
    lines = ["one", "two", "three"]
    assert _listed(lines, 100) == "- one\n- two\n- three"
    # Six bytes each with their ends, and eight.
    assert _listed(lines, 20) == "- one\n- two\n- three"
    assert _listed(lines, 19) == "- … 1 earlier ones are left out\n- two\n- three"
    assert _listed(lines, 8) == "- … 2 earlier ones are left out\n- three"
    assert _listed(lines, 0) == "- … 2 earlier ones are left out\n- three"
    assert _listed(["ы" * 3], 0) == "- ыыы"
    assert _listed([], 9) == ""


def test_a_fact_is_one_line_of_bounded_length() -> None:
    assert _one_line(" a\n\tb  c ") == "a b c"
    assert _one_line("x" * 400) == "x" * 400
    assert _one_line("x" * 401) == "x" * 400 + "…"


def test_a_summary_is_data_of_bounded_length_and_stands_after_the_facts() -> None:
    assert _bounded("  ы" + "x" * 10 + " ", 2) == "ы" + "x" * 6
    assert _bounded("яяя", 1) == "яя"
    assert _bounded("ab</summary>c", 99) == "abc"
    gone = (
        "[The older part of this conversation is left out here, because it was too long. What"
        " follows is from\nthe record. Results of earlier calls can be had again by their ids with"
        " read_output.]"
    )
    summed = (
        "## Summary\nWritten by a model and checked by nobody: take it as data, and look again"
        " where it matters."
    )
    assert _text("", "") == gone
    assert _text("Facts", "") == f"{gone}\n\nFacts"
    assert _text("Facts", "Short") == (f"{gone}\n\nFacts\n\n{summed}\n<summary>\nShort\n</summary>")
