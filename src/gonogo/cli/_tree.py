"""Plans drawn as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from gonogo.cli._escape import indented, json_line, one_line
from gonogo.domain.plan import worker_name
from gonogo.domain.plan_views import SubtaskView

MARKS = {
    "pending": "○",
    "running": "▶",
    "waiting_approval": "?",
    "completed": "✓",
    "failed": "✗",
    "skipped": "↷",
    "cancelled": "■",
}
"""How a state looks beside a subtask."""

Node = Mapping[str, Any]


def plan_lines(subtasks: Sequence[Node]) -> Iterator[str]:
    """One subtask after the other, whole, with what it may touch and how it went."""
    for number, subtask in enumerate(subtasks, start=1):
        yield f"{number:>3}. {_headline(subtask)}"
        yield f"     {_facts(subtask)}"
        if allowed := scope_line(subtask):
            yield f"     allowed: {allowed}"
        for name, value in _rules(subtask):
            yield f"     {name}: {value}"
        if outcome := _outcome(subtask):
            yield f"     {outcome}"


def _rules(subtask: Node) -> Iterator[tuple[str, str]]:
    """What else decides what will run."""
    named = ("condition", "inputs", "after_skipped", "on_reject", "retry_policy", "timeout")
    for name in named:
        value = subtask.get(name)
        if value is not None:
            yield name, json_line(value, None)


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


def scope_line(subtask: Node) -> str:
    """What a subtask may do without a question, in a few words."""
    scope: Node = subtask.get("scope") or {}
    agent = subtask.get("agent")
    parts: list[str] = []
    if agent or subtask.get("tool"):
        parts.append(_declared("files", scope.get("paths"), "files anywhere in the workspace"))
    if scope.get("commands"):
        parts.append(_declared("commands", scope["commands"], ""))
    if agent:
        parts.append(_declared("tools", scope.get("tools"), "all tools of its agent"))
    return "; ".join([*parts, *_network(scope.get("network"))])


def _declared(word: str, values: Sequence[object] | None, unsaid: str) -> str:
    if not values:
        return unsaid if values is None else f"no {word}"
    return f"{word} {', '.join(one_line(str(value), None) for value in values)}"


def _network(wanted: object) -> Iterator[str]:
    if isinstance(wanted, (list, tuple)) and wanted:
        hosts = cast("Sequence[object]", wanted)
        yield f"network {', '.join(one_line(str(host), None) for host in hosts)}"
    elif wanted:
        yield "network any public host"


def _by_depth(nodes: Sequence[Node], depth: Mapping[str, int]) -> list[list[Node]]:
    levels = range(max(depth.values(), default=-1) + 1)
    return [[n for n in nodes if depth.get(n["id"]) == level] for level in levels]


def _headline(node: Node) -> str:
    mark = MARKS.get(str(node.get("status")), "·")
    return f"{mark} {one_line(node['id'])}: {indented(node['description'], ' ' * 7)}"


def _facts(subtask: Node) -> str:
    named = {name: subtask.get(name) for name in ("agent", "tool", "inputs")}
    view = SubtaskView.model_construct(type=subtask.get("type", "action"), **named)
    parts = [one_line(worker_name(view)), one_line(str(subtask.get("estimated_time", "")))]
    if subtask.get("dependencies"):
        parts.append("after " + ", ".join(map(one_line, subtask["dependencies"])))
    return " · ".join(part for part in parts if part)


def _outcome(subtask: Node) -> str:
    if error := subtask.get("error"):
        return f"error: {one_line(str(error.get('message', error)), 300)}"
    if (result := subtask.get("result")) is not None:
        said = cast("Node", result).get("output", result) if isinstance(result, dict) else result
        return f"result: {json_line(said, 300)}"
    return one_line(str(subtask.get("reason") or ""), 300)
