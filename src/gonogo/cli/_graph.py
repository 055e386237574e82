"""A plan drawn in the terminal: as a graph with its edges, or as bars along a line of time.

Every function gives lines of text that fit the width; what a model wrote stands in them as one
line, safe to look at. States are words beside their marks, so that no colour is needed.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from gonogo.cli._escape import one_line
from gonogo.cli._rails import Row, rails
from gonogo.cli._tree import MARKS, stages
from gonogo.domain.plan import worker_name
from gonogo.domain.plan_views import GraphNode, PlanGraph
from gonogo.domain.schedule import elapsed
from gonogo.texts import duration, say

_NARROWEST = 20
_BAR = 12
"""Cells below which a bar says nothing."""


def graph_lines(graph: PlanGraph, *, width: int, locale: str) -> Iterator[str]:
    """The plan from top to bottom; lines lead from each subtask to those that wait for it.

    A plan too wide to be drawn so is told stage by stage.
    """
    width = max(width, _NARROWEST)
    by_id = {node.id: node for node in graph.nodes}
    drawn = rails([(node.id, node.dependencies) for node in graph.nodes])
    if max((len(row.text) for row in drawn), default=0) > width // 2:
        yield from _by_stage(graph, width, locale)
    else:
        for row in drawn:
            yield fitted(_rail_line(row, by_id, graph, locale), width)
    yield from _path(graph, width, locale)


def timeline_lines(graph: PlanGraph, *, width: int, locale: str) -> Iterator[str]:
    """A bar for each subtask: full while it worked, shaded while it waited for a person."""
    width = max(width, _NARROWEST)
    begins = [_begin(node) for node in graph.nodes]
    known = [moment for moment in begins if moment is not None]
    first = min(known, default=graph.as_of)
    last = max([n.finished_at or graph.as_of for n in graph.nodes if _begin(n)], default=first)
    name = min(max((cell_len(one_line(n.id)) for n in graph.nodes), default=1), width // 3)
    told = [_told(node, graph, locale) for node in graph.nodes]
    bar = width - name - 2 - max(map(cell_len, told), default=0) - 1
    if bar >= _BAR:
        total = duration(elapsed(first, last), locale)
        yield fitted(" " * (name + 1) + "0" + total.rjust(bar), width)
    for node, text in zip(graph.nodes, told, strict=True):
        drawn = f"|{_bar(node, first, last, bar)}|" if bar >= _BAR else ""
        yield fitted(f"{_cut(one_line(node.id), name)} {drawn}{text}", width)
    if bar >= _BAR:
        yield fitted(say("graph_bars", locale), width)
    yield from _path(graph, width, locale)


def state_of(node: GraphNode, locale: str) -> str:
    """Where a subtask stands, in words."""
    return say(f"state_{node.status}", locale)


def fitted(line: str, width: int) -> str:
    """A line that is cut, and says so, where it has more cells than that."""
    line = line.rstrip()
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def _rail_line(row: Row, by_id: dict[str, GraphNode], graph: PlanGraph, locale: str) -> str:
    if row.key is None:
        return row.text
    node = by_id[row.key]
    text = row.text.replace("●", MARKS.get(str(node.status), "·"))
    return f"{text} {_label(node, graph, locale)}"


def _label(node: GraphNode, graph: PlanGraph, locale: str) -> str:
    star = "*" if node.id in _chain(graph) else ""
    worker = one_line(worker_name(node))
    facts = ", ".join(_facts(node, graph, locale))
    return f"{one_line(node.id)}{star} [{facts}] {worker}: {one_line(node.description, 300)}"


def _facts(node: GraphNode, graph: PlanGraph, locale: str) -> Iterator[str]:
    yield state_of(node, locale)
    if node.started_at is not None:
        seconds = elapsed(node.started_at, node.finished_at or graph.as_of)
        yield duration(seconds, locale)
    if node.waited_seconds:
        yield say("graph_waited", locale, time=duration(node.waited_seconds, locale))
    if node.attempt > 1:
        yield say("graph_attempt", locale, attempt=node.attempt)


def _by_stage(graph: PlanGraph, width: int, locale: str) -> Iterator[str]:
    by_id = {node.id: node for node in graph.nodes}
    plain = [{"id": node.id, "dependencies": node.dependencies} for node in graph.nodes]
    for number, stage in enumerate(stages(plain), start=1):
        yield say("graph_stage", locale, number=number)
        for each in stage:
            node = by_id[each["id"]]
            mark = MARKS.get(str(node.status), "·")
            yield fitted(f"  {mark} {_label(node, graph, locale)}", width)
            if node.dependencies:
                after = ", ".join(map(one_line, node.dependencies))
                yield fitted(f"      {say('graph_after', locale, after=after)}", width)


def _chain(graph: PlanGraph) -> Sequence[str]:
    return graph.actual_path or graph.critical_path


def _path(graph: PlanGraph, width: int, locale: str) -> Iterator[str]:
    key = "graph_actual_path" if graph.actual_path else "graph_critical_path"
    path = " → ".join(map(one_line, _chain(graph)))
    yield fitted(say(key, locale, path=path), width)


def _told(node: GraphNode, graph: PlanGraph, locale: str) -> str:
    mark = MARKS.get(str(node.status), "·")
    return f"{mark} {', '.join(_facts(node, graph, locale))}"


def _begin(node: GraphNode) -> datetime | None:
    known = [wait.since for wait in node.waits[:1]] + ([node.started_at] if node.started_at else [])
    return min(known, default=None)


def _bar(node: GraphNode, first: datetime, last: datetime, width: int) -> str:
    cells = [" "] * width
    whole = max(elapsed(first, last), 0.001)

    def fill(since: datetime, until: datetime, sign: str) -> None:
        begin = min(width - 1, round(elapsed(first, since) / whole * width))
        end = max(begin + 1, round(elapsed(first, until) / whole * width))
        cells[begin : min(end, width)] = sign * (min(end, width) - begin)

    if node.started_at is not None:
        fill(node.started_at, node.finished_at or last, "█")
    for wait in node.waits:
        fill(wait.since, wait.until, "░")
    return "".join(cells)


def _cut(text: str, width: int) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)
