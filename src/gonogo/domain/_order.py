"""Who waits for whom, worked out once for a whole graph."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from gonogo.domain.plan import Subtask


def ancestors(subtasks: Sequence[Subtask]) -> Mapping[str, frozenset[str]]:
    """For each subtask the ids of all that it waits for, directly or not.

    Raises:
        CycleError: a subtask waits for itself.
    """
    above: dict[str, frozenset[str]] = {}
    for key in TopologicalSorter({s.id: s.dependencies for s in subtasks}).static_order():
        above.setdefault(key, frozenset())
    direct = {subtask.id: subtask.dependencies for subtask in subtasks}
    for key in above:
        before = direct.get(key, ())
        above[key] = frozenset(before).union(*(above[other] for other in before))
    return above
