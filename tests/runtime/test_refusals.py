"""What cannot be done is refused in words that say what is wrong, whoever asks and wherever."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.rows import call, session
from fakes.world import calls, plan, run, says, step, world_of
from gonogo.domain.errors import GonogoError
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.states import CallStatus, DecisionWord
from gonogo.domain.tool_calls import ToolClass
from gonogo.runtime.messages import _check_expects_result

LINES = {
    "main/architect": [plan(step("one"), step("two", "one"))],
    "main/coder": [calls(run("make all")), says("no")],
    "one": [calls(run("make all")), says("one")],
    "two": [says("two")],
}
Asked = tuple[str, Coroutine[Any, Any, Any]]


async def refused(*each: Asked) -> None:
    """Each is refused with the kind of refusal and the words that stand before it."""
    try:
        for said, ask in each:
            with pytest.raises(GonogoError) as found:
                await ask
            assert f"{type(found.value).__name__}: {found.value}" == said
    finally:
        for _, ask in each:
            ask.close()


async def test_what_is_wrong_with_a_session_is_said(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        verbs, ann = world.runtime.sessions, world.ann
        await verbs.open(ann, session_id="s" * 128)
        await verbs.open(ann, session_id="mine")
        none, folder = world.folder / "none", world.folder
        odd = "InvalidMessage: session_id: 1 to 128 letters, digits, or any of _ . : -"
        await refused(
            (odd, verbs.open(ann, session_id="s" * 129)),
            (odd, verbs.open(ann, session_id="a b")),
            ((
                "Conflict: The session id mine is taken; choose another one"
            ), verbs.open(ann, session_id="mine")),
            ((
                "Conflict: The session id system is taken; choose another one"
            ), verbs.open(ann, session_id="system")),
            ((
                "InvalidMessage: tool_host: it must be server or client"
            ), verbs.open(ann, tool_host="both")),
            ((
                "Forbidden: Only the user of this machine can use a recording as the model; "
                "choose another model"
            ),
             verbs.open(ann, model="replay:x")),
            ((
                f"Forbidden: The workspace /etc is outside the allowed roots: {folder}; choose a "
                "folder inside them"
            ),
             verbs.open(ann, workspace="/etc")),
            (f"InvalidMessage: workspace: {none} is not a folder; name a folder",
             verbs.open(ann, workspace=str(none))),
            ("InvalidMessage: workspace: Could not determine home directory.",
             verbs.open(ann, workspace="~nobody-has-this-name/x")),
            ("NotFound: No session found with id=mine", verbs.get(world.bob, "mine")),
            ("NotFound: No session found with id=mine",
             verbs.add_rule(world.bob, "mine", {"tool": "x", "decision": "deny"})),
            ("NotFound: No session found with id=none", verbs.delete(ann, "none")),
            ("NotFound: No rule found with id=none", verbs.remove_rule(ann, "mine", "none")),
        )  # fmt: skip
        for after in (-1, 1_000):
            with pytest.raises(GonogoError) as far:
                async with world.runtime.streams.follow(ann, "mine", after):
                    pass
            assert str(far.value) == (
                f"The session's log ends at 0, before {after}; use a smaller `after`"
            )


async def test_a_session_without_a_folder_to_work_in_is_told_so(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES, roots=(tmp_path / "a", tmp_path / "b")) as world:
        roots = f"{tmp_path}/a, {tmp_path}/b"
        await refused(
            ((
                f"Forbidden: The workspace {world.folder} is outside the allowed roots: {roots}; "
                "choose a folder inside them"
            ),
             world.runtime.sessions.open(world.ann)),
        )  # fmt: skip


async def test_what_is_wrong_with_a_message_is_said(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.runtime.sessions.open(world.ann, session_id="mine")
        world.session = "mine"
        send, known = world.send, ", ".join(sorted(each.name for each in world.runtime.agents()))
        hello = {"type": "user_message", "content": "hi"}
        await refused(
            (f"InvalidMessage: agent_type: there is no agent 'cook'; use one of {known}",
             send({**hello, "agent_type": "cook"})),
            ((
                "Conflict: Nothing is running in this session; there is nothing to cancel"
            ), send({"type": "cancel"})),
            ("NotFound: No turn found with id=t", send({"type": "cancel", "turn_id": "t"})),
            ("NotFound: No turn found with id=t",
             send({"type": "steer", "turn_id": "t", "content": "no"})),
            ("Conflict: No agent is answering now; send a message, or name a running subtask",
             send({"type": "steer", "content": "no"})),
            ("NotFound: No call found with id=c",
             send({"type": "tool_result", "call_id": "c", "result": "x"})),
            ("NotFound: No plan found with id=p",
             send({"type": "steer", "plan_id": "p", "subtask_id": "x", "content": "no"})),
            ("NotFound: No session found with id=mine", send({"type": "cancel"}, by=world.bob)),
            ("NotFound: No session found with id=mine", send(hello, by=world.bob)),
            ((
                "Conflict: The server runs this session's tools; to run them in a client, open a "
                "session with tool_host: client"
            ),
             world.runtime.claim_tool_host(world.ann, "mine", "c1")),
        )  # fmt: skip
        await world.runtime.sessions.delete(world.ann, "mine")
        await refused(("NotFound: No session found with id=mine", send(hello)))


async def test_only_the_connection_that_carries_tools_out_gives_results(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.runtime.sessions.open(world.ann, session_id="mine", tool_host="client")
        world.session = "mine"
        await world.say("Make it", "coder")
        [question] = await world.pending()
        hold, held = world.runtime.claim_tool_host, {"type": "tool_result", "result": "x"}
        held["call_id"] = question.call_id
        for _ in range(2):
            await hold(world.ann, "mine", "first")
        other = "Conflict: Another connection runs this session's tools; close it first"
        await refused(
            (other, hold(world.ann, "mine", "second")),
            (other, world.send(held, connection="second")),
            ((
                f"Conflict: Call {question.call_id} is not approved (awaiting_approval); send "
                "results only for approved calls"
            ),
             world.send(held, connection="first")),
        )  # fmt: skip
        await world.runtime.release_tool_host("second")
        await refused((other, hold(world.ann, "mine", "second")))
        await world.runtime.release_tool_host("first")
        await hold(world.ann, "mine", "second")


@pytest.mark.parametrize(
    ("status", "host", "said"),
    [
        (CallStatus.STARTED, "server",
         "The server runs this session's tools; do not send results"),
        (CallStatus.PROPOSED, "client", (
            "Call call_1 is not approved (proposed); send results only for approved calls"
        )),
        (CallStatus.AWAITING_APPROVAL, "client", (
            "Call call_1 is not approved (awaiting_approval); send results only for approved calls"
        )),
        (CallStatus.ALLOWED, "client", (
            "Call call_1 is not approved (allowed); send results only for approved calls"
        )),
        (CallStatus.COMPLETED, "client", (
            "Call call_1 already has a result (completed); do not send another one"
        )),
        (CallStatus.REJECTED, "server", (
            "Call call_1 already has a result (rejected); do not send another one"
        )),
    ],
)  # fmt: skip
def test_a_result_is_taken_of_a_call_that_a_client_carries_out(
    status: CallStatus, host: str, said: str
) -> None:
    with pytest.raises(GonogoError) as refusal:
        _check_expects_result(session(tool_host=host), call(status=status))
    assert str(refusal.value) == said


def test_a_result_is_taken_of_no_call_that_speaks_to_the_runtime() -> None:
    begun, at_client = {"status": CallStatus.STARTED}, session(tool_host="client")
    _check_expects_result(at_client, call(**begun))
    with pytest.raises(GonogoError) as refusal:
        _check_expects_result(at_client, call(**begun, tool_class=ToolClass.CONTROL))
    assert str(refusal.value) == "gonogo answers call call_1 itself; do not send a result for it"


async def test_what_is_wrong_with_a_decision_is_said(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        [of_plan] = await world.pending()
        await world.say("Make it", "coder", session="other")
        [of_call] = await world.pending("other")
        verbs, ann, call_id = world.runtime.approvals, world.ann, of_call.call_id
        unknown = "NotFound: No approval found with id="

        def hitl(decision: str = "approve", **more: Any) -> Coroutine[Any, Any, Any]:
            about = more if "approval_id" in more else {"call_id": call_id, **more}
            return verbs.decide(ann, HitlDecision(decision=decision, **about))

        async def within(session_id: str, by: Principal = ann) -> None:
            decision = HitlDecision(call_id=call_id, decision="approve")
            await verbs.decide(by, decision, session_id)

        async def of_a_plan(about: str = plan_id, **more: Any) -> None:
            given = PlanDecision(plan_id=about, decision="approve", **more)
            await verbs.decide(ann, given, more.get("session"))

        changed = "only the decision edit can have changes, not approve"
        await refused(
            (f"{unknown}a", verbs.get(ann, "a")),
            (f"{unknown}{of_plan.approval_id}", verbs.get(world.bob, of_plan.approval_id)),
            (f"{unknown}a", hitl(approval_id="a")),
            (f"{unknown}c", hitl(call_id="c")),
            (f"{unknown}{call_id}", within(world.session)),
            (f"{unknown}{call_id}", within("other", world.bob)),
            ("InvalidCursor: before=a is not an approval; use the `before` of a page",
             verbs.page(ann, before="a")),
            ("InvalidMessage: To decide on a plan, send plan_decision with its plan_id",
             hitl(approval_id=of_plan.approval_id)),
            (f"InvalidMessage: modified_arguments: {changed}", hitl(modified_arguments={"a": 1})),
            (f"InvalidMessage: modified_subtasks: {changed}", of_a_plan(modified_subtasks=[])),
            ("InvalidMessage: for_session, for_plan: give only one of them",
             hitl(for_session=True, for_plan=True)),
            ("InvalidMessage: EDIT decision requires modified_arguments", hitl("edit")),
            ("InvalidMessage: for_session: give it only when you approve a tool call",
             hitl("reject", for_session=True)),
            ("InvalidMessage: for_plan: give it only when you approve a tool call",
             hitl("reject", for_plan=True)),
            (f"InvalidMessage: for_plan: {of_call.subject} belongs to no plan",
             hitl(for_plan=True)),
            ("NotFound: No plan found with id=p", of_a_plan("p")),
        )  # fmt: skip
        assert len(await world.pending("other")) == len(await world.pending()) == 1


async def test_what_is_wrong_with_a_link_is_said(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        [asked] = await world.pending()
        none = "Conflict: Links need this server's public address: set GONOGO_PUBLIC_URL"
        await refused((none, world.runtime.links.make(world.ann, asked.approval_id)))
    async with world_of(tmp_path, LINES, public_url="https://g.example") as world:
        links, owner = world.runtime.links, world.runtime.owner
        for name, role in (("ann", Role.OPERATOR), ("vic", Role.VIEWER), ("bob", Role.OPERATOR)):
            await world.runtime.people.create_token(owner, name, role)
        unseen = "the session (ann) and admins can; a review rule can let other people in as "
        await refused(
            ((
                "Forbidden: Only an admin can make links for other people; make one for yourself, "
                "or ask an admin"
            ),
             links.make(world.ann, asked.approval_id, "bob")),
            ((
                "Forbidden: Only an admin can make links for other people; make one for yourself, "
                "or ask an admin"
            ),
             links.make(world.ann, asked.approval_id, "nobody")),
            ("NotFound: Nobody named nobody has a token; create one: gonogo token create, or "
             "list them: gonogo token list", links.make(owner, asked.approval_id, "nobody")),
            ((
                "Forbidden: A link for vic cannot be made: vic has the role viewer, and decisions "
                "need the role operator; ask an admin"
            ),
             links.make(owner, asked.approval_id, "vic")),
            ("Forbidden: A link for bob cannot be made: bob cannot see this question. The owner of "
             f"{unseen}`reviewers`", links.make(owner, asked.approval_id, "bob")),
            ("NotFound: No approval found with id=a", links.make(owner, "a", "ann")),
            ((
                "NotFound: There is no such link; ask its sender for a new one"
            ), links.page("nothing")),
            ("InvalidMessage: decision: it must be approve or reject",
             links.decide("nothing", DecisionWord.EDIT)),
        )  # fmt: skip
        assert (await links.make(world.ann, asked.approval_id, "ann")).name == "ann"
        await world.decide_plan(asked.plan_id, "reject")
        over = f"Conflict: {asked.subject} was already rejected; it needs no link"
        await refused((over, links.make(owner, asked.approval_id, "ann")))


async def test_what_is_wrong_with_a_plan_or_a_checkpoint_is_said(tmp_path: Path) -> None:
    lines = {**LINES, "one": [says("one")]}
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        plans, ann = world.runtime.plans, world.ann
        [first, *_] = await plans.grants(ann)
        back = world.runtime.checkpoints
        one = "InvalidMessage: Name exactly one of these: a checkpoint, a subtask, the whole plan"
        await refused(
            ((
                f"NotFound: Plan {plan_id} has no revision 9; look at the plan: gonogo plans show "
                f"{plan_id}"
            ), plans.revision(ann, plan_id, 9)),
            ((
                f"NotFound: Plan {plan_id} has no revision 9; look at the plan: gonogo plans show "
                f"{plan_id}"
            ), plans.diff(ann, plan_id, 9, 1)),
            ((
                f"NotFound: Plan {plan_id} has no revision 8; look at the plan: gonogo plans show "
                f"{plan_id}"
            ), plans.diff(ann, plan_id, 1, 8)),
            ("NotFound: No grant found with id=g", plans.revoke_grant(ann, "g")),
            (f"NotFound: No grant found with id={first.grant_id}",
             plans.revoke_grant(world.bob, first.grant_id)),
            (f"Conflict: Grant {first.grant_id} has already ended; there is nothing to revoke",
             plans.revoke_grant(ann, first.grant_id)),
            ("NotFound: No checkpoint found with id=k", back.get(ann, "k")),
            ("NotFound: No checkpoint found with id=k", back.diff(ann, "k")),
            (one, back.rollback(ann, plan_id, "k", "one")),
            (one, back.rollback(ann, plan_id, "k", whole=True)),
            (one, back.rollback(ann, plan_id, None, "one", whole=True)),
        )  # fmt: skip
        assert (await plans.revision(ann, plan_id, 1)).revision == 1


async def test_what_is_wrong_with_a_report_or_with_the_audit_log_is_said(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        runtime, owner = world.runtime, world.runtime.owner
        now = datetime.now(UTC)
        beyond = "InvalidMessage: since, until: there is no such date; write one such as 2026-01-31"
        await refused(
            ("InvalidMessage: since: must be before until",
             runtime.reports.analytics(owner, since=now, until=now)),
            (beyond, runtime.reports.analytics(owner, until=datetime(1, 1, 2, tzinfo=UTC))),
            ((
                "NotFound: There is no agent 'cook'; see the agents in GET /api/v1/agents"
            ), runtime.policies.judge(owner, "x", {}, "cook")),
            ("NotFound: No session found with id=s", runtime.reports.analytics(owner, "s")),
            ("NotFound: No session found with id=s", runtime.reports.calls(owner, "s")),
            ("NotFound: No session found with id=s", runtime.audit.verify(owner, (), "s")),
            ((
                "NotFound: No server has listed a tool 'x' yet; list the tools: gonogo tool list"
            ), runtime.servers.accept(owner, "x")),
            ((
                "Conflict: The audit log is kept forever; to remove old entries, set "
                "GONOGO_KEEP_AUDIT_DAYS"
            ),
             runtime.audit.prune(owner, now, [])),
            ("NotFound: There is no token t", runtime.people.revoke_token(owner, "t")),
            ("Unauthorized: The token is not valid; create one: gonogo token create",
             runtime.people.authenticate("t")),
            ("Unauthorized: This browser session is over; open the console's link again",
             runtime.people.find_login("t")),
        )  # fmt: skip
        name = (
            "InvalidMessage: A token's name must have 1 to 64 characters: letters, digits and _ . "
            "@ -"
        )
        make = runtime.people.create_token
        await make(owner, "a" * 64, Role.VIEWER)
        await refused(
            (name, make(owner, "a" * 65, Role.VIEWER)),
            (name, make(owner, "", Role.VIEWER)),
            ("InvalidMessage: 'Local' could be mistaken for somebody else; choose another name",
             make(owner, "Local", Role.VIEWER)),
        )  # fmt: skip


async def test_the_audit_log_is_kept_for_as_long_as_is_set(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}, keep_audit_days=2.5) as world:
        now = datetime(2026, 11, 26, 12, tzinfo=UTC)
        world.runtime.parts.store.clock = lambda: now
        audit, owner = world.runtime.audit, world.runtime.owner
        limit = now - timedelta(days=2.5)
        assert await audit.prune(owner, limit, []) == []
        kept = (
            "InvalidMessage: before: entries are kept for 2.5 days (GONOGO_KEEP_AUDIT_DAYS), "
            "so this must not be after 2026-11-24T00:00:00Z"
        )
        late = limit + timedelta(seconds=1)
        await refused((kept, audit.prune(owner, late, [])))
        await refused((kept, audit.export(owner, removable=late)))


async def test_a_key_that_stood_for_another_request_is_refused(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        answers, ann = world.runtime.answers, world.ann
        assert await answers.find(ann, "k", "d") is None
        await answers.keep(ann, "k", "d", {"x": 1}, "/plans")
        assert await answers.find(ann, "k", "d") == {"x": 1}
        assert await answers.find(world.bob, "k", "d") is None
        said = "Conflict: This Idempotency-Key was used for another request; use a new key"
        await refused((said, answers.find(ann, "k", "other")))
