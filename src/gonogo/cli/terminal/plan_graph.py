"""A plan drawn: as a list, as a graph with rails, as bars of time, and live."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gonogo.cli.terminal.output import indented, json_line, one_line
from gonogo.domain.base import elapsed
from gonogo.domain.plan import worker_name
from gonogo.domain.plan_views import GraphNode, PlanGraph, SubtaskView
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
from gonogo.i18n import DEFAULT, duration, estimate, phrase, say
from gonogo.i18n.texts import terms_of

# A graph as rails: a line of text for each node, lines down the left for the edges.
#
# A rail leads down from a node for as long as some other waits for it. Where rails meet in a node
# they are joined; one that only crosses is drawn through the joint.

_JOINTS = {
    "ud": "│", "udl": "┤", "udr": "├", "udlr": "┼", "ul": "╯", "ur": "╰", "ulr": "┴",
    "dl": "╮", "dr": "╭", "dlr": "┬", "u": "│", "d": "│", "": " ",
}  # fmt: skip
"""What is drawn where lines go up, down, left and right."""


class Row(NamedTuple):
    """One line of a drawing; `key` is the node that stands in it, at the `●`."""

    text: str
    key: str | None = None


def rails(nodes: Sequence[tuple[str, Sequence[str]]]) -> list[Row]:
    """Draw nodes, given each with what it waits for; each stands below all of those.

    What waits for itself, in a circle, is drawn without those edges.
    """
    return list(_rows(_in_order(nodes)))


def _in_order(nodes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    known = {key for key, _ in nodes}
    left = {key: [d for d in after if d in known] for key, after in nodes}
    order: list[tuple[str, list[str]]] = []
    done: set[str] = set()
    while left:
        ready = next((key for key, after in left.items() if done.issuperset(after)), None)
        key = ready if ready is not None else next(iter(left))
        order.append((key, [d for d in dict.fromkeys(left.pop(key)) if d in done]))
        done.add(key)
    return order


def _rows(order: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Row]:
    waiting = {key: sum(key in after for _, after in order) for key, _ in order}
    lanes: list[str | None] = []
    for key, after in order:
        joined = {lanes.index(each) for each in after}
        for each in after:
            waiting[each] -= 1
        closing = {column for column in joined if not waiting[lanes[column] or ""]}
        column = _column(lanes, closing)
        if joined:
            yield Row(_joints(lanes, joined, closing, column))
        for each in closing:
            lanes[each] = None
        yield Row(_marks(lanes, column), key)
        lanes[column] = key if waiting[key] else None
        while lanes and lanes[-1] is None:
            lanes.pop()


def _column(lanes: list[str | None], closing: Collection[int]) -> int:
    """Where a node stands: below one of those that it ends, else in the first free place."""
    if closing:
        return min(closing)
    if None in lanes:
        return lanes.index(None)
    lanes.append(None)
    return len(lanes) - 1


def _joints(
    lanes: Sequence[str | None], joined: Collection[int], closing: Collection[int], column: int
) -> str:
    meeting = {*joined, column}
    first, last = min(meeting), max(meeting)
    text = ""
    for place, lane in enumerate(lanes):
        if place in meeting:
            up = "u" if lane is not None else ""
            down = "d" if place == column or place not in closing else ""
            left = "l" if place > first else ""
            right = "r" if place < last else ""
            text += _JOINTS[up + down + left + right]
        else:
            text += "│" if lane is not None else "─" if first < place < last else " "
        text += "─" if first <= place < last else " "
    return text.rstrip()


def _marks(lanes: Sequence[str | None], column: int) -> str:
    places = range(max(len(lanes), column + 1))
    signs = ["●" if p == column else "│" if lanes[p] is not None else " " for p in places]
    return " ".join(signs).rstrip()


# Plans drawn as text.

MARKS = {
    "pending": "○",
    "running": "▶",
    "waiting_approval": "?",
    "completed": "✓",
    "failed": "✗",
    "skipped": "↷",
    "cancelled": "■",
    "rolled_back": "↶",
}
"""How a state looks beside a subtask."""

Node = Mapping[str, Any]


def plan_lines(subtasks: Sequence[Node], locale: str = DEFAULT) -> Iterator[str]:
    """One subtask after the other, whole, with what it may touch and how it went."""
    for number, subtask in enumerate(subtasks, start=1):
        yield f"{number:>3}. {_headline(subtask)}"
        yield f"     {_facts_of_subtask(subtask, locale)}"
        if allowed := scope_line(subtask, locale):
            yield f"     {phrase('allowed: {scope}', locale, scope=allowed)}"
        for rule in _rules(subtask, locale):
            yield f"     {rule}"
        if outcome := _outcome(subtask, locale):
            yield f"     {outcome}"


def _rules(subtask: Node, locale: str) -> Iterator[str]:
    """What else decides what will run."""
    if condition := subtask.get("condition"):
        yield phrase("only if {condition}", locale, condition=one_line(condition, None))
    if inputs := subtask.get("inputs"):
        yield say("summary_inputs", locale, inputs=json_line(inputs, None))
    checks: Sequence[Node] = subtask.get("done_when") or ()
    for check in checks:
        yield _check(check, locale)
    yield from terms_of(subtask, locale)


def _check(check: Node, locale: str) -> str:
    """What has to hold before a subtask counts as done; as it came where its kind is not known."""
    contains: Node = check.get("file_contains") or {}
    said = next((said for kind, said in _CHECKS.items() if check.get(kind)), None)
    if said is None:
        return json_line({"done_when": check}, None)
    limit = check.get("timeout")
    fields = {
        "command": check.get("command"), "path": check.get("file_exists") or contains.get("path"),
        "text": contains.get("text"), "question": check.get("ask"),
        "globs": ", ".join(check.get("unchanged") or ()),
        "seconds": f"{limit:g}" if isinstance(limit, int | float) else limit,
    }  # fmt: skip
    if limit:
        said = "done when {command} succeeds within {seconds} s"
    shown = {name: one_line(str(value), None) for name, value in fields.items()}
    return phrase(said, locale, **shown)


_CHECKS = {
    "command": "done when {command} succeeds",
    "file_exists": "done when the file {path} exists",
    "file_contains": "done when {path} contains: {text}",
    "unchanged": "done when nothing in {globs} has changed",
    "ask": "done when a model that sees the changes answers yes to: {question}",
}


def stages(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes by their depth: each stands after everything that it waits for."""
    depth: dict[str, int] = {}
    left = list(nodes)
    while left:
        ready = [n for n in left if all(d in depth for d in n.get("dependencies", ()))]
        if not ready:
            return [*_by_depth(nodes, depth), left]
        for node in ready:
            depth[node["id"]] = 1 + max(
                (depth[d] for d in node.get("dependencies", ())), default=-1
            )
        left = [n for n in left if n["id"] not in depth]
    return _by_depth(nodes, depth)


_PATHS = ("files anywhere in the workspace", "no files", "files {names}")
_TOOLS = ("all tools of its agent", "no tools", "tools {names}")
_COMMANDS = ("", "", "commands {names}")
_NETWORK = ("network any public host", "", "network {names}")
"""What is said where nothing is declared, where it is declared that there is none, and of names."""


def scope_line(subtask: Node, locale: str = DEFAULT) -> str:
    """What a subtask may do without a question, in a few words."""
    scope: Node = subtask.get("scope") or {}
    agent = subtask.get("agent")
    parts: list[str] = []
    if agent or subtask.get("tool"):
        parts.append(_declared(_PATHS, scope.get("paths"), locale))
    if scope.get("commands"):
        parts.append(_declared(_COMMANDS, scope["commands"], locale))
    if agent:
        parts.append(_declared(_TOOLS, scope.get("tools"), locale))
    if network := scope.get("network"):
        hosts = None if network is True else cast("Sequence[object]", network)
        parts.append(_declared(_NETWORK, hosts, locale))
    return "; ".join(parts)


def _declared(said: tuple[str, str, str], values: Sequence[object] | None, locale: str) -> str:
    if not values:
        return phrase(said[0] if values is None else said[1], locale)
    return phrase(said[2], locale, names=", ".join(one_line(str(each), None) for each in values))


def _by_depth(nodes: Sequence[Node], depth: Mapping[str, int]) -> list[list[Node]]:
    levels = range(max(depth.values(), default=-1) + 1)
    return [[n for n in nodes if depth.get(n["id"]) == level] for level in levels]


def _headline(node: Node) -> str:
    stands = "rolled_back" if node.get("rolled_back") else str(node.get("status"))
    mark = MARKS.get(stands, "·")
    return f"{mark} {one_line(node['id'])}: {indented(node['description'], ' ' * 7)}"


def _facts_of_subtask(subtask: Node, locale: str) -> str:
    named = {name: subtask.get(name) for name in ("agent", "tool", "inputs")}
    view = SubtaskView.model_construct(type=subtask.get("type", "action"), **named)
    parts = [
        one_line(worker_name(view)),
        one_line(estimate(str(subtask.get(("estimated_time"), "")), locale)),
    ]
    if subtask.get("dependencies"):
        names = ", ".join(map(one_line, subtask["dependencies"]))
        parts.append(phrase("after {subtasks}", locale, subtasks=names))
    if subtask.get("rolled_back"):
        parts.append(say("state_rolled_back", locale))
    return " · ".join(part for part in parts if part)


def _outcome(subtask: Node, locale: str) -> str:
    if error := subtask.get("error"):
        problem = one_line(str(error.get("message", error)), 300)
        return phrase("error: {problem}", locale, problem=problem)
    if (result := subtask.get("result")) is not None:
        said = cast("Node", result).get("output", result) if isinstance(result, dict) else result
        return phrase("result: {result}", locale, result=json_line(said, 300))
    return one_line(str(subtask.get("reason") or ""), 300)


# A plan drawn in the terminal: as a graph with its edges, or as bars along a line of time.
#
# Every function gives lines of text that fit the width; what a model wrote stands in them as one
# line, safe to look at. States are words beside their marks, so that no colour is needed.

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
    told = {node.id: _told(node, graph, locale) for node in graph.nodes}
    bar = width - name - 2 - max(map(cell_len, told.values()), default=0) - 1
    if bar >= _BAR:
        total = duration(elapsed(first, last), locale)
        yield fitted(" " * (name + 1) + "0" + total.rjust(bar), width)
    for node in graph.nodes:
        drawn = f"|{_bar(node, first, last, bar)}|" if bar >= _BAR else ""
        yield fitted(f"{_cut(one_line(node.id), name)} {drawn}{told[node.id]}", width)
    if bar >= _BAR:
        yield fitted(say("graph_bars", locale), width)
    yield from _path(graph, width, locale)


def state_of(node: GraphNode, locale: str) -> str:
    """Where a subtask stands, in words."""
    return say(f"state_{_stands(node)}", locale)


def mark_of(node: SubtaskView) -> str:
    """Where a subtask stands, in one sign."""
    return MARKS[_stands(node)]


def _stands(node: SubtaskView) -> str:
    return "rolled_back" if node.rolled_back else node.status


def fitted(line: str, width: int) -> str:
    """A line that is cut, and says so, where it has more cells than that."""
    line = line.rstrip()
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def _rail_line(row: Row, by_id: dict[str, GraphNode], graph: PlanGraph, locale: str) -> str:
    if row.key is None:
        return row.text
    node = by_id[row.key]
    return f"{row.text.replace('●', mark_of(node))} {_label(node, graph, locale)}"


def _label(node: GraphNode, graph: PlanGraph, locale: str) -> str:
    star = "*" if node.id in _chain(graph) else ""
    worker = one_line(worker_name(node))
    facts = ", ".join(_facts_of_node(node, graph, locale))
    return f"{one_line(node.id)}{star} [{facts}] {worker}: {one_line(node.description, 300)}"


def _facts_of_node(node: GraphNode, graph: PlanGraph, locale: str) -> Iterator[str]:
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
            yield fitted(f"  {mark_of(node)} {_label(node, graph, locale)}", width)
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
    return f"{mark_of(node)} {', '.join(_facts_of_node(node, graph, locale))}"


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


# A plan under way as the last lines of a terminal: how far it is, and where each subtask stands.
#
# Lines lead from each subtask to those that wait for it. Where there is no room for that, the
# subtasks stand in a list; of a list too long, what runs or waits for a person is shown first.
# Every line fits the width, and states are marks and words, so that no colour is needed.

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
_BAR_OF_PLAN = 20
_ROOMY = 60
"""Cells from which on there is place for who does it."""


def board_lines(
    graph: PlanGraph,
    *,
    width: int,
    height: int,
    locale: str,
    since: float = 0.0,
    windows: Mapping[str, str] = MappingProxyType({}),
) -> list[Text]:
    """The plan in at most so many lines of at most so many cells.

    Args:
        since: Seconds that have passed since the graph was drawn up.
        windows: How full the model's window is, of each subtask of which that is known.
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
            facts = (
                *_worker(node, width),
                *awaited,
                *_facts_of_run(node, graph.as_of, locale, since),
                *([windows[node.id]] if _is_open(node) and node.id in windows else ()),
            )
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
    return _Row(text if node is None else text.replace("●", mark_of(node)), node, is_drawn=True)


def _listed(nodes: Sequence[GraphNode], room: int) -> list[_Row]:
    return [_Row(mark_of(node), node) for node in _weightiest(nodes, room)]


def _head(graph: PlanGraph, width: int, locale: str) -> Text:
    total = len(graph.nodes)
    done = len(_over(graph.nodes))
    full = _BAR_OF_PLAN * done // total if total else 0
    text = Text(f"{done}/{total} ", style="bold")
    text.append("━" * full, style="green").append("─" * (_BAR_OF_PLAN - full), style="dim")
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


def _facts_of_run(node: GraphNode, as_of: datetime, locale: str, since: float) -> Iterator[str]:
    if node.status not in (_S.PENDING, _S.COMPLETED, _S.RUNNING):
        yield state_of(node, locale)
    if node.started_at is not None and node.status is not _S.PENDING:
        took = elapsed(node.started_at, node.finished_at or as_of)
        yield duration(took + (0.0 if node.finished_at else since), locale)
    if node.attempt > 1:
        yield say("graph_attempt", locale, attempt=node.attempt)


def _is_open(node: GraphNode) -> bool:
    return node.status in (_S.RUNNING, _S.WAITING_APPROVAL)


def _worker(node: GraphNode, width: int) -> Iterator[str]:
    if width >= _ROOMY:
        yield fitted(one_line(worker_name(node)), width // 5)
