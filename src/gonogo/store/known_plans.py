"""Plans that the writer of a SQLite file knows, so that a step of one costs what changed.

What is known is what the writer's next read would give, by construction. In this process one thread
writes, on one connection, which tells of each statement that writes plans or subtasks: one that did
not come `through` here has everything forgotten. What other connections commit, of this process or
of another one, is seen by `PRAGMA data_version` when a transaction begins; from then on nobody else
can write. And whatever is taken back, a transaction or a part of one, has everything forgotten. On
PostgreSQL many write at once, and nothing is known.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from gonogo.domain.records import Plan
from gonogo.domain.schedule import Shape, Standings
from gonogo.domain.states import SubtaskStatus

T = TypeVar("T")
Moves = Mapping[str, tuple[SubtaskStatus, Mapping[str, Any]]]
"""Subtask id → its status from now on, and other columns."""
_MOST = 20_000
"""Subtasks of all plans that are known."""


class KnownPlan(Struct, frozen=True):
    """A plan as the database has it."""

    plan: Plan
    shape: Shape
    stand: Standings
    """Not to be changed: whoever moves subtasks does so in a copy until that is written."""


class KnownPlans:
    """The plans that were looked at last."""

    def __init__(self) -> None:
        """Know nothing."""
        self._plans: OrderedDict[str, KnownPlan] = OrderedDict()
        self._size = 0
        self._version: int | None = None
        self._comes_through = False

    def begin(self, version: int) -> None:
        """A transaction begins.

        Args:
            version: The file's, which changes with what other connections commit.
        """
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Know nothing any more."""
        self._plans.clear()
        self._size = 0

    def find(self, plan_id: str) -> KnownPlan | None:
        """A plan, if it is known."""
        if plan_id in self._plans:
            self._plans.move_to_end(plan_id)
        return self._plans.get(plan_id)

    def keep(self, known: KnownPlan) -> None:
        """Know a plan that this transaction has read."""
        self._drop(known.plan.id)
        self._plans[known.plan.id] = known
        self._size += len(known.stand.rows)
        while self._size > _MOST:
            self._drop(next(iter(self._plans)))

    def told_of_write(self) -> None:
        """A statement writes plans or subtasks."""
        if not self._comes_through:
            self.forget()

    def through(
        self, plan_id: str, write: Callable[[], T], revision: int = 0, moves: Moves | None = None
    ) -> T:
        """Write something of one plan, and know what came of it, or nothing of the plan any more.

        Args:
            write: Gives something true when all of it was written.
            revision: Whose subtasks move.
            moves: All that is written, if nothing but subtasks move.
        """
        # Whatever may go wrong, by then the plan is not known.
        known = self._drop(plan_id)
        self._comes_through = True
        try:
            done = write()
        finally:
            self._comes_through = False
        if known and done and moves is not None and known.plan.revision == revision:
            for key, (status, to) in moves.items():
                known.stand.put(key, known.stand.rows[key].moved(status, to))
            self.keep(known)
        return done

    def _drop(self, plan_id: str) -> KnownPlan | None:
        known = self._plans.pop(plan_id, None)
        self._size -= len(known.stand.rows) if known else 0
        return known
