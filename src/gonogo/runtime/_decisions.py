"""Decisions: finds what a person's answer is about, prepares edits, and takes it to the desk."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gonogo.agents import RUNTIME, Thread, runtime_profile
from gonogo.approvals import Refusal, Ruling
from gonogo.domain.errors import InvalidArguments, InvalidMessage, NotFound, PolicyDenied, Refused
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.records import Approval, CallRow, Session
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.domain.views import ApprovalFilter, ApprovalList, ApprovalView
from gonogo.runtime._approvals import list_views, may_see, readable_approval
from gonogo.runtime._questions import view_of
from gonogo.runtime._receipt import Receipt
from gonogo.runtime._session_rules import check_owner
from gonogo.runtime._sessions import Sessions, seen, seen_plan
from gonogo.store import Connection, part
from gonogo.store.calls import approval_of, approval_of_call, approval_of_plan, call_of
from gonogo.store.events import last_seq, told_in, told_seq
from gonogo.store.sessions import session_of

Find = Callable[[Connection], Approval]
"""Finds what an answer is about, in the transaction that takes it."""
Prepared = tuple[Find, Ruling]


class Decisions(Sessions):
    """The verb `decide`, and what is asked about approvals."""

    async def decide(
        self,
        principal: Principal,
        decision: PlanDecision | HitlDecision,
        session_id: str | None = None,
    ) -> Receipt:
        """Take a person's answer: to a plan, to a tool call, or to any approval by its id.

        Args:
            session_id: The session that it was given in; without one, wherever the question is.

        Raises:
            Refused: it cannot be; nothing has changed.
        """
        principal.require(Role.OPERATOR)
        find, ruling = await self._meant(principal, decision, session_id)
        outcome = await self.parts.store.write(self._decide, find, ruling)
        if isinstance(outcome, Refusal):
            raise outcome.error
        return outcome

    async def decide_many(
        self, principal: Principal, decisions: Sequence[PlanDecision | HitlDecision]
    ) -> list[Receipt | Refused]:
        """Take several answers in one transaction, in order; what is refused changes nothing."""
        principal.require(Role.OPERATOR)
        prepared = [await self._prepared(principal, decision) for decision in decisions]
        return await self.parts.store.write(self._decide_many, prepared)

    async def _meant(
        self,
        principal: Principal,
        decision: PlanDecision | HitlDecision,
        session_id: str | None,
    ) -> Prepared:
        if isinstance(decision, PlanDecision):
            return _on_plan(principal, decision, session_id)
        return await self._on_call(principal, decision, session_id)

    async def _on_call(
        self, principal: Principal, decision: HitlDecision, session_id: str | None
    ) -> Prepared:
        def find(conn: Connection) -> Approval:
            approval = _call_approval(conn, principal, decision, session_id)
            if approval.kind is ApprovalKind.PLAN:
                raise InvalidMessage("A plan is decided by its plan_id, with plan_decision")
            return approval

        ruling = Ruling(
            word=decision.word, by=principal, digest=decision.digest, feedback=decision.feedback,
            changes=decision.modified_arguments,
        )  # fmt: skip
        _check_changes(ruling, "modified_arguments")
        if decision.for_session and decision.for_plan:
            raise InvalidMessage("either for_session or for_plan")
        lasts = decision.for_session or decision.for_plan
        if ruling.word is not DecisionWord.EDIT and not lasts:
            return find, ruling
        approval = await self.parts.store.read(find)
        if ruling.word is DecisionWord.EDIT and approval.kind is ApprovalKind.TOOL:
            ruling = await self._edited(approval, ruling)
        if lasts:
            ruling = replace(ruling, for_plan=decision.for_plan)
            ruling = await self._for_longer(approval, ruling)
        return lambda conn: approval, ruling

    async def approvals(
        self,
        principal: Principal,
        wanted: ApprovalFilter | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> ApprovalList:
        """The approvals that fit and that the principal may see, oldest first.

        Args:
            before: Only those that are older than the one of this id.
            limit: Only so many, the newest; None is all.

        Raises:
            InvalidCursor: there is no approval of the id `before`.
        """
        fitting = wanted or ApprovalFilter()
        return await self.parts.store.read(list_views, principal, fitting, before, limit)

    async def approval(self, principal: Principal, approval_id: str) -> ApprovalView:
        """One approval.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return await self.parts.store.read(_view, principal, approval_id)

    async def _prepared(
        self, principal: Principal, decision: PlanDecision | HitlDecision
    ) -> Prepared | Refused:
        try:
            return await self._meant(principal, decision, None)
        except Refused as error:
            return error

    def _decide_many(
        self, conn: Connection, prepared: Sequence[Prepared | Refused]
    ) -> list[Receipt | Refused]:
        return [self._decide_part(conn, each) for each in prepared]

    def _decide_part(self, conn: Connection, prepared: Prepared | Refused) -> Receipt | Refused:
        if isinstance(prepared, Refused):
            return prepared
        try:
            with part(conn):
                outcome = self._decide(conn, *prepared)
        except Refused as error:
            return error
        return outcome.error if isinstance(outcome, Refusal) else outcome

    def _decide(self, conn: Connection, find: Find, ruling: Ruling) -> Receipt | Refusal:
        before = find(conn)
        after = last_seq(conn, before.session_id) + len(told_in(conn, before.session_id))
        outcome = self.parts.desk.decide(
            conn, before.id, replace(ruling, after=after), self.parts.clock()
        )
        if isinstance(outcome, Refusal):
            return outcome
        if outcome.decision is not None:
            after = outcome.decision.get("after", after)
        decided = outcome.status is not ApprovalStatus.PENDING
        asked = "voted" if outcome.id == before.id else "asked_again"
        return Receipt(
            session_id=outcome.session_id, after=after,
            turn_id=None if outcome.plan_id else outcome.turn_id, plan_id=outcome.plan_id,
            approval_id=outcome.id, outcome="decided" if decided else asked,
            ends=0 if decided else told_seq(conn, outcome.session_id),
        )  # fmt: skip

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

    async def _for_longer(self, approval: Approval, ruling: Ruling) -> Ruling:
        """Find the rule that allows just what was asked for the rest of the session or plan."""
        said = "for_plan" if ruling.for_plan else "for_session"
        if ruling.word is not DecisionWord.APPROVE or approval.kind is not ApprovalKind.TOOL:
            raise InvalidMessage(f"{said}: only a tool call that is approved may run again")
        if ruling.for_plan and approval.plan_id is None:
            raise InvalidMessage(f"{said}: {approval.subject} belongs to no plan")
        session, call = await self.parts.store.read(_session_and_call, approval)
        await self.parts.store.read(check_owner, ruling.by, session.id)
        found = await self.parts.gate.narrowest(
            _thread_of(session, call), call.tool, call.arguments
        )
        if isinstance(found, str):
            raise InvalidMessage(f"{said}: {found}")
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


def _on_plan(principal: Principal, decision: PlanDecision, session_id: str | None) -> Prepared:
    ruling = Ruling(
        word=decision.word, by=principal, digest=decision.digest, revision=decision.revision,
        feedback=decision.feedback, changes=decision.modified_subtasks, start=decision.start,
        auto_approve_tools=decision.auto_approve_tools,
    )  # fmt: skip
    _check_changes(ruling, "modified_subtasks")
    return lambda conn: _plan_approval(conn, principal, decision.plan_id, session_id), ruling


def _check_changes(ruling: Ruling, field: str) -> None:
    # Who sends changes with another word may believe that what they wrote is what will run.
    if ruling.changes is not None and ruling.word is not DecisionWord.EDIT:
        raise InvalidMessage(f"{field}: only the decision edit has changes, not {ruling.word}")


def _plan_approval(
    conn: Connection, principal: Principal, plan_id: str, session_id: str | None
) -> Approval:
    approval = approval_of_plan(conn, plan_id)
    by_review = approval is not None and session_id is None and may_see(conn, principal, approval)
    if not by_review:
        seen_plan(conn, principal, plan_id, session_id)
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
    if approval is None or not _reachable(conn, principal, approval, session_id):
        raise NotFound(f"No approval found with id={named}")
    return approval


def _reachable(
    conn: Connection, principal: Principal, approval: Approval, session_id: str | None
) -> bool:
    """Whether the principal may answer here: within a session only those who see all of it."""
    if session_id is None:
        return may_see(conn, principal, approval)
    return session_id == approval.session_id and seen(conn, principal, session_id) is not None


def _view(conn: Connection, principal: Principal, approval_id: str) -> ApprovalView:
    return view_of(conn, readable_approval(conn, principal, approval_id))
