"""Checkpoints: what is asked about them."""

from gonogo.domain.checkpoint import is_unchanged, read_standings
from gonogo.domain.errors import NotFound
from gonogo.domain.principal import Principal
from gonogo.domain.records import Checkpoint, SubtaskRow
from gonogo.domain.undo_views import (
    CheckpointList,
    CheckpointState,
    CheckpointSubtask,
    CheckpointView,
)
from gonogo.runtime._parts import Parts
from gonogo.runtime._sessions import seen
from gonogo.store import Connection
from gonogo.store.checkpoints import checkpoint_of, count_checkpoints, list_checkpoints
from gonogo.store.plans import plan_of, subtask_rows


class Undo:
    """The verbs and queries about checkpoints."""

    parts: Parts

    async def checkpoints(
        self, principal: Principal, plan_id: str, limit: int = 50, offset: int = 0
    ) -> CheckpointList:
        """A page of a plan's checkpoints, oldest first.

        Raises:
            NotFound: there is no such plan that the principal may see.
        """
        return await self.parts.store.read(_page, principal, plan_id, limit, offset)

    async def checkpoint(self, principal: Principal, checkpoint_id: str) -> CheckpointState:
        """A checkpoint, with the state that it stores, after its hash was verified.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        found, rows = await self.parts.store.read(_whole, principal, checkpoint_id)
        return _state(found, rows, is_unchanged(found))


def seen_checkpoint(conn: Connection, principal: Principal, checkpoint_id: str) -> Checkpoint:
    """The checkpoint of that id, if the principal may see it.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    found = checkpoint_of(conn, checkpoint_id)
    if found is None or seen(conn, principal, found.session_id) is None:
        raise NotFound(f"No checkpoint found with id={checkpoint_id}")
    return found


def _page(
    conn: Connection, principal: Principal, plan_id: str, limit: int, offset: int
) -> CheckpointList:
    plan = plan_of(conn, plan_id)
    if plan is None or seen(conn, principal, plan.session_id) is None:
        raise NotFound(f"No plan found with id={plan_id}")
    found = list_checkpoints(conn, plan_id, limit, offset)
    return CheckpointList(
        checkpoints=[_view(each) for each in found], total=count_checkpoints(conn, plan_id)
    )


def _whole(
    conn: Connection, principal: Principal, checkpoint_id: str
) -> tuple[Checkpoint, list[SubtaskRow]]:
    found = seen_checkpoint(conn, principal, checkpoint_id)
    return found, subtask_rows(conn, found.plan_id, found.revision)


def _view(checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView.model_validate(_shown(checkpoint))


def _shown(checkpoint: Checkpoint) -> dict[str, object]:
    names = CheckpointView.model_fields.keys() - {"checkpoint_id"}
    shown: dict[str, object] = {name: getattr(checkpoint, name) for name in names}
    return {"checkpoint_id": checkpoint.id, **shown}


def _state(checkpoint: Checkpoint, rows: list[SubtaskRow], verified: bool) -> CheckpointState:
    stood = read_standings(checkpoint.standings)
    subtasks = [
        # What had not come to this status yet had no result either, whatever it has now.
        CheckpointSubtask(
            id=row.subtask_id, status=status,
            result=row.result if row.status == status else None,
            error=row.error if row.status == status else None,
        )
        for row, status in zip(rows, stood, strict=True)
    ]  # fmt: skip
    return CheckpointState.model_validate(
        {**_shown(checkpoint), "verified": verified, "subtasks": subtasks}
    )
