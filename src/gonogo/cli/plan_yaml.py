"""Plans as YAML: what JSON can say, in YAML's clothes.

Plain words are text unless they are a number, `true`, `false` or `null` as in JSON; so `no` and
`2024-01-01` are what they look like. Anchors, aliases, tags and keys that stand twice are refused.
A character that could deceive stands in a double-quoted text, as YAML's own escape.
"""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from gonogo.cli.plan_file import MAX_TEXT, Flaw, ReadPlan, WrittenSubtask
from gonogo.domain.base import MAX_DEPTH, loads
from gonogo.domain.errors import GonogoError
from gonogo.domain.plan import MAX_SUBTASKS, Subtask, Worker, worker_of
from gonogo.domain.text_safety import guarded
from gonogo.i18n import say

_untyped: Any = yaml
_LOADER = getattr(_untyped, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = frozenset({"true", "false", "null"})
_NOTHING = frozenset({"", "~"})
_ENDLESS = 1 << 30
_MOST_EVENTS = 400 * MAX_SUBTASKS
"""Words and brackets of a text; more would take minutes, and no plan has as many."""
_NO_TEXT = re.compile("[\ud800-\udfff\x00]")
"""What no text may hold: half a character, or NUL; YAML can write both."""


class _Refused(Exception):
    """Something that is not read; the line and the key of what is said of it."""

    def __init__(self, line: int, key: str, **fields: object) -> None:
        super().__init__(key)
        self.line, self.key, self.fields = line, key, fields


class _Dumper(yaml.SafeDumper):
    """Writes what `read` reads."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401 - any value
        """Write a value that stands twice twice."""
        del data
        return True


def write(goal: str, subtasks: Sequence[Subtask]) -> str:
    """A plan's goal and its subtasks, without what is taken for granted."""
    listed = [
        {"id": subtask.id, "description": subtask.description, **_fields(subtask)}
        for subtask in subtasks
    ]
    text = yaml.dump(
        {"goal": goal, "subtasks": listed}, Dumper=_Dumper, sort_keys=False, allow_unicode=True,
        width=_ENDLESS, indent=2,
    )  # fmt: skip
    return guarded(text)


def read(text: str, locale: str) -> ReadPlan:
    """Read what stands in a text: a list of subtasks, or an object that has one."""
    reading = ReadPlan()
    try:
        _check(text)
        root: yaml.Node | None = _untyped.compose(text, Loader=_LOADER)
        goal, nodes = _top(root)
        items = [_written(node) for node in nodes]
    except _Refused as refused:
        reading.flaws.append(Flaw(refused.line, say(refused.key, locale, **refused.fields)))
        return reading
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        said = say("cli_plan_no_yaml", locale, detail=error.problem or error.context or "?")
        reading.flaws.append(Flaw(line, said))
        return reading
    except yaml.YAMLError as error:
        said = say("cli_plan_no_yaml", locale, detail=str(error).splitlines()[0])
        reading.flaws.append(Flaw(0, said))
        return reading
    return ReadPlan(goal=goal, items=items)


def comment(text: str) -> str:
    """A line that is not read."""
    return f"# {text}"


def block(text: str) -> str:
    """Several lines that are not read."""
    return "\n".join(map(comment, text.split("\n"))) + "\n\n"


def _fields(subtask: Subtask) -> dict[str, Any]:
    given = subtask.model_dump(mode="json", exclude_defaults=True)
    for name in ("id", "description"):
        given.pop(name)
    given.setdefault("estimated_time", subtask.estimated_time)
    if worker_of(subtask) is Worker.NOBODY:
        # Else it would read like one whose agent was forgotten.
        given.setdefault("type", subtask.type)
    return given


def _shown(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if guarded(text) != text:
        style = '"'
    elif "\n" in text:
        style = "|"
    elif _NUMBER.fullmatch(text):
        style = "'"
    untyped: Any = dumper
    return untyped.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _shown)


def _check(text: str) -> None:
    """Refuse what could grow, or mean something else to another reader, before it is built."""
    if len(text) > MAX_TEXT:
        raise _Refused(0, "cli_plan_too_large", count=MAX_TEXT)
    depth = 0
    for count, event in enumerate(_untyped.parse(text, Loader=_LOADER)):
        line = event.start_mark.line + 1
        if count > _MOST_EVENTS:
            raise _Refused(line, "cli_plan_too_many", count=MAX_SUBTASKS)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(line, "cli_plan_anchor")
        if getattr(event, "tag", None):
            raise _Refused(line, "cli_plan_tag")
        depth += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
        depth -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if depth > MAX_DEPTH:
            raise _Refused(line, "cli_plan_deep", count=MAX_DEPTH)


_FIELDS = ("goal", "subtasks")


def _top(root: yaml.Node | None) -> tuple[str | None, list[yaml.Node]]:
    if root is None:
        return None, []
    if isinstance(root, yaml.SequenceNode):
        return None, list(root.value)
    if not isinstance(root, yaml.MappingNode):
        raise _Refused(_line(root), "cli_plan_shape")
    parts = _parts(root)
    if strange := parts.keys() - {*_FIELDS}:
        key = next(key for key, _ in root.value if key.value in strange)
        fields = ", ".join(_FIELDS)
        raise _Refused(_line(key), "cli_plan_unknown_field", name=key.value, fields=fields)
    listed = parts.get("subtasks")
    if listed is not None and not isinstance(listed, yaml.SequenceNode):
        raise _Refused(_line(listed), "cli_plan_shape")
    goal = _value(parts["goal"]) if "goal" in parts else None
    if goal is not None and not isinstance(goal, str):
        raise _Refused(_line(parts["goal"]), "cli_plan_goal_text")
    return goal, list(listed.value) if listed else []


def _written(node: yaml.Node) -> WrittenSubtask:
    if not isinstance(node, yaml.MappingNode):
        raise _Refused(_line(node), "cli_plan_shape")
    parts = _parts(node)
    return WrittenSubtask(
        fields={name: _value(part) for name, part in parts.items()}, line=_line(node),
        lines={name: _line(part) for name, part in parts.items()},
    )  # fmt: skip


def _parts(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _value(key) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(name, str):
            raise _Refused(_line(key), "cli_plan_key")
        if name in found:
            raise _Refused(_line(key), "cli_plan_twice", name=name)
        found[name] = value
    return found


def _value(node: yaml.Node) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, yaml.MappingNode):
        return {name: _value(part) for name, part in _parts(node).items()}
    if isinstance(node, yaml.SequenceNode):
        return [_value(part) for part in node.value]
    text = str(node.value)
    if _NO_TEXT.search(text):
        raise _Refused(_line(node), "cli_plan_no_text")
    if getattr(node, "style", None) or not (
        text in _WORDS or text in _NOTHING or _NUMBER.fullmatch(text)
    ):
        return text
    try:
        return None if text in _NOTHING else loads(text)
    except GonogoError as problem:
        raise _Refused(_line(node), "cli_plan_no_yaml", detail=problem) from None


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
