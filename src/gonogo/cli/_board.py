"""A plan under way as the last lines of a terminal: how far it is, and where each subtask stands.

Every line fits the width, and states are marks and words, so that no colour is needed. What does
not fit the height is left out by its weight: what runs or waits for a person is shown first.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gonogo.cli._escape import one_line
from gonogo.cli._graph import fitted, state_of
from gonogo.cli._tree import MARKS
from gonogo.domain.kinds import worker_name
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.plan_views import GraphNode, PlanGraph
from gonogo.domain.subtask_state import SUBTASK, SubtaskStatus
from gonogo.texts import duration, say

_S = SubtaskStatus
UNDER_WAY = frozenset({PlanStatus.RUNNING, PlanStatus.PAUSED, PlanStatus.REPLANNING})
_STYLES = {
    _S.RUNNING: "bold cyan",
    _S.WAITING_APPROVAL: "bold yellow",
    _S.COMPLETED: "green",
    _S.FAILED: "red",
    _S.PENDING: "dim",
    _S.SKIPPED: "dim",
    _S.CANCELLED: "dim",
}
_BAR = 20
_ROOMY = 60
"""Cells from which on there is place for who does it."""


def board_lines(
    graph: PlanGraph, *, width: int, height: int, locale: str, since: float = 0.0
) -> list[Text]:
    """The plan in at most so many lines of at most so many cells.

    Args:
        since: Seconds that have passed since the graph was drawn up.
    """
    shown = _weightiest(graph.nodes, max(height - 2, 1))
    names = min(max((cell_len(one_line(n.id)) for n in shown), default=1), max(width // 3, 8))
    lines = [_head(graph, width, locale)]
    over = _over(graph.nodes)
    for node in shown:
        facts = " · ".join([*_worker(node, width), *_facts(node, graph.as_of, over, locale, since)])
        name = set_cell_size(fitted(one_line(node.id), names), names)
        text = f"{MARKS.get(node.status, '·')} {name} {facts}".rstrip()
        lines.append(Text(fitted(text, width), style=_STYLES.get(node.status, "")))
    if left := len(graph.nodes) - len(shown):
        lines.append(Text(fitted(say("board_more", locale, count=left), width), style="dim"))
    return lines[:height]


def _head(graph: PlanGraph, width: int, locale: str) -> Text:
    total = len(graph.nodes)
    done = len(_over(graph.nodes))
    full = _BAR * done // total if total else 0
    text = Text(f"{done}/{total} ", style="bold")
    text.append("━" * full, style="green").append("─" * (_BAR - full), style="dim")
    if graph.status is not PlanStatus.RUNNING:
        text.append(f" {say(f'board_{graph.status}', locale)}", style="bold yellow")
    text.truncate(width)
    return text


def _weightiest(nodes: Sequence[GraphNode], room: int) -> list[GraphNode]:
    """Those that a person wants to see first, in the plan's order."""
    if len(nodes) <= room + 1:
        return list(nodes)
    over = _over(nodes)

    def weight(node: GraphNode) -> int:
        if node.status in (_S.RUNNING, _S.WAITING_APPROVAL):
            return 0
        if node.status is _S.FAILED:
            return 1
        if node.status in SUBTASK.terminal:
            return 4
        return 2 if over.issuperset(node.dependencies) else 3

    chosen = {node.id for node in sorted(nodes, key=weight)[:room]}
    return [node for node in nodes if node.id in chosen]


def _over(nodes: Sequence[GraphNode]) -> set[str]:
    return {node.id for node in nodes if node.status in SUBTASK.terminal}


def _facts(
    node: GraphNode, as_of: datetime, over: set[str], locale: str, since: float
) -> Iterator[str]:
    if node.status is _S.PENDING:
        if waits := [each for each in node.dependencies if each not in over]:
            yield say("graph_after", locale, after=", ".join(map(one_line, waits)))
    elif node.status is not _S.COMPLETED and node.status is not _S.RUNNING:
        yield state_of(node, locale)
    if node.started_at is not None and node.status is not _S.PENDING:
        took = ((node.finished_at or as_of) - node.started_at).total_seconds()
        yield duration(took + (0.0 if node.finished_at else since), locale)
    if node.attempt > 1:
        yield say("graph_attempt", locale, attempt=node.attempt)


def _worker(node: GraphNode, width: int) -> Iterator[str]:
    if width >= _ROOMY:
        yield fitted(one_line(worker_name(node)), width // 5)
