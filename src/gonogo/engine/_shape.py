"""A revision as rounds look at it: its subtasks by their ids, worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.records import Plan
from gonogo.domain.schedule import remaining_minutes
from gonogo.store import Connection
from gonogo.store.plans import revision_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One revision, and where everything in it is."""

    revision: Revision
    subtasks: Mapping[str, Subtask]
    places: Mapping[str, int]
    """Subtask id → its place in the plan, from 1."""
    remaining: Mapping[str, float]
    """Subtask id → estimated minutes of the longest chain that begins with it."""

    def agent(self, subtask_id: str) -> str | None:
        """The agent that carries a subtask out."""
        return self.subtasks[subtask_id].agent


def shape_of(conn: Connection, plan: Plan) -> Shape:
    """The shape of a plan's current revision."""
    kept = _kept(plan.id, plan.revision)
    # A transaction that is rolled back may leave a revision here that never was; another one of
    # the same number then has another digest.
    if kept and kept[0][0] == plan.digest:
        return kept[0][1]
    found = read_shape(conn, plan.id, plan.revision)
    assert found is not None  # noqa: S101 - a plan's current revision is a foreign key away
    kept[:] = [(plan.digest, found)]
    return found


def read_shape(conn: Connection, plan_id: str, number: int) -> Shape | None:
    """The shape of any revision."""
    revision = revision_of(conn, plan_id, number)
    if revision is None:
        return None
    return Shape(
        revision=revision,
        subtasks=revision.by_id,
        places={subtask.id: place for place, subtask in enumerate(revision.subtasks, start=1)},
        remaining=remaining_minutes(revision.subtasks),
    )


def started_shape(plan_id: str, number: int) -> Shape | None:
    """The shape of a revision of which this process has started something, if it is at hand."""
    kept = _kept(plan_id, number)
    return kept[0][1] if kept else None


@lru_cache(maxsize=256)
def _kept(plan_id: str, number: int) -> list[tuple[str, Shape]]:
    return []
