"""Calls and their questions: an answer counts for what was shown, and both end together."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, create_engine, text

from fakes import rows
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.domain.identity import Principal, Role
from gonogo.domain.reviews import Deed
from gonogo.domain.states import ApprovalKind, ApprovalStatus, CallStatus, DecisionWord
from gonogo.domain.tool_calls import ToolAnswer
from gonogo.execution.agent import CallKind, Interventions, drop_call, end_call
from gonogo.execution.agent.call_log import answer_of, note_network, tell_end
from gonogo.execution.agent.questions import question_of_doubt
from gonogo.execution.approvals import EXPIRE, ApprovalService, Ruling
from gonogo.i18n import say
from gonogo.runtime import bare_thread
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import add_approval, add_calls, approval_of, call_of, count_pending
from gonogo.store.sessions import add_turn

ANN = Principal(id="ann", name="Ann", role=Role.OPERATOR)


@pytest.mark.parametrize("word", [DecisionWord.APPROVE, DecisionWord.REJECT])
async def test_an_answer_does_not_count_for_a_call_that_is_no_more_what_was_shown(
    store: Store, word: DecisionWord
) -> None:
    gone_on: list[str] = []
    desk = ApprovalService()
    desk.kinds[ApprovalKind.TOOL] = CallKind(
        resume=lambda tx, call: gone_on.append(call.id),
        start=lambda tx, call: gone_on.append(call.id), desk=desk,
    )  # fmt: skip

    def asked(tx: Tx) -> None:
        rows.begin(tx)
        add_calls(tx, [rows.call(status=CallStatus.AWAITING_APPROVAL, digest="sha256:now")])
        add_approval(tx, rows.approval(call_id="call_1", digest="sha256:shown"))

    await store.write(asked)
    answer: Any = (desk.decide, "appr_1", Ruling(word=word, by=ANN))
    with pytest.raises(Conflict, match="call_1 has changed since the question was asked"):
        await store.write(*answer)

    assert (await store.read(call_of, "call_1")).status is CallStatus.AWAITING_APPROVAL
    assert await store.read(count_pending, "s1") == 1
    assert gone_on == []


async def test_a_question_about_a_lost_call_that_nobody_answers_fails_it_and_its_owner_goes_on(
    store: Store,
) -> None:
    gone_on: list[str] = []
    desk = ApprovalService()
    desk.kinds[ApprovalKind.INTERVENTION] = Interventions(lambda tx, call: gone_on.append(call.id))
    later = rows.NOW + timedelta(hours=1)

    def asked(tx: Tx) -> None:
        rows.begin(tx)
        add_calls(tx, [rows.call(status=CallStatus.UNKNOWN)])
        kind = ApprovalKind.INTERVENTION
        add_approval(tx, rows.approval(kind=kind, call_id="call_1", expires_at=later))

    await store.write(asked)
    await store.write(rows.at(later, desk.on_timer), EXPIRE, "appr_1")

    call = await store.read(call_of, "call_1")
    assert call is not None
    assert (call.status, gone_on) == (CallStatus.FAILED, ["call_1"])
    assert str(call.error).startswith("expired: The request expired")


EFFECT = {"path": "b.txt", "before": None, "after": "sha256:b"}


@pytest.mark.parametrize(
    ("more", "deed"),
    [
        ({}, {"paths": ("a.txt",)}),
        ({"effects": [EFFECT]}, {"paths": ("a.txt", "b.txt")}),
        ({"tool": "read_file"}, {"paths": ("a.txt",)}),
        (
            {"tool": "execute_command", "arguments": {"command": "make", "cwd": "src"}},
            {"commands": ("make",), "cwd": "src"},
        ),
        ({"tool": "move_file", "arguments": {}, "effects": [EFFECT]}, {"paths": ("b.txt",)}),
        ({"arguments": {"path": "../a"}}, {}),
        ({"tool": "mcp__x__write_file"}, {}),
    ],
    ids=["as told", "with effects", "reads", "command", "no path", "leads out", "foreign"],
)
def test_a_question_about_a_lost_call_is_reviewed_as_that_call_was(
    more: dict[str, Any], deed: dict[str, Any]
) -> None:
    call = rows.call(**more)

    [found] = question_of_doubt(call, "killed", "en").matter.deeds

    assert found == Deed(agent="coder", tools=frozenset({call.tool}), **deed)


async def test_a_call_that_is_dropped_takes_its_question_with_it(store: Store) -> None:
    def dropped(tx: Tx) -> None:
        rows.begin(tx)
        waits = rows.call(status=CallStatus.AWAITING_APPROVAL, approval_id="appr_1")
        add_calls(tx, [waits])
        add_approval(tx, rows.approval(call_id="call_1"))
        add_approval(tx, rows.approval("other", call_id="call_2"))
        drop_call(tx, ApprovalService(), waits, "the subtask was cancelled")

    await store.write(dropped)

    call = await store.read(call_of, "call_1")
    assert call is not None
    assert (call.status, call.error) == (CallStatus.CANCELLED, "the subtask was cancelled")
    assert (await store.read(approval_of, "appr_1")).status is ApprovalStatus.CANCELLED
    assert (await store.read(approval_of, "other")).status is ApprovalStatus.PENDING
    events = await store.read(log.events_after, "s1", 0)
    assert [event["type"] for event in events] == ["approval_resolved", "tool_result"]


@pytest.mark.parametrize(
    ("status", "error", "originals"),
    [(CallStatus.COMPLETED, None, CallStatus.COMPLETED),
     (CallStatus.CANCELLED, "stopped", CallStatus.FAILED)],
)  # fmt: skip
async def test_a_call_that_was_run_again_twice_ends_all_that_it_stands_for(
    store: Store, status: CallStatus, error: str | None, originals: CallStatus
) -> None:
    def again(tx: Tx) -> None:
        rows.begin(tx)
        lost = [
            rows.call("call_1", status=CallStatus.UNKNOWN),
            rows.call("call_2", status=CallStatus.UNKNOWN, retry_of="call_1", position=2),
        ]
        last = rows.call("call_3", status=CallStatus.STARTED, retry_of="call_2", position=3)
        add_calls(tx, [*lost, last])
        assert end_call(tx, last, status, result={"n": 1}, error=error)

    await store.write(again)
    found = [await store.read(call_of, f"call_{number}") for number in (1, 2, 3)]
    assert [call.status for call in found if call] == [originals, originals, status]
    assert [(call.result, call.error) for call in found if call] == [({"n": 1}, error)] * 3


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize(
    ("owner", "table"),
    [({"plan_id": "p1", "subtask_id": "a"}, "plans"), ({"turn_id": "t1"}, "turns")],
)
async def test_who_lets_go_of_its_work_has_others_wait_until_that_is_written(
    store: Store, database_url: str, tmp_path: Path, owner: dict[str, str], table: str, kind: str
) -> None:
    thread = replace(bare_thread(tmp_path), **owner)
    others = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))

    def tell(tx: Tx) -> None:
        rows.begin(tx)
        rows.begin_plan(tx)
        add_turn(tx, "t1", "s1", "Go", "coder")

    def held(tx: Tx) -> tuple[bool, bool]:
        before = _is_free(others, table)
        thread.hold(tx)
        return before, _is_free(others, table)

    await store.write(tell)
    assert await store.write(held) == (True, False)
    others.dispose()


def _is_free(others: Engine, table: str) -> bool:
    with others.begin() as conn:
        held = f"SELECT 1 FROM {table} FOR UPDATE SKIP LOCKED"  # noqa: S608 - our own word
        return bool(conn.execute(text(held)).all())


# What is told of calls ----------------------------------------------------------------------------


async def test_what_a_command_reached_is_noted_and_of_other_calls_nothing(store: Store) -> None:
    def noted(tx: Tx) -> None:
        rows.begin(tx)
        command = rows.call(tool="execute_command", plan_id="p1", subtask_id="a")
        network = {"reached": ["a.org"], "refused": ["b.org"]}
        note_network(tx, command, {"exit_code": 0, "network": network})
        note_network(tx, command, {"exit_code": 0})
        note_network(tx, command, None)
        note_network(tx, rows.call(tool="fetch"), {"network": network})

    await store.write(noted)
    [entry] = await store.read(log.entries, "s1")
    assert (entry.actor, entry.action, entry.subject) == (
        "agent:coder", "tool.network", "execute_command",
    )  # fmt: skip
    assert entry.details == {
        "call_id": "call_1", "digest": "sha256:c", "plan_id": "p1", "subtask_id": "a",
        "reached": ["a.org"], "refused": ["b.org"],
    }  # fmt: skip


async def test_how_long_a_call_took_is_told_from_its_start(store: Store) -> None:
    def told(tx: Tx) -> None:
        rows.begin(tx)
        begun = rows.call(status=CallStatus.STARTED, started_at=rows.NOW - timedelta(seconds=2))
        for status in (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED):
            tell_end(tx, begun, status)
        for status in (CallStatus.REJECTED, CallStatus.EXPIRED, CallStatus.UNKNOWN):
            tell_end(tx, rows.call(), status, error="no")
        tell_end(tx, rows.call(status=CallStatus.UNKNOWN), CallStatus.COMPLETED, result=1)

    await store.write(told)
    events = await store.read(log.events_after, "s1", 0)
    assert [event["metadata"] for event in events] == [
        {"status": "completed", "duration_ms": 2000.0},
        {"status": "failed", "duration_ms": 2000.0}, {"status": "failed", "duration_ms": 2000.0},
        {"status": "rejected"}, {"status": "expired"}, {"status": "unknown"},
        {"status": "completed", "resolution": True},
    ]  # fmt: skip
    assert [event.get("error") for event in events] == [None] * 3 + ["no"] * 3 + [None]


@pytest.mark.parametrize(
    ("more", "content", "is_error"),
    [
        ({"error": "failed: no", "finished_at": rows.NOW}, "failed: no", True),
        ({}, "This operation was interrupted and has no result.", True),
        ({"result": {"a": "ы"}, "finished_at": rows.NOW}, '{"a": "ы"}', False),
        ({"finished_at": rows.NOW}, "null", False),
    ],
)
def test_a_model_is_told_the_result_of_its_call_or_what_went_wrong(
    more: dict[str, Any], content: str, is_error: bool
) -> None:
    assert answer_of(rows.call(**more), "en") == ToolAnswer(
        call_id="call_1", tool_name="write_file", content=content, is_error=is_error
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, 'An intervention is edited with modified_arguments {"result": …}'),
        ({}, 'An intervention is edited with modified_arguments {"result": …}'),
        (
            {"result": 1, "more": 2},
            'An intervention is edited with modified_arguments {"result": …}',
        ),
    ],
)
async def test_what_a_person_says_came_of_a_call_is_its_result_and_nothing_else(
    store: Store, changes: Any, said: str
) -> None:
    def asked(tx: Tx) -> None:
        rows.begin(tx)
        add_calls(tx, [rows.call(status=CallStatus.UNKNOWN)])

    await store.write(asked)
    kind = Interventions(lambda tx, call: None)
    edit = Ruling(word=DecisionWord.EDIT, by=ANN, changes=changes)
    with pytest.raises(InvalidMessage) as refused:
        await store.write(kind.settle, rows.approval(call_id="call_1"), edit)
    assert str(refused.value) == said

    right = Ruling(word=DecisionWord.EDIT, by=ANN, changes={"result": None})
    await store.write(kind.settle, rows.approval(call_id="call_1"), right)
    call = await store.read(call_of, "call_1")
    assert call is not None
    assert (call.status, call.result, call.error) == (CallStatus.COMPLETED, None, None)
    with pytest.raises(Conflict) as refused_again:
        await store.write(kind.settle, rows.approval(call_id="call_1"), right)
    assert str(refused_again.value) == (
        "Call call_1 is already completed; there is nothing left to decide"
    )


@pytest.mark.parametrize(
    ("word", "more", "status", "result", "error"),
    [
        (DecisionWord.APPROVE, {}, CallStatus.COMPLETED, {"answer": "yes"}, None),
        (DecisionWord.APPROVE, {"feedback": "no"}, CallStatus.COMPLETED, {"answer": "no"}, None),
        (DecisionWord.EDIT, {"changes": {"result": "so"}}, CallStatus.COMPLETED, "so", None),
        (
            DecisionWord.REJECT, {"feedback": " why "}, CallStatus.FAILED, None,
            f"rejected: {say('model_rejected', 'en', feedback='why')}",
        ),
        (
            DecisionWord.REJECT, {"feedback": " "}, CallStatus.FAILED, None,
            f"rejected: {say('model_rejected_default', 'en')}",
        ),
    ],
)  # fmt: skip
async def test_a_question_of_an_agent_is_answered_by_what_a_person_says(
    store: Store, word: DecisionWord, more: dict[str, Any], status: CallStatus, result: Any,
    error: str | None,
) -> None:  # fmt: skip
    def asked(tx: Tx) -> None:
        rows.begin(tx)
        add_calls(tx, [rows.call(status=CallStatus.STARTED, tool="ask_followup_question")])

    gone_on: list[str] = []
    await store.write(asked)
    kind = Interventions(lambda tx, call: gone_on.append(call.id))
    ruling = Ruling(word=word, by=ANN, **more)
    await store.write(kind.settle, rows.approval(call_id="call_1"), ruling)

    call = await store.read(call_of, "call_1")
    assert call is not None
    assert (call.status, call.result, call.error) == (status, result, error)
    assert gone_on == ["call_1"]
