"""When the parts of a plan ran and waited, and which of them its end waited for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from gonogo.domain.plan import Subtask


def elapsed(since: datetime, until: datetime) -> float:
    """The seconds from one moment to a later one; none where the clock was set back between."""
    return max(0.0, (until - since).total_seconds())


class Span(NamedTuple):
    """From one moment to another."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        """How long."""
        return elapsed(self.since, self.until)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that do not overlap, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.since <= found[-1].until:
            found[-1] = Span(found[-1].since, max(found[-1].until, span.until))
        elif span.until >= span.since:
            found.append(span)
    return found


def actual_path(subtasks: Sequence[Subtask], ran: Mapping[str, Span]) -> tuple[str, ...]:
    """What the end waited for: from the subtask that ended last, back over what each waited for.

    Args:
        ran: Subtask id → when it ran; those that did not run are not in it.
    """
    by_id = {subtask.id: subtask for subtask in subtasks}
    path: list[str] = []
    left = [subtask.id for subtask in subtasks if subtask.id in ran]
    while left:
        last = max(left, key=lambda key: ran[key].until)
        path.append(last)
        left = [key for key in by_id[last].dependencies if key in ran and key not in path]
    return tuple(reversed(path))
