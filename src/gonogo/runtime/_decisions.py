"""Decisions: finds what a person's answer is about, prepares edits, and takes it to the desk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gonogo.agents import RUNTIME, Thread, runtime_profile
from gonogo.approvals import Refusal, Ruling
from gonogo.domain.approval_state import ApprovalKind, DecisionWord
from gonogo.domain.errors import InvalidArguments, InvalidMessage, NotFound, PolicyDenied
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.principal import Principal, Role
from gonogo.domain.records import Approval, CallRow, Session
from gonogo.domain.views import ApprovalList, ApprovalView
from gonogo.runtime._receipt import Receipt
from gonogo.runtime._session_rules import check_owner
from gonogo.runtime._sessions import Sessions, seen, seen_ids, seen_plan
from gonogo.runtime._views import approval_view
from gonogo.store import Connection
from gonogo.store.calls import (
    approval_of,
    approval_of_call,
    approval_of_plan,
    call_of,
    list_approvals,
)
from gonogo.store.log import last_seq
from gonogo.store.sessions import session_of

Find = Callable[[Connection], Approval]
"""Finds what an answer is about, in the transaction that takes it."""


class Decisions(Sessions):
    """The verb `decide`, and what is asked about approvals."""

    async def decide(self, principal: Principal, decision: PlanDecision | HitlDecision) -> Receipt:
        """Take a person's answer, wherever its session.

        Raises:
            Refused: it cannot be; nothing has changed.
        """
        principal.require(Role.OPERATOR)
        if isinstance(decision, PlanDecision):
            return await self.decide_plan(principal, decision, None)
        return await self.decide_call(principal, decision, None)

    async def decide_plan(
        self, principal: Principal, decision: PlanDecision, session_id: str | None
    ) -> Receipt:
        """Take the answer to a plan.

        Raises:
            Refused: it cannot be; nothing has changed.
        """
        ruling = Ruling(
            word=decision.word, by=principal, digest=decision.digest, revision=decision.revision,
            feedback=decision.feedback, changes=decision.modified_subtasks, start=decision.start,
            auto_approve_tools=decision.auto_approve_tools,
        )  # fmt: skip
        return await self._rule(
            lambda conn: _plan_approval(conn, principal, decision.plan_id, session_id), ruling
        )

    async def decide_call(
        self, principal: Principal, decision: HitlDecision, session_id: str | None
    ) -> Receipt:
        """Take the answer to a tool call, or to any approval by its id.

        Raises:
            Refused: it cannot be; nothing has changed.
        """

        def find(conn: Connection) -> Approval:
            approval = _call_approval(conn, principal, decision, session_id)
            if approval.kind is ApprovalKind.PLAN:
                raise InvalidMessage("A plan is decided by its plan_id, with plan_decision")
            return approval

        ruling = Ruling(
            word=decision.word, by=principal, digest=decision.digest, feedback=decision.feedback,
            changes=decision.modified_arguments,
        )  # fmt: skip
        if ruling.word is not DecisionWord.EDIT and not decision.for_session:
            return await self._rule(find, ruling)
        approval = await self.parts.store.read(find)
        if ruling.word is DecisionWord.EDIT and approval.kind is ApprovalKind.TOOL:
            ruling = await self._edited(approval, ruling)
        if decision.for_session:
            ruling = await self._for_session(approval, ruling)
        return await self._rule(lambda conn: approval, ruling)

    async def approvals(
        self,
        principal: Principal,
        status: str | None = None,
        session_id: str | None = None,
        kind: str | None = None,
    ) -> ApprovalList:
        """The approvals that fit and that the principal may see, oldest first."""
        found = await self.parts.store.read(_visible_approvals, principal, status, session_id, kind)
        views = [approval_view(approval) for approval in found]
        return ApprovalList(approvals=views, count=len(views))

    async def approval(self, principal: Principal, approval_id: str) -> ApprovalView:
        """One approval.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        wanted = HitlDecision(approval_id=approval_id, decision="approve")
        return approval_view(await self.parts.store.read(_call_approval, principal, wanted, None))

    async def _rule(self, find: Find, ruling: Ruling) -> Receipt:
        outcome, after = await self.parts.store.write(self._decide, find, ruling)
        if isinstance(outcome, Refusal):
            raise outcome.error
        return Receipt(
            session_id=outcome.session_id,
            after=after,
            turn_id=None if outcome.plan_id else outcome.turn_id,
            plan_id=outcome.plan_id,
        )

    def _decide(
        self, conn: Connection, find: Find, ruling: Ruling
    ) -> tuple[Approval | Refusal, int]:
        before = find(conn)
        after = last_seq(conn, before.session_id)
        outcome = self.parts.desk.decide(
            conn, before.id, replace(ruling, after=after), self.parts.clock()
        )
        if isinstance(outcome, Approval) and outcome.decision is not None:
            after = outcome.decision.get("after", after)
        return outcome, after

    async def _edited(self, approval: Approval, ruling: Ruling) -> Ruling:
        """Judge edited arguments as a new call would be: schema, disk, policy."""
        changes: dict[str, Any] | None = ruling.changes
        if changes is None:
            raise InvalidMessage("EDIT decision requires modified_arguments")
        session, call = await self.parts.store.read(_session_and_call, approval)
        gated = await self.parts.gate.judge(_thread_of(session, call), call.tool, changes)
        if gated.verdict.rule == "builtin:arguments":
            raise InvalidArguments(gated.error or "The arguments do not fit")
        if gated.verdict.decision == "deny":
            raise PolicyDenied(gated.verdict.reason)
        return replace(ruling, prepared=gated)

    async def _for_session(self, approval: Approval, ruling: Ruling) -> Ruling:
        """Find the rule that allows just what was asked for the rest of the session."""
        if ruling.word is not DecisionWord.APPROVE or approval.kind is not ApprovalKind.TOOL:
            raise InvalidMessage("for_session: only a tool call is approved for a session")
        session, call = await self.parts.store.read(_session_and_call, approval)
        await self.parts.store.read(check_owner, ruling.by, session.id)
        found = await self.parts.gate.narrowest(
            _thread_of(session, call), call.tool, call.arguments
        )
        if isinstance(found, str):
            raise InvalidMessage(f"for_session: {found}")
        return replace(ruling, rule=found)


def _thread_of(session: Session, call: CallRow) -> Thread:
    return Thread(
        session_id=session.id, name=call.thread, script="", agent=call.agent,
        locale=session.spoken, workspace=Path(session.workspace),
        remote=session.tool_host == "client", turn_id=call.turn_id, plan_id=call.plan_id,
        revision=call.revision, subtask_id=call.subtask_id, check=_nothing, park=_nothing,
        profile=runtime_profile(call.tool) if call.agent == RUNTIME else None,
    )  # fmt: skip


def _nothing(*_: Any) -> None:  # noqa: ANN401
    """A judged call of a person's edit is not driven here."""


def _session_and_call(conn: Connection, approval: Approval) -> tuple[Session, CallRow]:
    session, call = session_of(conn, approval.session_id), call_of(conn, approval.call_id or "")
    assert session is not None and call is not None  # noqa: S101, PT018 - foreign keys
    return session, call


def _plan_approval(
    conn: Connection, principal: Principal, plan_id: str, session_id: str | None
) -> Approval:
    seen_plan(conn, principal, plan_id, session_id)
    approval = approval_of_plan(conn, plan_id)
    if approval is None:
        raise NotFound(f"No plan found with id={plan_id}")
    return approval


def _call_approval(
    conn: Connection, principal: Principal, decision: HitlDecision, session_id: str | None
) -> Approval:
    if decision.approval_id is not None:
        approval, named = approval_of(conn, decision.approval_id), decision.approval_id
    else:
        approval, named = approval_of_call(conn, decision.call_id or ""), decision.call_id
    session = seen(conn, principal, approval.session_id) if approval else None
    if approval is None or session is None or session_id not in (None, session.id):
        raise NotFound(f"No approval found with id={named}")
    return approval


def _visible_approvals(
    conn: Connection,
    principal: Principal,
    status: str | None,
    session_id: str | None,
    kind: str | None,
) -> list[Approval]:
    found = list_approvals(conn, status=status, session_id=session_id, kind=kind)
    ids = seen_ids(conn, principal)
    return [approval for approval in found if approval.session_id in ids]
