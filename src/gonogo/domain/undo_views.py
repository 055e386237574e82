"""What clients are shown of checkpoints and rollbacks."""

from datetime import datetime
from typing import Any, Literal

from gonogo.domain.base import View
from gonogo.domain.subtask_state import SubtaskStatus


class CheckpointView(View):
    """A place that a rollback can go back to.

    `subtask_id` is the subtask that it was taken before; absent for one before a rollback. `tree`
    is the snapshot of the workspace; absent while the subtask has had no effect.
    """

    checkpoint_id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str | None = None
    attempt: int
    reason: str
    event_seq: int
    tree: str | None = None
    hash: str
    created_at: datetime
    swept_at: datetime | None = None
    """When its snapshot was given up: it is listed, and cannot be gone back to."""


class CheckpointList(View):
    """A page of a plan's checkpoints, oldest first; `total` counts all of them."""

    checkpoints: list[CheckpointView]
    total: int


class CheckpointSubtask(View):
    """Where a subtask stood when a checkpoint was taken, and what had come of it."""

    id: str
    status: SubtaskStatus
    result: Any = None
    error: dict[str, Any] | None = None


class CheckpointState(CheckpointView):
    """A checkpoint with the state that it stores.

    `verified`: it says what it said when it was written, and its snapshot is whole.
    """

    verified: bool
    subtasks: list[CheckpointSubtask]


class FileDiff(View):
    """How one file differs; what could deceive stands as visible escapes."""

    path: str
    status: Literal["added", "deleted", "modified"]
    diff: str
    """A unified diff; empty where the content is not shown."""


class CheckpointDiff(View):
    """What differs between a checkpoint's snapshot and another one, or the workspace now."""

    checkpoint_id: str
    to: str | None = None
    files: list[FileDiff]
    truncated: bool = False


class RollbackFile(View):
    """What a rollback does about one file.

    `shared`: it changed while a command ran, so it may be a person's edit. `reason` says why a
    conflict stays as it is.
    """

    path: str
    action: Literal["restore", "delete", "conflict", "shared"]
    reason: str | None = None


class RollbackView(View):
    """What a rollback did; for a dry run, what it would do."""

    plan_id: str
    dry_run: bool
    checkpoint_id: str | None = None
    """The checkpoint that was taken before the rollback: going back to it undoes it."""
    subtasks: list[str]
    """The subtasks that are undone."""
    files: list[RollbackFile]
    restored: int
    conflicts: int
    shared: int
    again: list[str] = []
    """The subtasks that will run again when the plan goes on."""
