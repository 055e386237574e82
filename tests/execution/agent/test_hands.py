"""Hands: what becomes of calls that others left behind, and whose move it is."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.base import content_hash
from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import FileEffect, ToolClass, Verdict
from gonogo.execution.agent import Hands, Thread, Traces, load_profiles
from gonogo.execution.agent.call_log import gated_columns
from gonogo.execution.agent.file_changes import Watches
from gonogo.execution.agent.gate import Gated
from gonogo.execution.approvals import ApprovalService
from gonogo.i18n import say
from gonogo.policy import load_reviews
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.store import Store, Tx
from gonogo.store.calls import add_calls, call_of, pending_approvals
from gonogo.store.events import entries, events_after
from gonogo.store.jobs import due_timers
from gonogo.store.sessions import set_session
from gonogo.tools import builtin_tools
from gonogo.workspace import Snapshots, Traffic

_C = CallStatus
GIVEN_UP = f"internal: {say('model_given_up', 'en')}"


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def hands(store: Store, tmp_path: Path) -> Hands:
    (tmp_path / "ws").mkdir()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    tools, desk, traffic = builtin_tools(), ApprovalService(), Traffic()
    reviews = load_reviews(None, None)
    gate = open_gate(settings, tools, load_profiles(known_tools=tools), reviews)
    return Hands(
        store=store, desk=desk, gate=gate,
        traces=Traces(store=store, snapshots=Snapshots(tmp_path / "kept"), traffic=traffic),
        watches=Watches(
            store=store, desk=desk, guards=gate.guards, traffic=traffic, taken=tmp_path / "taken",
            resume=lambda tx, call: None,
        ),
    )  # fmt: skip


@pytest.fixture
def thread(tmp_path: Path) -> Thread:
    return replace(
        bare_thread(tmp_path / "ws", "coder"), session_id="s1", name="main", script="main",
        turn_id="t1",
    )  # fmt: skip


async def kept(hands: Hands, **more: Any) -> CallRow:
    """A call of the conversation that somebody left behind."""
    call = rows.call(turn_id="t1", **more)

    def keep(tx: Tx) -> None:
        rows.begin(tx)
        add_calls(tx, [call])

    await hands.store.write(keep)
    return call


async def now(hands: Hands) -> CallRow:
    found = await hands.store.read(call_of, "call_1")
    assert found is not None
    return found


async def noted(hands: Hands) -> list[tuple[str, str, str, dict[str, Any]]]:
    found = await hands.store.read(entries, "s1")
    return [(each.actor, each.action, each.subject, each.details) for each in found]


async def test_a_new_call_that_ended_everybody_is_denied_and_says_so(
    hands: Hands, thread: Thread
) -> None:
    await hands.give_up(thread, await kept(hands))

    found = await now(hands)
    assert (found.status, found.error, found.finished_at) == (_C.DENIED, GIVEN_UP, rows.NOW)
    assert found.verdict == {
        "decision": "deny", "reason": GIVEN_UP, "rule": "builtin:given-up", "source": "rule",
        "network": False, "read_only": False, "expects": [],
    }  # fmt: skip
    assert await noted(hands) == [
        (
            "agent:coder", "tool.denied", "write_file",
            {
                "call_id": "call_1", "arguments": {"path": "a.txt"}, "reason": GIVEN_UP,
                "rule": "builtin:given-up",
            },
        )
    ]  # fmt: skip
    called, resulted = await hands.store.read(events_after, "s1", 0)
    assert (called["type"], called["requires_approval"]) == ("tool_call", False)
    assert (resulted["type"], resulted["error"]) == ("tool_result", GIVEN_UP)
    for event in (called, resulted):
        assert (event["turn_id"], event["agent"], event["call_id"]) == ("t1", "coder", "call_1")


async def test_an_approved_call_that_ended_everybody_fails_and_why_is_noted(
    hands: Hands, thread: Thread
) -> None:
    await hands.give_up(thread, await kept(hands, status=_C.ALLOWED, plan_id="p", subtask_id="s"))

    found = await now(hands)
    assert (found.status, found.error) == (_C.FAILED, GIVEN_UP)
    assert await noted(hands) == [
        (
            "agent:coder", "tool.stale", "write_file",
            {
                "call_id": "call_1", "digest": "sha256:c", "reason": GIVEN_UP, "plan_id": "p",
                "subtask_id": "s",
            },
        )
    ]  # fmt: skip


async def test_a_call_that_was_under_way_is_asked_about(hands: Hands, thread: Thread) -> None:
    await hands.give_up(thread, await kept(hands, status=_C.STARTED))

    assert (await now(hands)).status is _C.UNKNOWN
    [asked] = await hands.store.read(pending_approvals, "s1")
    assert (asked.kind, asked.subject, asked.call_id) == ("intervention", "write_file", "call_1")
    why = "gonogo stopped while it was running"
    assert asked.reason == say("intervention_unknown", "en", subject="write_file", why=why)
    [told] = await hands.store.read(events_after, "s1", 0, 1)
    assert told["error"] == say("model_unknown", "en", why=why)


@pytest.mark.parametrize(
    ("text", "status", "result"),
    [
        ("new", _C.COMPLETED, {"recovered": True, "paths": ["a.txt"]}),
        ("other", _C.UNKNOWN, None),
    ],
)
async def test_what_a_file_tool_did_before_it_was_left_is_read_off_its_file(
    hands: Hands, thread: Thread, text: str, status: CallStatus, result: Any
) -> None:
    (thread.workspace / "a.txt").write_text(text)
    after = content_hash(b"new")
    effects = [{"path": "a.txt", "before": None, "after": after}]
    call = await kept(hands, status=_C.STARTED, effects=effects)
    await hands.recover(replace(thread, remote=True), call)
    assert (await now(hands)).status is _C.STARTED

    await hands.recover(thread, call)
    found = await now(hands)
    assert (found.status, found.result) == (status, result)


async def test_a_file_that_was_not_written_yet_is_written_where_that_is_still_allowed(
    hands: Hands, thread: Thread
) -> None:
    arguments = {"path": "a.txt", "content": "new"}
    gated = await hands.gate.judge(thread, "write_file", arguments)
    more = gated_columns(gated) | {"status": _C.STARTED, "approval_id": "appr_1"}
    await hands.recover(thread, await kept(hands, **more))
    found = await now(hands)
    assert found.status is _C.COMPLETED
    assert (thread.workspace / "a.txt").read_text() == "new"


async def test_a_file_is_not_written_again_without_the_approval_that_it_had(
    hands: Hands, thread: Thread
) -> None:
    arguments = {"path": "a.txt", "content": "new"}
    gated = await hands.gate.judge(thread, "write_file", arguments)
    await hands.recover(thread, await kept(hands, **gated_columns(gated), status=_C.STARTED))
    assert (await now(hands)).status is _C.UNKNOWN
    assert not (thread.workspace / "a.txt").exists()


def test_what_the_gate_found_out_is_kept_whole() -> None:
    gated = Gated(
        tool="write_file", tool_class=ToolClass.IDEMPOTENT, arguments={"path": "a"},
        verdict=Verdict(decision="ask", reason="asks", rule="default:other"), digest="sha256:1",
        base_hashes={"a": None}, effects=(FileEffect(path="a", before=None, after="sha256:2"),),
    )  # fmt: skip
    assert gated_columns(gated) == {
        "tool_class": ToolClass.IDEMPOTENT, "arguments": {"path": "a"}, "base_hashes": {"a": None},
        "effects": [{"path": "a", "before": None, "after": "sha256:2"}], "digest": "sha256:1",
        "verdict": {
            "decision": "ask", "reason": "asks", "rule": "default:other", "source": "rule",
            "network": False, "read_only": False, "expects": [],
        },
    }  # fmt: skip


CONTROL = {"tool": "switch_mode", "tool_class": ToolClass.CONTROL}


@pytest.mark.parametrize(
    ("left", "whose"),
    [
        ([], "ours"),
        ([{"status": _C.PROPOSED}], "ours"),
        ([{"status": _C.PROPOSED, "tool": "fly"}], "ours"),
        ([{"status": _C.ALLOWED}, {"status": _C.AWAITING_APPROVAL}], "ours"),
        ([{"status": _C.STARTED}, {"status": _C.AWAITING_APPROVAL}], "client"),
        ([{"status": _C.AWAITING_APPROVAL}], "person"),
        ([{"status": _C.STARTED, **CONTROL}], "person"),
        ([{"status": _C.PROPOSED, **CONTROL}], "ours"),
        ([{"status": _C.PROPOSED, **CONTROL}, {"status": _C.UNKNOWN}], "person"),
        ([{"status": _C.UNKNOWN}], "person"),
        ([{"status": _C.UNKNOWN}, {"status": _C.STARTED, "retry_of": "call_0"}], "client"),
        ([{"status": _C.STARTED, "error": "left"}, {"status": _C.ALLOWED}], "person"),
    ],
)
def test_whose_move_it_is_shows_in_the_calls_that_are_open(
    hands: Hands, left: list[dict[str, Any]], whose: str
) -> None:
    calls = [rows.call(f"call_{at}", **each) for at, each in enumerate(left)]
    assert hands.whose_move(calls) == whose


@pytest.mark.parametrize(("host", "status"), [("client", _C.STARTED), ("server", _C.ALLOWED)])
async def test_a_client_is_handed_what_a_person_allowed_and_has_so_long(
    hands: Hands, host: str, status: CallStatus
) -> None:
    call = await kept(hands, status=_C.ALLOWED)
    await hands.store.write(set_session, "s1", tool_host=host)

    def hand(tx: Tx) -> None:
        hands.hand_over(tx, call)
        hands.hand_over(tx, rows.call("gone"))

    await hands.store.write(hand)
    assert (await now(hands)).status is status
    late: Callable[..., Any] = rows.at(rows.NOW + timedelta(hours=1), due_timers)
    found = [(each.kind, each.key, each.run_at) for each in await hands.store.read(late)]
    due = ("client_call", "call_1", rows.NOW + timedelta(minutes=10))
    assert found == ([due] if host == "client" else [])
