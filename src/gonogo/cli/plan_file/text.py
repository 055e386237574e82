"""A plan as a text that a person edits: what was read of it, what is wrong with it, and where.

How it is written and read is in `yaml`: what was written and nobody changed is read back as exactly
the same subtasks. Nothing here looks at files or at a server.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from pydantic import ValidationError

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.plan import MAX_SUBTASKS, Subtask, check_graph
from gonogo.domain.text_safety import visible
from gonogo.i18n import say

MAX_TEXT = 8 * 1024 * 1024
"""Characters; the largest plan that the wire takes is far below."""


class Flaw(Struct, frozen=True):
    """Something to tell of a text, at one of its lines; 0 is the whole text."""

    line: int
    message: str


class WrittenSubtask(Struct, frozen=True, kw_only=True):
    """One subtask as a person wrote it."""

    fields: Mapping[str, Any]
    line: int
    """Where it begins; lines count from 1."""
    lines: Mapping[str, int]
    """Where each field stands; one that is not named, where the subtask begins."""


class ReadPlan(Struct, frozen=True, kw_only=True):
    """What was read of a text."""

    goal: str | None = None
    items: list[WrittenSubtask] = field(default_factory=list[WrittenSubtask])
    flaws: list[Flaw] = field(default_factory=list[Flaw])

    def line_of(self, subtask_id: str | None) -> int:
        """Where a subtask begins; 0 where there is none of that id."""
        return next((i.line for i in self.items if i.fields.get("id") == subtask_id), 0)


def subtasks_of(reading: ReadPlan, goal: str, locale: str) -> tuple[Subtask, ...]:
    """The subtasks that were read. What is wrong with them is added to the reading's flaws.

    Args:
        goal: What the plan is for; an edit leaves it as it is.
    """
    flaws = reading.flaws
    if reading.goal is not None and reading.goal != goal:
        flaws.append(Flaw(0, say("cli_plan_goal", locale)))
    if not reading.items and not flaws:
        flaws.append(Flaw(0, say("cli_plan_empty", locale)))
    if len(reading.items) > MAX_SUBTASKS:
        flaws.append(Flaw(0, say("cli_plan_too_many", locale, most=MAX_SUBTASKS)))
    found = [each for item in reading.items if (each := _subtask(item, flaws, locale))]
    if flaws:
        return ()
    try:
        check_graph(found)
    except InvalidPlan as defect:
        flaws.append(Flaw(reading.line_of(defect.subtask_id), str(defect)))
    return tuple(found)


def as_json(subtasks: Iterable[Subtask]) -> list[dict[str, Any]]:
    """Subtasks as the wire has them."""
    return [subtask.model_dump(mode="json", exclude_none=True) for subtask in subtasks]


def marked(
    text: str, notes: Sequence[Flaw], comment: Callable[[str], str], *around: str
) -> tuple[str, list[str]]:
    """The text with notes as comments: all at its top with their lines, and each at its place.

    Gives the lines that were added, too, so that `unmarked` can take them out again.

    Args:
        around: What stands before the notes at the top, and after them.
    """
    lines = text.split("\n")
    places = sorted({note.line for note in notes if note.line})
    top = len(notes) + len(around)
    beside = {note.line: list[str]() for note in notes}
    said: list[str] = []
    for note in notes:
        shown = visible(note.message, lines=False)
        beside[note.line].append(comment(f"! {shown}"))
        # What is added above a line: the top, and the notes at lines before it and at itself.
        above = sum(other.line <= note.line for other in notes if other.line)
        where = f"{note.line + top + above}: " if note.line else ""
        said.append(comment(f"! {where}{shown}"))
    added = [*map(comment, around[:1]), *said, *map(comment, around[1:])]
    for place in reversed(places):
        lines[place - 1 : place - 1] = beside[place]
    inserted = [each for place in places for each in beside[place]]
    return "\n".join([*added, *lines]), [*added, *inserted]


def unmarked(text: str, added: Iterable[str]) -> str:
    """The text without lines that were added; one that the person changed stays."""
    left = list(added)
    kept: list[str] = []
    for line in text.split("\n"):
        if line.rstrip("\r") in left:
            left.remove(line.rstrip("\r"))
        else:
            kept.append(line)
    return "\n".join(kept)


def _subtask(item: WrittenSubtask, flaws: list[Flaw], locale: str) -> Subtask | None:
    try:
        return Subtask.model_validate(item.fields)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in each["loc"])
            line = item.lines.get(str(each["loc"][0]) if each["loc"] else "", item.line)
            flaws.append(Flaw(line, _said(each["type"], name, each["msg"], locale)))
        return None


def _said(kind: str, name: str, message: str, locale: str) -> str:
    if kind == "extra_forbidden":
        return say("cli_plan_unknown_field", locale, name=name, fields=", ".join(FIELDS))
    return f"{name}: {message}"


FIELDS = tuple(name for name in Subtask.model_fields if name != "id")
