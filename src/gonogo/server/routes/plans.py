"""Plans: look at them, decide about them, steer them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from gonogo.domain.base import Filter, Page
from gonogo.domain.messages import PlanDecision
from gonogo.domain.plan_views import (
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
    WantedPlans,
)
from gonogo.domain.views import Revisions
from gonogo.server.auth import Authenticated, Caller
from gonogo.server.openapi import (
    CancelReason,
    NewCheckpoint,
    NewComment,
    NewPlan,
    NewPlanDraft,
    Nothing,
    PlanAnswer,
    PlanDraft,
    ReplanReason,
    RollbackOrder,
    WordsToSubtask,
    takes,
)
from gonogo.server.requests import Name, WantedFiles, answer, once, read_body

router = APIRouter(prefix="/plans", tags=["plans"])
Number = Annotated[int, Query(ge=1, lt=2**31)]
_NO_BODY = takes(Nothing, required=False)
_MAY_SAY_WHY = takes(CancelReason, required=False)
_moves = partial(router.post, status_code=202, response_model=PlanView)
"""Declares what changes a plan's state: it answers with the plan as it is then."""


@router.get("", response_model=PlanList)
async def list_plans(caller: Authenticated, wanted: Annotated[WantedPlans, Query()]) -> Response:
    """Plans, newest first."""
    return answer(await caller.runtime.plans.page(caller.principal, **wanted.model_dump()))


@router.post("", status_code=201, response_model=PlanView, openapi_extra=takes(NewPlan))
async def create_plan(caller: Authenticated) -> Response:
    """Put a plan that the caller wrote before whoever decides; no model is asked."""
    body = await read_body(caller.request, NewPlan)
    made = partial(caller.runtime.plans.create, caller.principal, **body.model_dump())
    return await once(caller, body, made, 201)


@router.post("/check", response_model=PlanCheck, openapi_extra=takes(NewPlanDraft))
async def check_new_plan(caller: Authenticated) -> Response:
    """Look a plan over that the caller writes, before it is sent; nothing changes."""
    body = await read_body(caller.request, NewPlanDraft)
    return answer(await caller.runtime.plans.check_new(caller.principal, **body.model_dump()))


@router.get("/{plan_id}", response_model=PlanView)
async def get_plan(caller: Authenticated, plan_id: Name) -> Response:
    """One plan in its current revision."""
    return answer(await caller.runtime.plans.get(caller.principal, plan_id))


@router.get("/{plan_id}/status", response_model=PlanStatusView)
async def get_status(caller: Authenticated, plan_id: Name) -> Response:
    """How far a plan is."""
    return answer(await caller.runtime.plans.status(caller.principal, plan_id))


@router.get("/{plan_id}/graph", response_model=PlanGraph)
async def get_graph(caller: Authenticated, plan_id: Name) -> Response:
    """A plan as nodes, edges and its critical path."""
    return answer(await caller.runtime.plans.graph(caller.principal, plan_id))


@router.get("/{plan_id}/revisions", response_model=Revisions)
async def list_revisions(caller: Authenticated, plan_id: Name) -> Response:
    """A plan's revisions."""
    revisions = await caller.runtime.plans.revisions(caller.principal, plan_id)
    return answer(Revisions(revisions=revisions))


@router.get("/{plan_id}/revisions/{number}", response_model=RevisionView)
async def get_revision(caller: Authenticated, plan_id: Name, number: int) -> Response:
    """One revision of a plan."""
    return answer(await caller.runtime.plans.revision(caller.principal, plan_id, number))


@router.get("/{plan_id}/diff", response_model=PlanDiff)
async def get_plan_diff(
    caller: Authenticated,
    plan_id: Name,
    from_: Annotated[int, Query(alias="from", ge=1, lt=2**31)],
    to: Number,
) -> Response:
    """What changed between two revisions of a plan."""
    return answer(await caller.runtime.plans.diff(caller.principal, plan_id, from_, to))


@_moves("/{plan_id}/decision", openapi_extra=takes(PlanAnswer))
async def decide_plan(caller: Authenticated, plan_id: Name) -> Response:
    """Answer a plan."""
    body = await read_body(caller.request, PlanAnswer)
    decision = PlanDecision(plan_id=plan_id, **body.model_dump(exclude_unset=True))

    async def decided() -> PlanView:
        await caller.runtime.approvals.decide(caller.principal, decision)
        return await caller.runtime.plans.get(caller.principal, plan_id)

    return await _or_where_it_stands(caller, plan_id, body, decided)


@router.post("/{plan_id}/check", response_model=PlanCheck, openapi_extra=takes(PlanDraft))
async def check_draft(caller: Authenticated, plan_id: Name) -> Response:
    """Look an edit over before it is sent; nothing changes."""
    body = await read_body(caller.request, PlanDraft)
    found = await caller.runtime.plans.check(caller.principal, plan_id, body.modified_subtasks)
    return answer(found)


@router.get("/{plan_id}/comments", response_model=CommentList)
async def list_comments(caller: Authenticated, plan_id: Name) -> Response:
    """What people said of a plan, with the planner's answers."""
    return answer(await caller.runtime.plans.comments(caller.principal, plan_id))


@router.post(
    "/{plan_id}/comments",
    status_code=201,
    response_model=CommentView,
    openapi_extra=takes(NewComment),
)
async def comment(caller: Authenticated, plan_id: Name) -> Response:
    """Say something of a plan that waits for approval; it decides nothing."""
    body = await read_body(caller.request, NewComment)
    said = partial(caller.runtime.plans.comment, caller.principal, plan_id, **body.model_dump())
    return await _or_where_it_stands(caller, plan_id, body, said, 201)


@_moves("/{plan_id}/revise", openapi_extra=_NO_BODY)
async def revise(caller: Authenticated, plan_id: Name) -> Response:
    """Send a plan back to its planner, who answers every open comment."""
    return await _bare(caller, plan_id, caller.runtime.plans.revise)


@_moves("/{plan_id}/start", openapi_extra=_NO_BODY)
async def start(caller: Authenticated, plan_id: Name) -> Response:
    """Start a plan that is approved and on hold."""
    return await _bare(caller, plan_id, caller.runtime.plans.start)


@_moves("/{plan_id}/pause", openapi_extra=_NO_BODY)
async def pause(caller: Authenticated, plan_id: Name) -> Response:
    """Let nothing new start."""
    return await _bare(caller, plan_id, caller.runtime.plans.pause)


@_moves("/{plan_id}/resume", openapi_extra=_NO_BODY)
async def resume(caller: Authenticated, plan_id: Name) -> Response:
    """Go on with a paused plan."""
    return await _bare(caller, plan_id, caller.runtime.plans.resume)


@_moves("/{plan_id}/cancel", openapi_extra=_MAY_SAY_WHY)
async def cancel(caller: Authenticated, plan_id: Name) -> Response:
    """Stop a plan for good."""
    return await _cancel(caller, plan_id, caller.runtime.plans.cancel)


@_moves("/{plan_id}/replan", openapi_extra=takes(ReplanReason))
async def replan(caller: Authenticated, plan_id: Name) -> Response:
    """Have a plan changed: its next revision is put before a person."""
    body = await read_body(caller.request, ReplanReason)
    changed = partial(caller.runtime.plans.replan, caller.principal, plan_id, body.reason)
    return await _or_where_it_stands(caller, plan_id, body, changed)


class WantedChanges(WantedFiles):
    """Which of a plan's changed files are shown."""

    subtask_id: Filter = None


@router.get("/{plan_id}/changes", response_model=Changes)
async def get_plan_changes(
    caller: Authenticated, plan_id: Name, wanted: Annotated[WantedChanges, Query()]
) -> Response:
    """What a plan, or one of its subtasks, did to files: one difference from first to last."""
    found = await caller.runtime.changes.of_plan(caller.principal, plan_id, **wanted.model_dump())
    return answer(found)


@router.post(
    "/{plan_id}/rollback",
    status_code=202,
    response_model=RollbackView,
    openapi_extra=takes(RollbackOrder, required=False),
)
async def roll_back(caller: Authenticated, plan_id: Name) -> Response:
    """Undo what a plan did to files; a dry run says what would be undone."""
    order = await read_body(caller.request, RollbackOrder)
    rollback = caller.runtime.checkpoints.rollback
    undone = partial(rollback, caller.principal, plan_id, **order.model_dump())
    return await _or_where_it_stands(caller, plan_id, order, undone)


@_moves("/{plan_id}/subtasks/{subtask_id}/retry", openapi_extra=_NO_BODY)
async def retry_subtask(caller: Authenticated, plan_id: Name, subtask_id: Name) -> Response:
    """Run a failed subtask again."""
    return await _bare(caller, plan_id, caller.runtime.plans.retry_subtask, subtask_id)


@_moves("/{plan_id}/subtasks/{subtask_id}/skip", openapi_extra=_NO_BODY)
async def skip_subtask(caller: Authenticated, plan_id: Name, subtask_id: Name) -> Response:
    """Leave a subtask out."""
    return await _bare(caller, plan_id, caller.runtime.plans.skip_subtask, subtask_id)


@_moves("/{plan_id}/subtasks/{subtask_id}/cancel", openapi_extra=_MAY_SAY_WHY)
async def cancel_subtask(caller: Authenticated, plan_id: Name, subtask_id: Name) -> Response:
    """Stop one subtask; its siblings go on."""
    return await _cancel(caller, plan_id, caller.runtime.plans.cancel_subtask, subtask_id)


@_moves("/{plan_id}/subtasks/{subtask_id}/steer", openapi_extra=takes(WordsToSubtask))
async def steer_subtask(caller: Authenticated, plan_id: Name, subtask_id: Name) -> Response:
    """Say something to the agent of a subtask; it hears it before its next request."""
    body = await read_body(caller.request, WordsToSubtask)
    steer = caller.runtime.plans.steer_subtask
    steered = partial(steer, caller.principal, plan_id, subtask_id, body.content)
    return await _or_where_it_stands(caller, plan_id, body, steered)


async def _bare(
    caller: Caller, plan_id: str, verb: Callable[..., Awaitable[PlanView]], *more: str
) -> Response:
    body = await read_body(caller.request, Nothing)
    done = partial(verb, caller.principal, plan_id, *more)
    return await _or_where_it_stands(caller, plan_id, body, done)


async def _cancel(
    caller: Caller, plan_id: str, verb: Callable[..., Awaitable[PlanView]], *more: str
) -> Response:
    body = await read_body(caller.request, CancelReason)
    done = partial(verb, caller.principal, plan_id, *more, reason=body.reason)
    return await _or_where_it_stands(caller, plan_id, body, done)


async def _or_where_it_stands(
    caller: Caller,
    plan_id: str,
    body: BaseModel,
    action: Callable[[], Awaitable[BaseModel]],
    status: int = 202,
) -> Response:
    async def standing() -> PlanView:
        return await caller.runtime.plans.get(caller.principal, plan_id)

    return await once(caller, body, action, status, standing)


# Checkpoints: places that a rollback can go back to.

checkpoints = APIRouter(prefix="/checkpoints", tags=["checkpoints"])


class WantedCheckpoints(Page):
    """Which checkpoints a list shows."""

    plan_id: Name


@checkpoints.get("", response_model=CheckpointList)
async def list_checkpoints(
    caller: Authenticated, wanted: Annotated[WantedCheckpoints, Query()]
) -> Response:
    """A plan's checkpoints, oldest first."""
    return answer(await caller.runtime.checkpoints.page(caller.principal, **wanted.model_dump()))


@checkpoints.post(
    "", status_code=201, response_model=CheckpointView, openapi_extra=takes(NewCheckpoint)
)
async def create_checkpoint(caller: Authenticated) -> Response:
    """Take a checkpoint of a plan, between its subtasks or after it."""
    body = await read_body(caller.request, NewCheckpoint)
    taken = partial(caller.runtime.checkpoints.create, caller.principal, **body.model_dump())
    return await once(caller, body, taken, 201)


@checkpoints.get("/{checkpoint_id}", response_model=CheckpointState)
async def get_checkpoint(caller: Authenticated, checkpoint_id: Name) -> Response:
    """One checkpoint with the state that it stores, verified."""
    return answer(await caller.runtime.checkpoints.get(caller.principal, checkpoint_id))


@checkpoints.get("/{checkpoint_id}/diff", response_model=CheckpointDiff)
async def get_checkpoint_diff(
    caller: Authenticated, checkpoint_id: Name, to: Filter = None
) -> Response:
    """What differs between a checkpoint's files and another one's, or the workspace now."""
    return answer(await caller.runtime.checkpoints.diff(caller.principal, checkpoint_id, to))
