"""The pace of plans: which of the ready subtasks go first, and how many run at once."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.plan import Subtask
from gonogo.domain.schedule import Outlook, Strategy

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What an operator says about the order and the number of subtasks."""

    strategy: Strategy
    per_agent: int | None = None
    """Subtasks of one plan that one agent carries out at once."""
    per_workspace: int | None = None
    """Subtasks of all plans that run at once in one workspace."""


def chosen(name: str, strategies: Mapping[str, Strategy]) -> Strategy:
    """The strategy of that name, made harmless: where it raises, plan order holds.

    Raises:
        InvalidMessage: there is none; the text lists those there are.
    """
    if name not in strategies:
        known = ", ".join(sorted(strategies))
        raise InvalidMessage(f"There is no strategy {name!r}; use one of {known}")
    strategy = strategies[name]

    def ordered(ready: Sequence[Subtask], outlook: Outlook) -> Iterable[str]:
        try:
            return dict.fromkeys(strategy(ready, outlook))
        except Exception:
            _LOG.exception("strategy %s failed; plan order it is", name)
            return ()

    return ordered
