"""Approvals: what people are asked, and their answers."""

from fastapi import APIRouter, Response

from gonogo.domain.approval_state import ApprovalKind, ApprovalStatus
from gonogo.domain.errors import GonogoError, InvalidMessage, Refused
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.pages import DecisionAnswers
from gonogo.domain.principal import Role
from gonogo.domain.views import ApprovalList, ApprovalView, DecisionAnswer
from gonogo.server._answers import answer, once
from gonogo.server._bodies import Answers, ApprovalAnswer, NamedAnswer
from gonogo.server._body import read_body
from gonogo.server._caller import Authenticated, Caller
from gonogo.server._params import Filter, Name
from gonogo.server._schema import takes

router = APIRouter(prefix="/approvals", tags=["approvals"])


@router.get("", response_model=ApprovalList)
async def list_approvals(
    caller: Authenticated,
    status: ApprovalStatus | None = None,
    session_id: Filter = None,
    kind: ApprovalKind | None = None,
) -> Response:
    """Approvals, oldest first."""
    return answer(
        await caller.runtime.approvals(
            caller.principal, status=status, session_id=session_id, kind=kind
        )
    )


@router.post("/decisions", response_model=DecisionAnswers, openapi_extra=takes(Answers))
async def decide_many(caller: Authenticated) -> Response:
    """Answer several approvals; what came of each is said by its id."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, Answers)

    async def decided() -> DecisionAnswers:
        answers = [await _decide_one(caller, decision) for decision in body.decisions]
        return DecisionAnswers(answers=answers)

    return await once(caller, body, decided)


@router.get("/{approval_id}", response_model=ApprovalView)
async def get_approval(caller: Authenticated, approval_id: Name) -> Response:
    """One approval."""
    return answer(await caller.runtime.approval(caller.principal, approval_id))


@router.post(
    "/{approval_id}/decision",
    status_code=202,
    response_model=ApprovalView,
    openapi_extra=takes(ApprovalAnswer),
)
async def decide(caller: Authenticated, approval_id: Name) -> Response:
    """Answer one approval."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, ApprovalAnswer)
    return await once(caller, body, lambda: _decide(caller, approval_id, body), 202)


async def _decide(caller: Caller, approval_id: str, body: ApprovalAnswer) -> ApprovalView:
    view = await caller.runtime.approval(caller.principal, approval_id)
    await caller.runtime.decide(caller.principal, _decision(view, body))
    return await caller.runtime.approval(caller.principal, approval_id)


def _decision(view: ApprovalView, body: ApprovalAnswer) -> PlanDecision | HitlDecision:
    if view.kind is not ApprovalKind.PLAN or view.plan_id is None:
        fields = body.model_dump(exclude_unset=True, exclude={"approval_id"})
        return HitlDecision(approval_id=view.approval_id, **fields)
    if body.for_session:
        raise InvalidMessage("for_session: only a tool call is approved for a session")
    # An approval is of one revision: naming it refuses the decision when another took its place.
    return PlanDecision(
        plan_id=view.plan_id,
        revision=view.revision,
        decision=body.decision,
        digest=body.digest,
        feedback=body.feedback,
    )


async def _decide_one(caller: Caller, body: NamedAnswer) -> DecisionAnswer:
    try:
        view = await _decide(caller, body.approval_id, body)
    except Refused as error:
        return _refused(body.approval_id, error)
    return DecisionAnswer(id=body.approval_id, ok=True, status=view.status)


def _refused(approval_id: str, error: GonogoError) -> DecisionAnswer:
    return DecisionAnswer(id=approval_id, ok=False, code=error.code, detail=str(error))
