"""Approvals: what people are asked, and their answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from gonogo.domain.errors import InvalidMessage, NotFound, Refused
from gonogo.domain.identity import Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.views import (
    ApprovalFilter,
    ApprovalList,
    ApprovalView,
    DecisionAnswer,
    DecisionAnswers,
    LinkView,
)
from gonogo.server.auth import Authenticated, Caller
from gonogo.server.bodies import Answers, ApprovalAnswer, NamedAnswer, NewLink
from gonogo.server.openapi import takes
from gonogo.server.requests import Filter, Name, answer, once, read_body

if TYPE_CHECKING:
    from gonogo.runtime import Receipt


router = APIRouter(prefix="/approvals", tags=["approvals"])


class Filters(BaseModel):
    """Which approvals a list shows."""

    status: ApprovalStatus | None = None
    session_id: Filter = None
    kind: ApprovalKind | None = None
    group: Filter = None
    mine: bool = False
    before: Filter = None
    """The `before` of the page that follows the one that is asked for."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


@router.get("", response_model=ApprovalList)
async def list_approvals(caller: Authenticated, filters: Annotated[Filters, Query()]) -> Response:
    """The newest approvals, oldest first; `mine`: those that wait for the one who asks."""
    wanted = ApprovalFilter(**filters.model_dump(exclude={"before", "limit"}))
    return answer(
        await caller.runtime.approvals.page(caller.principal, wanted, filters.before, filters.limit)
    )


@router.post("/decisions", response_model=DecisionAnswers, openapi_extra=takes(Answers))
async def decide_many(caller: Authenticated) -> Response:
    """Answer several approvals, or all identical ones; what came of each is said by its id."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, Answers)

    async def decided() -> DecisionAnswers:
        answers = body.decisions or await _each_of_group(caller, body)
        return DecisionAnswers(answers=await _decide_each(caller, answers))

    return await once(caller, body, decided)


@router.get("/{approval_id}", response_model=ApprovalView)
async def get_approval(caller: Authenticated, approval_id: Name) -> Response:
    """One approval."""
    return answer(await caller.runtime.approvals.get(caller.principal, approval_id))


@router.post(
    "/{approval_id}/decision",
    status_code=202,
    response_model=ApprovalView,
    openapi_extra=takes(ApprovalAnswer),
)
async def decide_approval(caller: Authenticated, approval_id: Name) -> Response:
    """Answer one approval."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, ApprovalAnswer)
    return await once(caller, body, lambda: _decide(caller, approval_id, body), 202)


@router.post(
    "/{approval_id}/links",
    status_code=201,
    response_model=LinkView,
    openapi_extra=takes(NewLink, required=False),
)
async def make_link(caller: Authenticated, approval_id: Name) -> Response:
    """Make a link that decides once. Its address is in this answer alone: no key stores it."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, NewLink)
    return answer(await caller.runtime.links.make(caller.principal, approval_id, body.name), 201)


@router.delete("/{approval_id}/links", status_code=204, response_model=None)
async def revoke_links(caller: Authenticated, approval_id: Name) -> Response:
    """End the links of a question: an admin all, others those in their own name."""
    await caller.runtime.links.revoke(caller.principal, approval_id)
    return answer(None)


async def _decide(caller: Caller, approval_id: str, body: ApprovalAnswer) -> ApprovalView:
    view = await caller.runtime.approvals.get(caller.principal, approval_id)
    receipt = await caller.runtime.approvals.decide(caller.principal, _decision(view, body))
    return await _after(caller, approval_id, receipt)


async def _after(caller: Caller, approval_id: str, receipt: "Receipt") -> ApprovalView:
    try:
        return await caller.runtime.approvals.get(caller.principal, receipt.approval_id)
    except NotFound:
        # An edit may have made it a question for others, whom it is shown to.
        return await caller.runtime.approvals.get(caller.principal, approval_id)


async def _each_of_group(caller: Caller, body: Answers) -> list[NamedAnswer]:
    """One answer for each identical question that is open now, bound to its own digest."""
    wanted = ApprovalFilter(status=ApprovalStatus.PENDING, group=body.group)
    found = (await caller.runtime.approvals.page(caller.principal, wanted)).approvals
    if not found:
        raise NotFound(
            "No open approval found with group={group}",
            see="gonogo approvals list",
            group=body.group,
        )
    given = body.model_dump(exclude_unset=True, exclude={"group"})
    return [
        NamedAnswer(approval_id=view.approval_id, digest=view.digest, **given) for view in found
    ]


def _decision(view: ApprovalView, body: ApprovalAnswer) -> PlanDecision | HitlDecision:
    if view.kind is not ApprovalKind.PLAN or view.plan_id is None:
        fields = body.model_dump(exclude_unset=True, exclude={"approval_id"})
        return HitlDecision(approval_id=view.approval_id, **fields)
    if body.for_session or body.for_plan:
        raise InvalidMessage(
            "for_session and for_plan: only a tool call can be approved for longer"
        )
    if body.modified_arguments is not None:
        raise InvalidMessage("modified_arguments: a plan is edited by modified_subtasks")
    # An approval is of one revision: naming it refuses the decision when another took its place.
    return PlanDecision(
        plan_id=view.plan_id,
        revision=view.revision,
        decision=body.decision,
        digest=body.digest,
        feedback=body.feedback,
    )


async def _decide_each(caller: Caller, answers: Sequence[NamedAnswer]) -> list[DecisionAnswer]:
    """Take them all at once: whatever stops us, either all of them were taken or none."""
    read = [await _read(caller, answer) for answer in answers]
    meant = [each for each in read if not isinstance(each, Refused)]
    taken = iter(await caller.runtime.approvals.decide_many(caller.principal, meant))
    outcomes = [each if isinstance(each, Refused) else next(taken) for each in read]
    return [
        await _answered(caller, answer.approval_id, outcome)
        for answer, outcome in zip(answers, outcomes, strict=True)
    ]


async def _read(caller: Caller, body: NamedAnswer) -> PlanDecision | HitlDecision | Refused:
    try:
        view = await caller.runtime.approvals.get(caller.principal, body.approval_id)
        return _decision(view, body)
    except Refused as error:
        return error


async def _answered(
    caller: Caller, approval_id: str, outcome: "Receipt | Refused"
) -> DecisionAnswer:
    if isinstance(outcome, Refused):
        return DecisionAnswer.refused(approval_id, outcome)
    view = await _after(caller, approval_id, outcome)
    needed = view.review.needed if view.review else 1
    return DecisionAnswer(
        id=approval_id, ok=True, status=view.status, outcome=outcome.outcome,
        votes=len(view.votes or ()) if needed > 1 else None, needed=needed if needed > 1 else None,
    )  # fmt: skip
