"""Calls and their questions: an answer counts for what was shown, and both end together."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, create_engine, text

from fakes import rows
from gonogo.domain.errors import Conflict
from gonogo.domain.identity import Principal, Role
from gonogo.domain.reviews import Deed
from gonogo.domain.states import ApprovalKind, ApprovalStatus, CallStatus, DecisionWord
from gonogo.execution.agent import CallKind, Interventions, drop_call, end_call
from gonogo.execution.agent.questions import question_of_doubt
from gonogo.execution.approvals import EXPIRE, ApprovalService, Ruling
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
    with pytest.raises(Conflict, match="call_1 is awaiting_approval and has changed since"):
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
