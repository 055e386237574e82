r"""Plans as Markdown: a heading a subtask, its description as text, its fields as a list.

Text is shown by the rule of `gonogo.domain.text_safety`, and so are blanks at its ends and at the
ends of its lines, which editors may drop. A line of a description that would be read as a heading,
a comment or a field has a backslash before it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct, field

from gonogo.cli.plan_file.text import FIELDS, MAX_TEXT, Flaw, Form, ReadPlan, WrittenSubtask
from gonogo.domain.errors import GonogoError
from gonogo.domain.plan import RetryPolicy, Scope, Subtask
from gonogo.domain.strict_json import loads
from gonogo.domain.text_safety import unescaped, visible, visible_json
from gonogo.i18n import say

_NAMES = tuple(name for name in FIELDS if name != "description")
_LISTS = frozenset({"dependencies", "tools", "paths", "commands", "network", "on"})
_NESTED = {"scope": tuple(Scope.model_fields), "retry_policy": tuple(RetryPolicy.model_fields)}
_ALWAYS = frozenset({"estimated_time"})
"""Shown even where it is what is taken without it."""
_LONGEST_LINE = 80
_EMPTY, _EMPTY_SAID = '""', '\\x22"'
"""A text without a character; and the text that looks like it."""

_BLANKS_AT_ENDS = re.compile(r"(\A[ \t\n]+|[ \t\n]+\Z|[ \t]+(?=\n))")
_FIELD = re.compile(r"[-*+][ \t]+([A-Za-z_]+)[ \t]*:(?:[ \t]+(.*)|[ \t]*)\Z", re.DOTALL)
_CHILD = re.compile(r"[ \t]+" + _FIELD.pattern, re.DOTALL)
_HEADING = re.compile(r"##(?!#)(.*)\Z", re.DOTALL)
_KEPT = re.compile(r"\\+(?=[#<*+-])")
_FENCE = re.compile(r"[ \t]*(```|~~~)")


def write(goal: str, subtasks: Sequence[Subtask]) -> str:
    """A plan's goal as the title, and a section for each subtask."""
    sections = ("\n".join(_section(subtask)) for subtask in subtasks)
    return "\n".join([f"# {_value(goal)}", "", *sections])


def read(text: str, locale: str) -> ReadPlan:
    """Read what stands in a text, in whatever order the fields of a subtask are."""
    if len(text) > MAX_TEXT:
        return ReadPlan(flaws=[Flaw(0, say("cli_plan_too_large", locale, most=MAX_TEXT))])
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    sections = _Sections(locale)
    for number, line in _without_comments(lines, sections):
        sections.take(number, line)
    items = [item.written() for item in sections.found]
    flaws = [*sections.flaws, *(flaw for item in sections.found for flaw in item.flaws)]
    return ReadPlan(goal=sections.goal, items=items, flaws=flaws)


def comment(text: str) -> str:
    """A line that is not read."""
    return f"<!-- {text.replace('-->', '-- >')} -->"


def block(text: str) -> str:
    """Several lines that are not read."""
    return f"<!--\n{text}\n-->\n\n"


MARKDOWN = Form(name="markdown", suffix=".md", write=write, read=read, comment=comment, block=block)


# Writing -----------------------------------------------------------------------------------------


def _section(subtask: Subtask) -> Iterator[str]:
    yield f"## {subtask.id}"
    yield ""
    yield from (_as_text(line) for line in _shown(subtask.description).split("\n"))
    yield ""
    given = subtask.model_dump(mode="json", exclude_defaults=True)
    for name in _NAMES:
        if name in given or name in _ALWAYS:
            yield from _field(name, given.get(name, getattr(subtask, name)))
    yield ""


def _field(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if name == "inputs":
        yield from _inputs(value)
    elif name in _NESTED and value:
        yield f"- {name}:"
        yield from (f"  - {key}: {_of(key, each)}" for key, each in value.items())
    else:
        yield f"- {name}: {_of(name, value)}"


def _inputs(value: dict[str, Any]) -> Iterator[str]:
    short = visible_json(value)
    if len(short) <= _LONGEST_LINE:
        yield f"- inputs: {short}"
        return
    yield "- inputs:"
    yield "  ```json"
    yield from (f"  {line}" for line in visible_json(value, indent=2).split("\n"))
    yield "  ```"


def _of(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list):
        return _list([str(item) for item in cast("list[object]", value)])
    return _value(value) if isinstance(value, str) else visible_json(value)


def _list(items: list[str]) -> str:
    shown = ", ".join(map(_shown_in_line, items))
    plain = all(item and "," not in item for item in items) and items
    if plain and not shown.startswith("[") and shown not in {"true", "false"}:
        return shown
    return visible_json(items)


def _value(text: str) -> str:
    if not text:
        return _EMPTY
    shown = _shown_in_line(text)
    return _EMPTY_SAID if shown == _EMPTY else shown


def _shown_in_line(text: str) -> str:
    return _shown(text, lines=False)


def _shown(text: str, *, lines: bool = True) -> str:
    """`visible`, with the blanks shown as escapes that an editor or a reader would drop."""
    parts = _BLANKS_AT_ENDS.split(text)
    shown = ""
    for place, part in enumerate(parts):
        if place % 2:
            shown += "".join(f"\\x{ord(character):02x}" for character in part)
            continue
        shown += visible(part, lines=lines)
        if place + 1 < len(parts):
            # Before an escape, backslashes that are meant as such are doubled.
            shown += "\\" * (len(part) - len(part.rstrip("\\")))
    return shown


def _as_text(line: str) -> str:
    return "\\" + line if _is_structure(line.lstrip("\\")) else line


def _is_structure(line: str) -> bool:
    return line.startswith("<!--") or bool(_HEADING.match(line)) or _is_field(line)


def _is_field(line: str) -> bool:
    found = _FIELD.match(line)
    return found is not None and found[1].lower() in _NAMES


# Reading -----------------------------------------------------------------------------------------


class _Sections:
    """The subtasks, as the lines of a text come."""

    def __init__(self, locale: str) -> None:
        self.locale = locale
        self.goal: str | None = None
        self.found: list[_Section] = []
        self.flaws: list[Flaw] = []

    def take(self, number: int, line: str) -> None:
        heading = _HEADING.match(line)
        inside = bool(self.found) and self.found[-1].in_fence
        if heading and not inside:
            self.found.append(_Section(heading[1].strip(), number, self.locale))
        elif self.found:
            self.found[-1].take(number, line)
        elif line.startswith("# ") and self.goal is None:
            said = line[2:].strip()
            self.goal = "" if said == _EMPTY else unescaped(said)
        elif line.strip():
            self.flaws.append(Flaw(number, say("cli_plan_no_subtask", self.locale)))


class _Section(Struct):
    """What stands below one heading."""

    id: str
    line: int
    locale: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    flaws: list[Flaw] = field(default_factory=list[Flaw])
    _text: list[str] = field(default_factory=list[str])
    _raw: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, list[tuple[int, str]]])
    """By field, its lines."""
    _open: str | None = None
    """The field that the line before belongs to."""
    in_fence: bool = False
    """Inside a block of code that belongs to a field."""

    def take(self, number: int, line: str) -> None:
        if self._open and self._goes_on(line):
            self._raw[self._open].append((number, line))
            return
        found = _FIELD.match(line)
        if found and (found[1].lower() in _NAMES or self._open):
            self._begin(number, found[1].lower(), (found[2] or "").strip())
            return
        self._open = None
        self._text.append(line)

    def written(self) -> WrittenSubtask:
        """All that was taken in, as the fields of a subtask."""
        for name in filter(self._raw.__contains__, _NAMES):
            self._value(name, self._raw[name])
        description = _text_of(self._text)
        if description:
            self.fields["description"] = description
        return WrittenSubtask(
            fields={"id": self.id, **self.fields}, line=self.line, lines=self.lines
        )

    def _begin(self, number: int, name: str, value: str) -> None:
        if name not in _NAMES:
            fields = ", ".join(_NAMES)
            self._flaw(number, "cli_plan_unknown_field", name=name, fields=fields)
        elif name in self.lines:
            self._flaw(number, "cli_plan_twice", name=name)
        self._open = name
        self.lines.setdefault(name, number)
        self._raw.setdefault(name, []).append((number, value))

    def _goes_on(self, line: str) -> bool:
        """Whether a line belongs to the field before it: it is indented, or inside its code."""
        fence = _FENCE.match(line)
        if self.in_fence or (fence and self._open == "inputs"):
            self.in_fence = self.in_fence != bool(fence)
            return True
        return bool(line.strip()) and line[0] in " \t"

    def _value(self, name: str, lines: list[tuple[int, str]]) -> None:
        (number, first), *more = lines
        if name in _NESTED:
            self._nested(name, number, first, more)
            return
        if name == "inputs":
            code = [first, *(line for _, line in more if not _FENCE.match(line))]
            self._json(name, number, "\n".join(code).strip())
            return
        text = " ".join([first, *(line.strip() for _, line in more)]).strip()
        self._put(self.fields, name, number, text)

    def _nested(self, name: str, number: int, first: str, more: Iterable[tuple[int, str]]) -> None:
        if first:
            self._json(name, number, first)
            return
        inner: dict[str, Any] = {}
        for place, line in more:
            found = _CHILD.match(line)
            if not found or found[1].lower() not in _NESTED[name]:
                fields = ", ".join(_NESTED[name])
                self._flaw(place, "cli_plan_no_part", name=name, fields=fields)
            elif found[1].lower() in inner:
                self._flaw(place, "cli_plan_twice", name=found[1].lower())
            else:
                self._put(inner, found[1].lower(), place, (found[2] or "").strip())
        if inner:
            self.fields[name] = inner
        else:
            self._flaw(number, "cli_plan_empty_part", name=name)

    def _json(self, name: str, number: int, text: str) -> None:
        if not text:
            return
        try:
            self.fields[name] = loads(text)
        except GonogoError as problem:
            self._flaw(number, "cli_plan_no_json", name=name, detail=problem)

    def _put(self, into: dict[str, Any], name: str, number: int, text: str) -> None:
        """Keep a value that stands in one line; without one, the field is left out."""
        if not text:
            return
        if name in _LISTS and text.startswith("["):
            try:
                into[name] = cast("object", loads(text))
            except GonogoError as problem:
                self._flaw(number, "cli_plan_no_json", name=name, detail=problem)
        elif name == "network" and text.lower() in {"true", "false"}:
            into[name] = text.lower() == "true"
        elif name in _LISTS:
            into[name] = [unescaped(item.strip()) for item in text.split(",") if item.strip()]
        else:
            into[name] = "" if text == _EMPTY else unescaped(text)

    def _flaw(self, number: int, key: str, **fields: object) -> None:
        self.flaws.append(Flaw(number, say(key, self.locale, **fields)))


def _text_of(lines: Sequence[str]) -> str:
    kept = [_plain(line.rstrip()) for line in lines]
    while kept and not kept[0]:
        kept.pop(0)
    while kept and not kept[-1]:
        kept.pop()
    return unescaped("\n".join(kept))


def _plain(line: str) -> str:
    if _KEPT.match(line) and _is_structure(line.lstrip("\\")):
        return line[1:]
    return line


def _without_comments(lines: Sequence[str], sections: _Sections) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; a comment begins a line, and ends wherever it ends."""
    begun = 0
    for number, line in enumerate(lines, start=1):
        if not begun and line.startswith("<!--"):
            begun = number
        if not begun:
            yield number, line
        elif "-->" in line:
            rest = line.partition("-->")[2]
            begun = 0
            if rest.strip():
                yield number, rest
    if begun:
        sections.flaws.append(Flaw(begun, say("cli_plan_open_comment", sections.locale)))
