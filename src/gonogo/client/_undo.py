"""Checkpoints: list them, look at what they store, go back to them."""

from gonogo.client._wire import Wire, given, named
from gonogo.domain.plan_views import CheckpointDiff, CheckpointList, CheckpointState, RollbackView


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
