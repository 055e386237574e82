"""Checkpoints: list them, look at what they store."""

from gonogo.client._wire import Wire
from gonogo.domain.undo_views import CheckpointList, CheckpointState


class Undo(Wire):
    """What can be asked about checkpoints."""

    async def checkpoints(
        self, plan_id: str, *, limit: int = 50, offset: int = 0
    ) -> CheckpointList:
        """A plan's checkpoints, oldest first."""
        return await self._get(
            "/checkpoints", CheckpointList, plan_id=plan_id, limit=limit, offset=offset
        )

    async def checkpoint(self, checkpoint_id: str) -> CheckpointState:
        """A checkpoint with the state that it stores, verified."""
        return await self._get(f"/checkpoints/{checkpoint_id}", CheckpointState)
