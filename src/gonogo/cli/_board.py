"""A plan under way as the last lines of a terminal: how far it is, and where each subtask stands.

Lines lead from each subtask to those that wait for it. Where there is no room for that, the
subtasks stand in a list; of a list too long, what runs or waits for a person is shown first. Every
line fits the width, and states are marks and words, so that no colour is needed.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gonogo.cli._escape import one_line
from gonogo.cli._graph import fitted, state_of
from gonogo.cli._rails import rails
from gonogo.cli._tree import MARKS
from gonogo.domain.plan import worker_name
from gonogo.domain.plan_views import GraphNode, PlanGraph
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
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
    room = max(height - 2, 1)
    rows = _drawn(graph.nodes, width, room) or _listed(graph.nodes, room)
    shown = [row.node for row in rows if row.node is not None]
    names = min(max((cell_len(one_line(n.id)) for n in shown), default=1), max(width // 3, 8))
    rail = max((len(row.rail) for row in rows), default=0)
    over = _over(graph.nodes)
    lines = [_head(graph, width, locale)]
    for row in rows:
        text, style = row.rail.ljust(rail), "dim"
        if (node := row.node) is not None:
            awaited = () if row.is_drawn else _awaited(node, over, locale)
            facts = (*_worker(node, width), *awaited, *_facts(node, graph.as_of, locale, since))
            name = set_cell_size(fitted(one_line(node.id), names), names)
            text, style = f"{text} {name} {' · '.join(facts)}", _STYLES.get(node.status, "")
        lines.append(Text(fitted(text, width), style=style))
    if left := len(graph.nodes) - len(shown):
        lines.append(Text(fitted(say("board_more", locale, count=left), width), style="dim"))
    return lines[:height]


class _Row(NamedTuple):
    rail: str
    """The mark of the node, with the lines beside it."""
    node: GraphNode | None = None
    is_drawn: bool = False
    """Whether lines say what it waits for."""


def _drawn(nodes: Sequence[GraphNode], width: int, room: int) -> list[_Row]:
    """The nodes with lines between them; nothing where those take too much room."""
    if len(nodes) > room:
        return []
    rows = rails([(node.id, node.dependencies) for node in nodes])
    if len(rows) > room or max((len(row.text) for row in rows), default=0) > width // 4:
        return []
    by_id = {node.id: node for node in nodes}
    return [_drawn_row(row.text, by_id.get(row.key or "")) for row in rows]


def _drawn_row(text: str, node: GraphNode | None) -> _Row:
    return _Row(text if node is None else text.replace("●", _mark(node)), node, is_drawn=True)


def _listed(nodes: Sequence[GraphNode], room: int) -> list[_Row]:
    return [_Row(_mark(node), node) for node in _weightiest(nodes, room)]


def _mark(node: GraphNode) -> str:
    return MARKS.get(node.status, "·")


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


def _awaited(node: GraphNode, over: set[str], locale: str) -> Iterator[str]:
    waits = [each for each in node.dependencies if each not in over]
    if waits and node.status is _S.PENDING:
        yield say("graph_after", locale, after=", ".join(map(one_line, waits)))


def _facts(node: GraphNode, as_of: datetime, locale: str, since: float) -> Iterator[str]:
    if node.status not in (_S.PENDING, _S.COMPLETED, _S.RUNNING):
        yield state_of(node, locale)
    if node.started_at is not None and node.status is not _S.PENDING:
        took = elapsed(node.started_at, node.finished_at or as_of)
        yield duration(took + (0.0 if node.finished_at else since), locale)
    if node.attempt > 1:
        yield say("graph_attempt", locale, attempt=node.attempt)


def _worker(node: GraphNode, width: int) -> Iterator[str]:
    if width >= _ROOMY:
        yield fitted(one_line(worker_name(node)), width // 5)
