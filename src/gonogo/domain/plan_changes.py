"""What changed between two revisions of a plan."""

from dataclasses import dataclass
from typing import Any

from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.plan_views import PlanDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChanges:
    """Subtasks that came, went, or are other than they were."""

    added: tuple[Subtask, ...]
    removed: tuple[Subtask, ...]
    changed: tuple[tuple[str, dict[str, Any]], ...]
    """Subtask id, and by field `{"from", "to"}`."""


def plan_changes(before: Revision, after: Revision) -> PlanChanges:
    """What the second revision has otherwise than the first."""
    old, new = before.by_id, after.by_id
    fields = {key: _changed(old[key], new[key]) for key in new if key in old}
    return PlanChanges(
        added=tuple(subtask for key, subtask in new.items() if key not in old),
        removed=tuple(subtask for key, subtask in old.items() if key not in new),
        changed=tuple((key, each) for key, each in fields.items() if each),
    )


def plan_diff(before: Revision, after: Revision) -> PlanDiff:
    """The same as clients are told."""
    changes = plan_changes(before, after)
    return PlanDiff(
        plan_id=after.plan_id, from_revision=before.number, to_revision=after.number,
        added=list(changes.added), removed=list(changes.removed),
        changed=[{"id": key, "fields": fields} for key, fields in changes.changed],
    )  # fmt: skip


def _changed(before: Subtask, after: Subtask) -> dict[str, Any]:
    old, new = (s.model_dump(mode="json", exclude_none=True) for s in (before, after))
    names = (name for name in type(after).model_fields if old.get(name) != new.get(name))
    return {name: {"from": old.get(name), "to": new.get(name)} for name in names}
