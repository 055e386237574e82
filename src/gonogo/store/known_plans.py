"""Plans that the writer of a SQLite file knows, so that a step of one costs what changed.

What is known is what the writer's next read would give, by construction. In this process one thread
writes, on one connection, which tells of each statement that writes plans or subtasks: one that did
not come `through` here has everything forgotten. What other connections commit, of this process or
of another one, is seen by `PRAGMA data_version` when a transaction begins; from then on nobody else
can write. And whatever is taken back, a transaction or a part of one, has everything forgotten. On
PostgreSQL many write at once, and nothing is known.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from gonogo.domain.records import Plan
from gonogo.domain.schedule import Shape, Standings

T = TypeVar("T")
_MOST = 20_000
"""Subtasks of all plans that are known."""


class KnownPlan(Struct):
    """A plan as the database has it, or as a transaction that has taken it is about to write it."""

    plan: Plan
    shape: Shape
    stand: Standings
    moves: list[Any] = []
    """What of that is not written yet."""
    seen: int = 0
    """After how many writes it was as the database has it."""


class KnownPlans:
    """The plans that were looked at last.

    A transaction takes a plan out, so that nobody else looks at what it has not written yet, and
    gives it back at its end.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._plans: OrderedDict[str, KnownPlan] = OrderedDict()
        self._taken: list[KnownPlan] = []
        self._size = self._writes = 0
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
        """Know nothing any more, of what was taken either."""
        self._plans.clear()
        self._size = 0
        self._taken.clear()
        self._writes += 1

    def take(self, plan_id: str, read: Callable[[], KnownPlan]) -> KnownPlan:
        """A plan, for this transaction alone.

        Args:
            read: Reads it, where it is not known.
        """
        known = self._drop(plan_id) or read()
        known.seen = self._writes
        self._taken.append(known)
        return known

    def give_back(self) -> None:
        """The functions of a transaction are done: know what they took, as far as it is so."""
        for known in self._taken:
            if known.seen == self._writes and not known.moves:
                self._keep(known)
        self._taken.clear()

    def told_of_write(self) -> None:
        """A statement writes plans or subtasks."""
        if not self._comes_through:
            self.forget()

    def through(self, plan_id: str, write: Callable[[], T], moved: KnownPlan | None = None) -> T:
        """Write something of one plan, which is not known then.

        Args:
            write: Gives something true when all of it was written.
            moved: The plan as it was taken, if nothing but its moves is written.
        """
        self._drop(plan_id)
        is_whole = moved is not None and moved.seen == self._writes
        # Whatever may go wrong, what was taken before is not as the database has it.
        self._writes += 1
        self._comes_through = True
        try:
            done = write()
        finally:
            self._comes_through = False
        if moved is not None and is_whole and done:
            moved.seen = self._writes
        return done

    def _keep(self, known: KnownPlan) -> None:
        self._drop(known.plan.id)
        self._plans[known.plan.id] = known
        self._size += len(known.stand.rows)
        while self._size > _MOST:
            self._drop(next(iter(self._plans)))

    def _drop(self, plan_id: str) -> KnownPlan | None:
        known = self._plans.pop(plan_id, None)
        self._size -= len(known.stand.rows) if known else 0
        return known
