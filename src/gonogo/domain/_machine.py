"""A state machine as a table: which state may follow which, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from gonogo.domain.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Machine(Generic[S]):
    """The legal moves of one kind of thing."""

    subject: str
    moves: Mapping[S, frozenset[S]]
    terminal: frozenset[S] = field(init=False)
    """The states that nothing follows."""

    def __post_init__(self) -> None:
        """Work out what the table says by leaving it out."""
        last = frozenset(state for state, targets in self.moves.items() if not targets)
        object.__setattr__(self, "terminal", last)

    def allows(self, state: S, target: S) -> bool:
        """Whether `target` may follow `state`."""
        return target in self.moves[state]

    def check(self, state: S, target: S, name: str = "") -> S:
        """Give `target` back if it may follow `state`.

        Raises:
            IllegalTransition: the table has no such move.
        """
        if not self.allows(state, target):
            raise IllegalTransition(f"{self.subject} {name}".strip(), state, target)
        return target
