"""Differences of snapshots as clients are shown them."""

from typing import Literal

from gonogo.domain.plan_views import CheckpointDiff, FileDiff
from gonogo.domain.text_safety import visible
from gonogo.domain.undo import kept_path, shown_path
from gonogo.workspace import Change, Snapshots, Tree

_FILES = 500
_CHARACTERS = 20_000
"""Of one file's difference."""
_IN_ALL = 200_000


def diff_view(
    snapshots: Snapshots, checkpoint_id: str, to: str | None, before: Tree, after: Tree
) -> CheckpointDiff:
    """What differs between two snapshots, as far as an answer holds it."""
    changes = snapshots.diff(before, after)
    files: list[FileDiff] = []
    left = _IN_ALL
    for change in changes[:_FILES]:
        limit = min(_CHARACTERS, left)
        text = snapshots.unified(before, after, change.path, limit=limit) if limit else ""
        left -= min(len(text), left)
        files.append(
            FileDiff(
                path=shown_path(kept_path(change.path)), status=_status(change), diff=visible(text)
            )
        )
    truncated = len(changes) > _FILES or left == 0
    return CheckpointDiff(checkpoint_id=checkpoint_id, to=to, files=files, truncated=truncated)


def _status(change: Change) -> Literal["added", "deleted", "modified"]:
    if change.before is None:
        return "added"
    return "deleted" if change.after is None else "modified"
