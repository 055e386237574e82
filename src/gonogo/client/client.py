"""The client: everything that can be asked of a server."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Literal

import anyio
from msgspec.structs import asdict

from gonogo.client.transport import EventBody, StreamQuery, Transport, given, named, plain
from gonogo.domain.audit_chain import AuditFilter, ChainHead
from gonogo.domain.messages import ClientMessage, PlanDecision
from gonogo.domain.plan_views import (
    Analytics,
    AuditAnchor,
    AuditEntry,
    AuditHead,
    AuditReport,
    Changes,
    CheckpointDiff,
    CheckpointList,
    CheckpointState,
    CheckpointView,
    CommentList,
    CommentView,
    PlanCheck,
    PlanDiff,
    PlanGraph,
    PlanList,
    PlanStatusView,
    PlanView,
    RevisionView,
    RollbackView,
)
from gonogo.domain.states import ENDED
from gonogo.domain.views import (
    AcceptedTool,
    Agents,
    AgentView,
    ApprovalList,
    ApprovalView,
    Audit,
    AuditHeads,
    Calls,
    CallView,
    ContextView,
    DecisionAnswer,
    DecisionAnswers,
    Grants,
    GrantView,
    Health,
    History,
    LinkView,
    MadeToken,
    Me,
    Models,
    Nodes,
    PendingApprovals,
    PlaceLeft,
    PlaceList,
    PlaceShown,
    PolicyView,
    Revisions,
    Servers,
    ServerView,
    SessionList,
    SessionRules,
    SessionRuleView,
    SessionView,
    SteeredTurn,
    Tokens,
    TokenView,
    Tools,
    ToolView,
    Vacuumed,
)

_ANY = AuditFilter()
_TELLING = ("plan_", "approval_")
_OFTEN = frozenset({"plan_progress", "plan_commented"})  # They end nothing.


class Client(Transport):
    """A client of one server.

    Every method raises the domain's errors, `Unreachable` and `Unintelligible`.
    """

    def send(
        self, session_id: str | None, message: ClientMessage | Mapping[str, Any],
        *, on_kept: Callable[[], object] | None = None,
    ) -> AsyncGenerator[EventBody]:  # fmt: skip
        """Say something in a session, and get the events that it causes up to the final one.

        You can leave once the message is kept: the work goes on. Close the generator (`aclosing`).

        Args:
            session_id: Without one, `user_message` and `switch_agent` open a session.
            on_kept: Called when the server has kept the message.

        Raises:
            Refused: the message cannot be taken. What is refused later comes as an `error` event.
            Unreachable: no server answers.
        """
        place = {} if session_id is None else {"session_id": session_id}
        body, path = {"message": plain(message), **place}, "/agent/message/stream"
        query = StreamQuery(method="POST", path=path, body=body, follows=False, on_open=on_kept)
        return self._stream(query)

    def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[EventBody]:
        """Every event of a session after a place in its log, then live, without an end.

        Args:
            after: The last event that is known; 0 starts at the beginning.

        Raises:
            InvalidCursor: nothing has that place yet.
            NotFound: there is no such session, or no more.
            Unreachable: the server went away and did not come back.
        """
        path = f"/sessions/{named(session_id)}/events"
        return self._stream(StreamQuery(method="GET", path=path, follows=True, seen=after))

    async def open_session(
        self,
        *,
        session_id: str | None = None,
        workspace: str | None = None,
        title: str | None = None,
        locale: str | None = None,
        tool_host: Literal["server", "client"] | None = None,
        model: str | None = None,
        unattended: bool | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> SessionView:
        """Open a session: its model, whether anybody is asked, and what it may take in all."""
        fields = {
            "session_id": session_id, "workspace": workspace, "title": title, "locale": locale,
            "tool_host": tool_host, "model": model, "unattended": unattended, "limits": limits,
        }  # fmt: skip
        return await self._post("/sessions", SessionView, {**self.opening, **given(fields)})

    async def sessions(
        self, *, limit: int = 50, offset: int = 0, q: str | None = None
    ) -> SessionList:
        """A page of the sessions, or of those with `q` in their title, folder or id."""
        return await self._get("/sessions", SessionList, limit=limit, offset=offset, q=q)

    async def session(self, session_id: str) -> SessionView:
        """One session."""
        return await self._get(f"/sessions/{named(session_id)}", SessionView)

    async def edit_session(
        self, session_id: str, *, title: str | None = None, locale: str | None = ""
    ) -> SessionView:
        """Change a session's title or language.

        Args:
            locale: None: none of its own. Empty: as it was.
        """
        change = given({"title": title}) | ({} if locale == "" else {"locale": locale})
        return await self._patch(f"/sessions/{named(session_id)}", SessionView, change)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session."""
        await self._delete(f"/sessions/{named(session_id)}")

    async def history(self, session_id: str) -> History:
        """A session's messages."""
        return await self._get(f"/sessions/{named(session_id)}/history", History)

    async def context(self, session_id: str) -> ContextView:
        """What the next request of a session's conversation would hold."""
        return await self._get(f"/sessions/{named(session_id)}/context", ContextView)

    async def pending_approvals(self, session_id: str) -> PendingApprovals:
        """What a session waits for."""
        return await self._get(f"/sessions/{named(session_id)}/pending-approvals", PendingApprovals)

    async def session_rules(self, session_id: str) -> list[SessionRuleView]:
        """The rules that hold in a session."""
        return (await self._get(f"/sessions/{named(session_id)}/rules", SessionRules)).rules

    async def add_session_rule(self, session_id: str, rule: Mapping[str, Any]) -> SessionRuleView:
        """Make a rule for a session, written as a rules file would have it."""
        body = {"rule": dict(rule)}
        return await self._post(f"/sessions/{named(session_id)}/rules", SessionRuleView, body)

    async def remove_session_rule(self, session_id: str, rule_id: str) -> None:
        """End a rule of a session."""
        await self._delete(f"/sessions/{named(session_id)}/rules/{named(rule_id)}")

    # Plans: look at them, decide about them, steer them.

    async def plans(
        self, *, session_id: str | None = None, status: str | None = None,
        limit: int = 50, offset: int = 0,
    ) -> PlanList:  # fmt: skip
        """Plans, newest first."""
        return await self._get(
            "/plans", PlanList, session_id=session_id, status=status, limit=limit, offset=offset
        )

    async def plan(self, plan_id: str) -> PlanView:
        """One plan in its current revision."""
        return await self._get(f"/plans/{named(plan_id)}", PlanView)

    async def plan_status(self, plan_id: str) -> PlanStatusView:
        """How far a plan is."""
        return await self._get(f"/plans/{named(plan_id)}/status", PlanStatusView)

    async def plan_graph(self, plan_id: str) -> PlanGraph:
        """A plan as nodes, edges and its critical path."""
        return await self._get(f"/plans/{named(plan_id)}/graph", PlanGraph)

    async def plan_revisions(self, plan_id: str) -> list[RevisionView]:
        """A plan's revisions, oldest first."""
        return (await self._get(f"/plans/{named(plan_id)}/revisions", Revisions)).revisions

    async def plan_revision(self, plan_id: str, number: int) -> RevisionView:
        """One revision of a plan."""
        return await self._get(f"/plans/{named(plan_id)}/revisions/{number}", RevisionView)

    async def plan_diff(self, plan_id: str, from_: int, to: int) -> PlanDiff:
        """What changed between two revisions."""
        return await self._get(f"/plans/{named(plan_id)}/diff", PlanDiff, from_=from_, to=to)

    async def decide_plan(self, decision: PlanDecision) -> PlanView:
        """Answer a plan, without a stream of what follows."""
        body = decision.model_dump(mode="json", exclude_unset=True, exclude={"type", "plan_id"})
        return await self._post(f"/plans/{named(decision.plan_id)}/decision", PlanView, body)

    async def create_plan(
        self, session_id: str, goal: str, subtasks: Sequence[Mapping[str, Any]]
    ) -> PlanView:
        """Put a plan that you wrote before whoever decides; no model is asked.

        Raises:
            Conflict: the session has a plan that is not over, or answers a message.
        """
        body = {"session_id": session_id, "goal": goal, "subtasks": list(subtasks)}
        return await self._post("/plans", PlanView, body)

    async def check_new_plan(
        self, goal: str, subtasks: Sequence[Mapping[str, Any]], *, unattended: bool = False
    ) -> PlanCheck:
        """What would be said of a plan that you write; nothing changes."""
        body = {"goal": goal, "subtasks": list(subtasks), "unattended": unattended}
        return await self._post("/plans/check", PlanCheck, body)

    async def check_plan(self, plan_id: str, subtasks: Sequence[Any]) -> PlanCheck:
        """What would be said of an edit; nothing changes."""
        body = {"modified_subtasks": list(subtasks)}
        return await self._post(f"/plans/{named(plan_id)}/check", PlanCheck, body)

    async def comment_plan(
        self,
        plan_id: str,
        content: str,
        *,
        subtask_id: str | None = None,
        revision: int | None = None,
    ) -> CommentView:
        """Say something of a plan that waits for approval; it decides nothing."""
        body = given({"content": content, "subtask_id": subtask_id, "revision": revision})
        return await self._post(f"/plans/{named(plan_id)}/comments", CommentView, body)

    async def plan_comments(self, plan_id: str) -> CommentList:
        """What people said of a plan, with the planner's answers."""
        return await self._get(f"/plans/{named(plan_id)}/comments", CommentList)

    async def revise_plan(self, plan_id: str) -> PlanView:
        """Send a plan back to its planner, who answers every open comment."""
        return await self._post(f"/plans/{named(plan_id)}/revise", PlanView)

    async def start_plan(self, plan_id: str) -> PlanView:
        """Start a plan that is approved and on hold."""
        return await self._post(f"/plans/{named(plan_id)}/start", PlanView)

    async def pause_plan(self, plan_id: str) -> PlanView:
        """Let nothing new start."""
        return await self._post(f"/plans/{named(plan_id)}/pause", PlanView)

    async def resume_plan(self, plan_id: str) -> PlanView:
        """Go on with a paused plan."""
        return await self._post(f"/plans/{named(plan_id)}/resume", PlanView)

    async def cancel_plan(self, plan_id: str, *, reason: str | None = None) -> PlanView:
        """Stop a plan for good."""
        body = given({"reason": reason})
        return await self._post(f"/plans/{named(plan_id)}/cancel", PlanView, body)

    async def replan(self, plan_id: str, reason: str) -> PlanView:
        """Have a plan changed; its next revision is put before a person."""
        return await self._post(f"/plans/{named(plan_id)}/replan", PlanView, {"reason": reason})

    async def retry_subtask(self, plan_id: str, subtask_id: str) -> PlanView:
        """Run a failed subtask again."""
        return await self._post(
            f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/retry", PlanView
        )

    async def skip_subtask(self, plan_id: str, subtask_id: str) -> PlanView:
        """Leave a subtask out."""
        return await self._post(
            f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/skip", PlanView
        )

    async def cancel_subtask(
        self, plan_id: str, subtask_id: str, *, reason: str | None = None
    ) -> PlanView:
        """Stop one subtask; its siblings go on."""
        path = f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/cancel"
        return await self._post(path, PlanView, given({"reason": reason}))

    async def steer_subtask(self, plan_id: str, subtask_id: str, content: str) -> PlanView:
        """Say something to the agent of a subtask; it hears it before its next request.

        Raises:
            Conflict: nobody is at work in it who could hear it; the text says what to do.
        """
        path = f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/steer"
        return await self._post(path, PlanView, {"content": content})

    async def steer_turn(
        self, session_id: str, content: str, *, turn_id: str | None = None
    ) -> SteeredTurn:
        """Say something to the agent that answers in a session, before its next request.

        Args:
            turn_id: By default the turn that is under way.

        Raises:
            Conflict: no turn is.
        """
        body = given({"content": content, "turn_id": turn_id})
        return await self._post(f"/sessions/{named(session_id)}/steer", SteeredTurn, body)

    # Approvals: what people are asked, and their answers.

    async def approvals(
        self,
        *,
        status: str | None = None,
        session_id: str | None = None,
        kind: str | None = None,
        group: str | None = None,
        mine: bool = False,
        since: datetime | None = None,
    ) -> ApprovalList:
        """All approvals that fit, oldest first, however many pages they are.

        Args:
            group: Only those that are identical, by the `group` that they have in common.
            mine: Only those that wait for whoever asks.
            since: Only those that were asked at that time or later.
        """
        wanted = {"status": status, "session_id": session_id, "kind": kind, "group": group}
        wanted |= {"mine": "true" if mine else None, "limit": None if since is None else "20"}
        found = list[ApprovalView]()
        while True:
            page = await self._get("/approvals", ApprovalList, **wanted)
            found, wanted["before"] = [*page.approvals, *found], page.before
            if page.before is None or (since is not None and found[0].created_at < since):
                found = [each for each in found if since is None or each.created_at >= since]
                return ApprovalList(approvals=found, count=len(found))

    async def approval(self, approval_id: str) -> ApprovalView:
        """One approval."""
        return await self._get(f"/approvals/{named(approval_id)}", ApprovalView)

    async def decide(
        self,
        approval_id: str,
        decision: str,
        *,
        digest: str | None = None,
        modified_arguments: Mapping[str, Any] | None = None,
        feedback: str | None = None,
        for_session: bool = False,
        for_plan: bool = False,
    ) -> ApprovalView:
        """Answer one approval, without a stream of what follows.

        Args:
            digest: Of what was shown; given, the decision is refused if that has changed.
            for_session: With approve: a rule allows just this call for the rest of the session.
            for_plan: The same for the rest of its plan.

        Raises:
            AlreadyDecided: naming who decided, and when.
            Conflict: what was shown has changed.
            Expired: the question is over.
        """
        fields = {
            "decision": decision, "digest": digest, "modified_arguments": modified_arguments,
            "feedback": feedback, "for_session": for_session or None, "for_plan": for_plan or None,
        }  # fmt: skip
        path = f"/approvals/{named(approval_id)}/decision"
        return await self._post(path, ApprovalView, given(fields))

    async def decide_group(
        self, group: str, decision: str, *, feedback: str | None = None
    ) -> list[DecisionAnswer]:
        """Give one answer to all identical questions that are open now."""
        body = given({"group": group, "decision": decision, "feedback": feedback})
        return (await self._post("/approvals/decisions", DecisionAnswers, body)).answers

    async def make_link(self, approval_id: str, name: str | None = None) -> LinkView:
        """Make a link that decides an approval once.

        Args:
            name: Whose decision it will be; without it, one's own.
        """
        path = f"/approvals/{named(approval_id)}/links"
        return await self._post(path, LinkView, given({"name": name}))

    async def revoke_links(self, approval_id: str) -> None:
        """End the links of an approval."""
        await self._delete(f"/approvals/{named(approval_id)}/links")

    async def decide_many(self, decisions: Sequence[Mapping[str, Any]]) -> list[DecisionAnswer]:
        """Answer several approvals, each an object of `approval_id`, `decision` and the rest."""
        body = {"decisions": [dict(decision) for decision in decisions]}
        return (await self._post("/approvals/decisions", DecisionAnswers, body)).answers

    async def audit(
        self,
        *,
        session_id: str,
        after: int = 0,
        limit: int = 100,
        wanted: AuditFilter = _ANY,
        locale: str | None = None,
    ) -> list[AuditEntry]:
        """A stretch of the audit chain of a session, or of the system's: `system`."""
        where = {"session_id": session_id, "after": after, "limit": limit, "locale": locale}
        return (await self._get("/audit", Audit, **where, **asdict(wanted))).entries

    async def audit_log(
        self,
        wanted: AuditFilter = _ANY,
        *,
        before: str | None = None,
        limit: int = 100,
        locale: str | None = None,
    ) -> Audit:
        """The newest entries of all chains, oldest first; a page's `before` gives the one before.

        Only a page without a `before` is the last, however few entries the others have.
        """
        where = {"before": before, "limit": limit, "locale": locale}
        return await self._get("/audit", Audit, **where, **asdict(wanted))

    async def verify_audit(
        self, anchor: str | None = None, session_id: str | None = None
    ) -> AuditReport:
        """Whether the audit chains are whole, say what the database holds, and what anchors say.

        Args:
            session_id: Look at this session's chain alone, and at the system's.
        """
        return await self._get("/audit/verify", AuditReport, anchor=anchor, session_id=session_id)

    async def anchor_audit(self) -> AuditAnchor:
        """Note where every chain stands; keep the text elsewhere."""
        return await self._post("/audit/anchors", AuditAnchor)

    def export_audit(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        removable: datetime | None = None,
    ) -> AsyncGenerator[bytes]:
        """The log as lines of JSON, in pieces. Whole only with its last line, `{"end": …}`."""
        return self._pieces(
            "/audit/export", session_id=session_id, since=since, until=until, removable=removable
        )

    async def prune_audit(self, before: datetime, heads: Sequence[ChainHead]) -> list[AuditHead]:
        """Remove the beginnings of chains, each up to an entry that was exported."""
        body = {
            "before": before.isoformat(),
            "heads": [{"chain": h.chain, "seq": h.seq, "hash": h.hash} for h in heads],
        }
        return (await self._post("/audit/prune", AuditHeads, body)).heads

    # Checkpoints: list them, look at what they store, go back to them.

    async def checkpoints(
        self, plan_id: str, *, limit: int = 50, offset: int = 0
    ) -> CheckpointList:
        """A plan's checkpoints, oldest first."""
        where = {"plan_id": plan_id, "limit": limit, "offset": offset}
        return await self._get("/checkpoints", CheckpointList, **where)

    async def create_checkpoint(
        self, *, plan_id: str | None = None, session_id: str | None = None, note: str | None = None
    ) -> CheckpointView:
        """Take a checkpoint of a plan, or of a session's latest one, while nothing of it runs."""
        body = given({"plan_id": plan_id, "session_id": session_id, "note": note})
        return await self._post("/checkpoints", CheckpointView, body)

    async def checkpoint(self, checkpoint_id: str) -> CheckpointState:
        """A checkpoint with the state that it stores, verified."""
        return await self._get(f"/checkpoints/{named(checkpoint_id)}", CheckpointState)

    async def checkpoint_diff(self, checkpoint_id: str, *, to: str | None = None) -> CheckpointDiff:
        """What differs between a checkpoint's files and another one's, or the workspace now."""
        return await self._get(f"/checkpoints/{named(checkpoint_id)}/diff", CheckpointDiff, to=to)

    async def rollback(
        self,
        plan_id: str,
        *,
        checkpoint_id: str | None = None,
        subtask_id: str | None = None,
        whole: bool = False,
        dry_run: bool = False,
        include_shared: bool = False,
    ) -> RollbackView:
        """Undo what a plan did to files; a dry run says what would be undone.

        Args:
            checkpoint_id: Undo all since it; with nothing named, since the latest one.
            subtask_id: Undo one subtask and its dependants.
            whole: Undo all that the plan did.
            include_shared: Also what changed while a command ran.
        """
        body = {
            "checkpoint_id": checkpoint_id, "subtask_id": subtask_id, "whole": whole or None,
            "dry_run": dry_run, "include_shared": include_shared,
        }  # fmt: skip
        return await self._post(f"/plans/{named(plan_id)}/rollback", RollbackView, given(body))

    async def plan_changes(
        self,
        plan_id: str,
        *,
        subtask_id: str | None = None,
        path: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Changes:
        """What a plan, or one of its subtasks, did to files: one difference from first to last.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
        """
        return await self._get(
            f"/plans/{named(plan_id)}/changes", Changes,
            subtask_id=subtask_id, path=path, limit=limit, offset=offset,
        )  # fmt: skip

    async def session_changes(
        self, session_id: str, *, path: str | None = None, limit: int = 100, offset: int = 0
    ) -> Changes:
        """What all plans of a session, and agents outside of plans, did to files.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
        """
        return await self._get(
            f"/sessions/{named(session_id)}/changes", Changes,
            path=path, limit=limit, offset=offset,
        )  # fmt: skip

    # Waiting for what agents do, by following it: nothing is polled, and nothing is missed.

    async def wait_for_plan(
        self, plan_id: str, *, limit: float | None = None, or_asked: bool = False
    ) -> PlanView:
        """Wait until a plan is over, however it ends; gives it as it is then.

        Args:
            limit: Seconds at most.
            or_asked: Wait only until a person is asked something in its session, too.

        Raises:
            TimeoutError: it was not over by then; it goes on.
            NotFound: there is no such plan, or its session was deleted meanwhile.
            Unreachable: the server went away and did not come back.
        """
        with anyio.fail_after(limit):
            graph = await self.plan_graph(plan_id)
            if found := await self._over(plan_id, or_asked):
                return found
            async with aclosing(self.follow(graph.session_id, graph.last_seq)) as events:
                async for event in events:
                    kind = str(event["type"])
                    tells = kind.startswith(_TELLING) and kind not in _OFTEN
                    if tells and (found := await self._over(plan_id, or_asked)):
                        return found
        raise AssertionError("a session is followed without an end")

    async def _over(self, plan_id: str, or_asked: bool) -> PlanView | None:
        plan = await self.plan(plan_id)
        if plan.status in ENDED:
            return plan
        # A plan that was sent back keeps its question, which need not be answered yet.
        asked = or_asked and (await self.pending_approvals(plan.session_id)).count
        return plan if asked > int(plan.revising or False) else None

    async def health(self) -> Health:
        """Whether the server is there; needs no token."""
        return await self._get("/health", Health)

    async def me(self) -> Me:
        """Whom the token of this client makes it."""
        return await self._get("/me", Me)

    async def agents(self) -> list[AgentView]:
        """The agent profiles."""
        return (await self._get("/agents", Agents)).agents

    async def tools(self) -> list[ToolView]:
        """The tools that agents may use."""
        return (await self._get("/tools", Tools)).tools

    async def servers(self) -> list[ServerView]:
        """The foreign (MCP) servers, and how they are."""
        return (await self._get("/servers", Servers)).servers

    async def accept_tool(self, name: str) -> AcceptedTool:
        """Have a server's tool count as it was seen last."""
        return await self._post("/tools/accept", AcceptedTool, {"name": name})

    async def models(self) -> list[dict[str, Any]]:
        """The models that could be used there."""
        return (await self._get("/models", Models)).models

    async def policy(self) -> PolicyView:
        """The rules that were read there; for admins."""
        return await self._get("/policy", PolicyView)

    async def places(self) -> PlaceList:
        """The workspaces that several processes share, and which worker has each."""
        return await self._get("/places", PlaceList)

    async def place(self, place_id: str) -> PlaceShown:
        """One of these workspaces, by its id or that of a session in it, and who had it."""
        return await self._get(f"/places/{named(place_id)}", PlaceShown)

    async def release_place(self, place_id: str) -> PlaceLeft:
        """Have the worker of a workspace leave it to another one."""
        return await self._post(f"/places/{named(place_id)}/release", PlaceLeft, {})

    async def nodes(self) -> Nodes:
        """The servers and workers that share the work; for admins."""
        return await self._get("/nodes", Nodes)

    async def vacuum(self, *, dry_run: bool = False) -> Vacuumed:
        """Give back room of database and snapshots, however long it takes; for admins."""
        return await self._post("/maintenance/vacuum", Vacuumed, {"dry_run": dry_run}, timeout=None)

    async def grants(self, *, session_id: str | None = None) -> list[GrantView]:
        """What approved plans may do without a question."""
        return (await self._get("/grants", Grants, session_id=session_id)).grants

    async def revoke_grant(self, grant_id: str) -> None:
        """End a grant."""
        await self._delete(f"/grants/{named(grant_id)}")

    async def calls(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[CallView]:
        """A page of the tool calls as they were judged, oldest first."""
        where = {"session_id": session_id, "since": since, "limit": limit, "offset": offset}
        return (await self._get("/calls", Calls, **where)).calls

    async def analytics(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Analytics:
        """What came of the work: by default in the last thirty days, over all sessions seen."""
        where = {"session_id": session_id, "since": since, "until": until}
        return await self._get("/analytics", Analytics, **where)

    async def tokens(self) -> list[TokenView]:
        """The tokens, without their secrets."""
        return (await self._get("/tokens", Tokens)).tokens

    async def create_token(self, *, name: str, role: str) -> MadeToken:
        """Make a token; its secret is in this answer and nowhere else."""
        return await self._post("/tokens", MadeToken, {"name": name, "role": role})

    async def revoke_token(self, token_id: str) -> None:
        """End a token, and the connections that it opened."""
        await self._delete(f"/tokens/{named(token_id)}")
