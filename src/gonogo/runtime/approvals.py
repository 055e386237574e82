"""Decisions: finds what a person's answer is about, prepares edits, and gives it to the desk."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import (
    InvalidArguments,
    InvalidCursor,
    InvalidMessage,
    NotFound,
    PolicyDenied,
    Refused,
    because,
)
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.records import MAIN, Approval, CallRow, Plan, Session, Vote
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord, SubtaskStatus
from gonogo.domain.tool_calls import RUNTIME, server_of
from gonogo.domain.views import ApprovalFilter, ApprovalList, ApprovalView
from gonogo.execution.agent import (
    NOBODYS,
    CallAsked,
    Thread,
    fields_from,
    given_to,
    runtime_profile,
)
from gonogo.execution.approvals import Refusal, Ruling, is_reviewer, objection
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, seen_plan, visible
from gonogo.runtime.streams import Receipt
from gonogo.runtime.views import view_of
from gonogo.store import Tx, part
from gonogo.store.calls import (
    approval_of,
    approval_of_call,
    approval_of_plan,
    call_of,
    list_approvals,
    reviewed_of_plan,
    votes_of,
)
from gonogo.store.events import begin_seq, last_seq, told_in, told_seq
from gonogo.store.plans import plan_of, subtask_key, subtask_row, thread_name
from gonogo.store.sessions import session_of

# Approvals as people see them: who sees which, and who has to answer.

_AT_ONCE = 500
"""Rows that are in memory at once while a page is read."""


def may_see(tx: Tx, principal: Principal, approval: Approval) -> bool:
    """Whether the principal sees a question: the session's owner, admins, and its reviewers."""
    own = seen(tx, principal, approval.session_id) is not None
    return own or _reviews(tx, principal, approval)


def readable_approval(tx: Tx, principal: Principal, approval_id: str) -> Approval:
    """The question of that id, if the principal may see it.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    approval = approval_of(tx, approval_id)
    if approval is None or not may_see(tx, principal, approval):
        raise NotFound(
            "No approval found with id={approval_id}",
            see="gonogo approvals list --status all",
            approval_id=approval_id,
        )
    return approval


def readable_plan(tx: Tx, principal: Principal, plan_id: str) -> Plan:
    """The plan of that id, if the principal may see it: reviewers of its questions may, too.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    plan = plan_of(tx, plan_id)
    reviewed = reviewed_of_plan(tx, plan_id) if plan is not None else []
    if plan is not None and any(may_see(tx, principal, approval) for approval in reviewed):
        return plan
    return seen_plan(tx, principal, plan_id)


def list_views(
    tx: Tx,
    principal: Principal,
    wanted: ApprovalFilter,
    before: str | None,
    limit: int | None,
) -> ApprovalList:
    """A page of the matching approvals that the principal may see.

    Raises:
        InvalidCursor: there is no approval of the id `before`.
    """
    place = approval_of(tx, before) if before is not None else None
    if before is not None and (place is None or not may_see(tx, principal, place)):
        raise InvalidCursor(
            "before={before} is not an approval; use the `before` of a page", before=before
        )
    views: list[ApprovalView] = []
    for view in _newest(tx, principal, wanted, place):
        if len(views) == limit:
            earlier = views[-1].approval_id
            return ApprovalList(approvals=views[::-1], count=len(views), before=earlier)
        views.append(view)
    return ApprovalList(approvals=views[::-1], count=len(views))


def _newest(
    tx: Tx, principal: Principal, wanted: ApprovalFilter, place: Approval | None
) -> Iterator[ApprovalView]:
    @cache
    def own(session_id: str) -> bool:
        return seen(tx, principal, session_id) is not None

    while True:
        found = list_approvals(
            tx, status=wanted.status, session_id=wanted.session_id, kind=wanted.kind,
            group=wanted.group, before=place, most=_AT_ONCE,
        )  # fmt: skip
        for approval in found:
            if not own(approval.session_id) and not _reviews(tx, principal, approval):
                continue
            votes = votes_of(tx, approval.id) if approval.review else []
            if not wanted.mine or _waits_for(principal, approval, votes):
                yield view_of(tx, approval, votes)
        if len(found) < _AT_ONCE:
            return
        place = found[-1]


def _reviews(tx: Tx, principal: Principal, approval: Approval) -> bool:
    """Whether a review lets the principal see a question of a session that is somebody else's."""
    if not is_reviewer(principal, approval):
        return False
    session = session_of(tx, approval.session_id)
    return session is not None and not session.deleted


def _waits_for(principal: Principal, approval: Approval, votes: list[Vote]) -> bool:
    if approval.status is not ApprovalStatus.PENDING or principal.role < Role.OPERATOR:
        return False
    voted = any(vote.principal_id == principal.id for vote in votes)
    return objection(principal, approval) is None and not voted


Find = Callable[[Tx], Approval]
"""Finds what an answer is about, in the transaction that takes it."""
Prepared = tuple[Find, Ruling]


class Approvals(Struct, frozen=True):
    """The verb `decide`, and the queries about approvals."""

    _parts: Parts

    async def decide(
        self,
        principal: Principal,
        decision: PlanDecision | HitlDecision,
        session_id: str | None = None,
    ) -> Receipt:
        """Take a person's answer: to a plan, to a tool call, or to any approval by its id.

        Args:
            session_id: The session in which it was given; None: the question may be in any.

        Raises:
            Refused: the answer cannot be taken; nothing has changed.
        """
        principal.require(Role.OPERATOR)
        find, ruling = await self._meant(principal, decision, session_id)
        if isinstance(decision, HitlDecision) and ruling.is_plain_approval:
            find, ruling = await self._ready(find, ruling)
        outcome = await self._parts.store.write(self.decide_in, find, ruling)
        if isinstance(outcome, Refusal):
            raise outcome.error
        return outcome

    async def decide_many(
        self, principal: Principal, decisions: Sequence[PlanDecision | HitlDecision]
    ) -> list[Receipt | Refused]:
        """Take several answers in one transaction, in order; refused ones change nothing."""
        principal.require(Role.OPERATOR)
        prepared = [await self._prepared(principal, decision) for decision in decisions]
        return await self._parts.store.write(self._decide_many, prepared)

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
        def find(tx: Tx) -> Approval:
            approval = _call_approval(tx, principal, decision, session_id)
            if approval.kind is ApprovalKind.PLAN:
                raise InvalidMessage("To decide on a plan, send plan_decision with its plan_id")
            return approval

        ruling = Ruling(
            word=decision.word, by=principal, digest=decision.digest, feedback=decision.feedback,
            changes=decision.modified_arguments,
        )  # fmt: skip
        _check_changes(ruling, "modified_arguments")
        if decision.for_session and decision.for_plan:
            raise InvalidMessage("for_session, for_plan: give only one of them")
        lasts = decision.for_session or decision.for_plan
        if ruling.word is not DecisionWord.EDIT and not lasts:
            return find, ruling
        approval = await self._parts.store.read(find)
        is_open = approval.status is ApprovalStatus.PENDING
        if ruling.word is DecisionWord.EDIT and approval.kind is ApprovalKind.TOOL and is_open:
            ruling = await self._edited(approval, ruling)
        if lasts:
            ruling = replace(ruling, for_plan=decision.for_plan)
            ruling = await self._for_longer(approval, ruling)
        return lambda tx: approval, ruling

    async def page(
        self,
        principal: Principal,
        wanted: ApprovalFilter | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> ApprovalList:
        """The matching approvals that the principal may see, oldest first.

        Args:
            before: Only those that are older than the approval with this id.
            limit: At most so many, the newest; None: all.

        Raises:
            InvalidCursor: there is no approval of the id `before`.
        """
        fitting = wanted or ApprovalFilter()
        return await self._parts.store.read(list_views, principal, fitting, before, limit)

    async def get(self, principal: Principal, approval_id: str) -> ApprovalView:
        """One approval.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return await self._parts.store.read(_view, principal, approval_id)

    async def _prepared(
        self, principal: Principal, decision: PlanDecision | HitlDecision
    ) -> Prepared | Refused:
        try:
            return await self._meant(principal, decision, None)
        except Refused as error:
            return error

    def _decide_many(
        self, tx: Tx, prepared: Sequence[Prepared | Refused]
    ) -> list[Receipt | Refused]:
        return [self._decide_part(tx, each) for each in prepared]

    def _decide_part(self, tx: Tx, prepared: Prepared | Refused) -> Receipt | Refused:
        if isinstance(prepared, Refused):
            return prepared
        try:
            with part(tx):
                outcome = self.decide_in(tx, *prepared)
        except Refused as error:
            return error
        return outcome.error if isinstance(outcome, Refusal) else outcome

    def decide_in(self, tx: Tx, find: Find, ruling: Ruling) -> Receipt | Refusal:
        """Decide in an open transaction; return a refusal whose effects must be committed."""
        before = find(tx)
        told = len(told_in(tx, before.session_id))
        after = last_seq(tx, before.session_id) + told
        outcome = self._parts.desk.decide(tx, before.id, replace(ruling, after=after))
        if isinstance(outcome, Refusal):
            return outcome
        if len(told_in(tx, outcome.session_id)) > told:
            # Events before the answer's own, such as that the asker rests, do not belong to it.
            after = begin_seq(tx, outcome.session_id) + told
        elif outcome.decision is not None:
            after = outcome.decision.get("after", after)
        decided = outcome.status is not ApprovalStatus.PENDING
        asked = "voted" if outcome.id == before.id else "asked_again"
        return Receipt(
            session_id=outcome.session_id, after=after,
            turn_id=None if outcome.plan_id else outcome.turn_id, plan_id=outcome.plan_id,
            approval_id=outcome.id, outcome="decided" if decided else asked,
            ends=0 if decided else told_seq(tx, outcome.session_id),
        )  # fmt: skip

    async def _ready(self, find: Find, ruling: Ruling) -> Prepared:
        """Prepare the call that is about to be approved, if it can start with its approval."""
        if self._parts.store.shared_as is not None:
            return find, ruling
        approval, asked = await self._parts.store.read(_to_start, find)
        prepared = asked and await self._parts.hands.ready(asked)
        return lambda tx: approval, replace(ruling, prepared=prepared)

    async def _edited(self, approval: Approval, ruling: Ruling) -> Ruling:
        """Judge edited arguments like those of a new call: by schema, disk and policy."""
        changes: dict[str, Any] | None = ruling.changes
        if changes is None:
            raise InvalidMessage("EDIT decision requires modified_arguments")
        session, call = await self._parts.store.read(_session_and_call, approval)
        gated = await self._parts.gate.judge(_thread_of(session, call), call.tool, changes)
        if gated.verdict.rule == "builtin:arguments":
            raise InvalidArguments(gated.error or because("The arguments do not fit"))
        if gated.verdict.decision == "deny":
            raise PolicyDenied(gated.verdict.reason)
        return replace(ruling, prepared=gated)

    async def _for_longer(self, approval: Approval, ruling: Ruling) -> Ruling:
        """Find the rule that allows exactly this call for the rest of the session or plan."""
        said = "for_plan" if ruling.for_plan else "for_session"
        if ruling.word is not DecisionWord.APPROVE or approval.kind is not ApprovalKind.TOOL:
            raise InvalidMessage("{said}: give it only when you approve a tool call", said=said)
        if ruling.for_plan and approval.plan_id is None:
            raise InvalidMessage(
                "{said}: {subject} belongs to no plan", said=said, subject=approval.subject
            )
        session, call = await self._parts.store.read(_session_and_call, approval)
        await self._parts.store.read(visible, ruling.by, session.id)
        found = await self._parts.gate.narrowest(
            _thread_of(session, call), call.tool, call.arguments
        )
        if isinstance(found, str):
            raise InvalidMessage(
                "No rule can allow just this call ({found}); approve it alone, without {said}",
                said=said, found=found,
            )  # fmt: skip
        return replace(ruling, rule=found)


def _thread_of(session: Session, call: CallRow) -> Thread:
    return Thread(
        **fields_from(session), name=call.thread, script="", agent=call.agent,
        turn_id=call.turn_id, plan_id=call.plan_id,
        revision=call.revision, subtask_id=call.subtask_id, owner=NOBODYS,
        profile=runtime_profile(call.tool) if call.agent == RUNTIME else None,
    )  # fmt: skip


def _to_start(tx: Tx, find: Find) -> tuple[Approval, CallAsked | None]:
    """A question, and the call that it is about, if that can start together with the answer."""
    approval = find(tx)
    if approval.kind is not ApprovalKind.TOOL or approval.status is not ApprovalStatus.PENDING:
        return approval, None
    session, call = _session_and_call(tx, approval)
    is_ours = session.tool_host != "client" and server_of(call.tool) is None
    if not is_ours or not (call.thread == MAIN or _is_of_attempt(tx, call)):
        return approval, None
    plan = plan_of(tx, call.plan_id) if call.plan_id is not None else None
    thread = _thread_of(session, call)
    if plan is not None:
        thread = replace(thread, auto_approve=plan.auto_approve_tools)
    asked = CallAsked(
        thread=thread, call=call, given=given_to(tx, thread), checkpoint=thread.checkpoint(tx)
    )
    return approval, asked


def _is_of_attempt(tx: Tx, call: CallRow) -> bool:
    """Whether a call is in the conversation of the present attempt of a subtask that waits."""
    if call.plan_id is None or call.subtask_id is None or call.revision is None:
        return False
    key = subtask_key(call.plan_id, call.revision, call.subtask_id)
    row = subtask_row(tx, key)
    if row is None or row.status is not SubtaskStatus.WAITING_APPROVAL:
        return False
    return call.thread == thread_name(key, row.attempt)


def _session_and_call(tx: Tx, approval: Approval) -> tuple[Session, CallRow]:
    session, call = session_of(tx, approval.session_id), call_of(tx, approval.call_id or "")
    assert session is not None and call is not None  # noqa: S101, PT018 - foreign keys
    return session, call


def _on_plan(principal: Principal, decision: PlanDecision, session_id: str | None) -> Prepared:
    ruling = Ruling(
        word=decision.word, by=principal, digest=decision.digest, revision=decision.revision,
        feedback=decision.feedback, changes=decision.modified_subtasks, start=decision.start,
        auto_approve_tools=decision.auto_approve_tools,
    )  # fmt: skip
    _check_changes(ruling, "modified_subtasks")
    return lambda tx: _plan_approval(tx, principal, decision.plan_id, session_id), ruling


def _check_changes(ruling: Ruling, field: str) -> None:
    # A person who sends changes with another word may believe that their changes will run.
    if ruling.changes is not None and ruling.word is not DecisionWord.EDIT:
        raise InvalidMessage(
            "{field}: only the decision edit can have changes, not {word}",
            field=field,
            word=ruling.word,
        )


def _plan_approval(tx: Tx, principal: Principal, plan_id: str, session_id: str | None) -> Approval:
    approval = approval_of_plan(tx, plan_id)
    by_review = approval is not None and session_id is None and may_see(tx, principal, approval)
    if not by_review:
        seen_plan(tx, principal, plan_id, session_id)
    if approval is None:
        raise NotFound("No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id)
    return approval


def _call_approval(
    tx: Tx, principal: Principal, decision: HitlDecision, session_id: str | None
) -> Approval:
    if decision.approval_id is not None:
        approval, named = approval_of(tx, decision.approval_id), decision.approval_id
    else:
        approval, named = approval_of_call(tx, decision.call_id or ""), decision.call_id
    if approval is None or not _reachable(tx, principal, approval, session_id):
        raise NotFound(
            "No approval found with id={named}",
            see="gonogo approvals list --status all",
            named=named,
        )
    return approval


def _reachable(tx: Tx, principal: Principal, approval: Approval, session_id: str | None) -> bool:
    """Whether the principal may answer here: within a session, only people who see all of it."""
    if session_id is None:
        return may_see(tx, principal, approval)
    return session_id == approval.session_id and seen(tx, principal, session_id) is not None


def _view(tx: Tx, principal: Principal, approval_id: str) -> ApprovalView:
    return view_of(tx, readable_approval(tx, principal, approval_id))
