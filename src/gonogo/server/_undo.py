"""Checkpoints: places that a rollback can go back to."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from gonogo.domain.plan_views import CheckpointDiff, CheckpointList, CheckpointState
from gonogo.server._answers import answer
from gonogo.server._caller import Authenticated
from gonogo.server._params import Filter, Name, Page

router = APIRouter(prefix="/checkpoints", tags=["checkpoints"])


class Wanted(Page):
    """Which checkpoints a list shows."""

    plan_id: Name


@router.get("", response_model=CheckpointList)
async def list_checkpoints(caller: Authenticated, wanted: Annotated[Wanted, Query()]) -> Response:
    """A plan's checkpoints, oldest first."""
    return answer(await caller.runtime.checkpoints(caller.principal, **wanted.model_dump()))


@router.get("/{checkpoint_id}", response_model=CheckpointState)
async def get_checkpoint(caller: Authenticated, checkpoint_id: Name) -> Response:
    """One checkpoint with the state that it stores, verified."""
    return answer(await caller.runtime.checkpoint(caller.principal, checkpoint_id))


@router.get("/{checkpoint_id}/diff", response_model=CheckpointDiff)
async def get_checkpoint_diff(
    caller: Authenticated, checkpoint_id: Name, to: Filter = None
) -> Response:
    """What differs between a checkpoint's files and another one's, or the workspace now."""
    return answer(await caller.runtime.checkpoint_diff(caller.principal, checkpoint_id, to))
