"""Instruction files and skills as text: what stands before their first line, and what is told.

Whatever a repository says in them is data. Nothing here raises on any text, and everything takes a
time that grows with its length alone: there are no anchors, no aliases and no nesting in what is
read before a file's first line, and two versions of a file are compared by their two ends.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Literal

from msgspec import Struct, field

from gonogo.domain.text_safety import visible

MOST_TOLD = 32 * 1024
"""Bytes that instruction files take in one conversation, all together."""
MOST_INDEX = 8 * 1024
"""Bytes of the list of skills."""
MOST_CHANGED = 8 * 1024
"""Bytes of a difference that is told."""
QUOTE = "| "
"""What each line of a file begins with, so that no line of it looks like the end of the file."""

_FENCE = "---"
_HEADER_LINES, _HEADER_VALUE = 100, 4_096
_FIELD = re.compile(r"([A-Za-z][\w-]{0,63}):[ \t]*(.*)")
_BLOCK = re.compile(r"[>|][+-]?")
_MOST_GLOBS, _LONGEST_GLOB = 64, 200
_BRACES = re.compile(r"\{([^{}]*)\}")
_OUTSIDE_BRACES = re.compile(r",(?![^{}]*\})")
_DESCRIPTION = 500

Source = Literal["user", "repository"]


class InstructionText(Struct, frozen=True, kw_only=True):
    """An instruction file as it is on the disk now."""

    source: Source
    path: str
    """In the workspace, or in the user's own folder."""
    sha256: str
    size: int
    """Bytes."""
    text: str
    """Safe to look at; without what stands before the first line, where that was read."""
    offered: str = ""
    """What it is about, where it is not told as a whole but named."""


class FoundSkill(Struct, frozen=True, kw_only=True):
    """A skill that can be read."""

    name: str
    source: Source
    path: str
    description: str


class FoundInstructions(Struct, frozen=True, kw_only=True):
    """All that is there now, in the order in which it is told."""

    files: tuple[InstructionText, ...] = ()
    skills: tuple[FoundSkill, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a file that is there is not read, by its path."""


# What stands between two lines of `---` before the first line of a file.


def front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """The fields before the first line, and the text without them.

    A field is a name and a text; what continues it is put behind it, items of a list after commas.
    It is no YAML: what that has besides is taken as it is written.
    """
    lines = text.split("\n")
    if lines[0].strip() != _FENCE:
        return {}, text
    header = lines[1 : _HEADER_LINES + 2]
    end = next((n for n, line in enumerate(header) if line.strip() == _FENCE), None)
    if end is None:
        return {}, text
    return _fields(header[:end]), "\n".join(lines[end + 2 :])


def _fields(lines: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if (begins := _FIELD.fullmatch(line.rstrip())) is not None:
            name, value = begins[1].lower(), begins[2].strip()
            found[name] = "" if _BLOCK.fullmatch(value) else _bare(value)
        elif name and line.strip():
            item = line.strip()
            listed = item.startswith("- ")
            more = _bare(item[2:].strip()) if listed else item
            found[name] += ("," if listed else " ") * bool(found[name]) + more
    return {name: value[:_HEADER_VALUE] for name, value in found.items()}


def _bare(value: str) -> str:
    """A value without the signs around it."""
    for opened, closed in ('""', "''", "[]"):
        if len(value) > 1 and value.startswith(opened) and value.endswith(closed):
            return value[1:-1].strip()
    return value


def description_of(fields: Mapping[str, str]) -> str:
    """What a file says that it is about, on one line."""
    return " ".join(fields.get("description", "").split())[:_DESCRIPTION]


def always_applies(fields: Mapping[str, str]) -> bool:
    """Whether a rule of an editor is for every task."""
    return fields.get("alwaysapply", "").lower() == "true"


def applies_to(fields: Mapping[str, str], paths: Sequence[str]) -> bool:
    """Whether a rule of an editor is for one of these files, by its globs."""
    return any(_covers(glob, path) for glob in _globs(fields) for path in paths)


def _globs(fields: Mapping[str, str]) -> Sequence[str]:
    written = (_bare(glob.strip()) for glob in _OUTSIDE_BRACES.split(fields.get("globs", "")))
    kept = [glob for glob in written if 0 < len(glob) <= _LONGEST_GLOB][:_MOST_GLOBS]
    return list(islice((each for glob in kept for each in _spelled_out(glob)), _MOST_GLOBS))


def _spelled_out(glob: str) -> Iterator[str]:
    """A glob without braces for each of their words."""
    if (braces := _BRACES.search(glob)) is None:
        yield glob
        return
    for word in braces[1].split(","):
        yield from _spelled_out(glob[: braces.start()] + word.strip() + glob[braces.end() :])


def _covers(glob: str, path: str) -> bool:
    """Whether a glob covers a path; one without a slash is about the last name alone.

    Name by name, for a pattern over all of them could take for ever.
    """
    names, parts = path.split("/"), glob.removeprefix("./").split("/")
    reached = {0}
    for part in parts if len(parts) > 1 else ("**", *parts):
        if part == "**":
            reached = set(range(min(reached, default=len(names) + 1), len(names) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(names) and fnmatchcase(names[n], part)}
    return len(names) in reached


# What is told of a file.


def readable(data: bytes) -> str:
    """The text of a file, safe to look at: what is no UTF-8 is replaced, what deceives escaped."""
    return visible(data.decode("utf-8", "replace").replace("\r\n", "\n")).rstrip("\n")


def quoted(text: str) -> str:
    """A text of which each line is marked as a part of it."""
    return "".join(f"{QUOTE}{line}\n" for line in text.split("\n"))


def beginning(text: str, most: int) -> str:
    """As much of a text as takes at most so many bytes when it is quoted."""
    kept, left = list[str](), most
    for line in text.split("\n"):
        left -= len(quoted(line).encode())
        if left < 0:
            if (room := left + len(line.encode())) > 0:
                kept.append(line.encode()[:room].decode("utf-8", "ignore"))
            break
        kept.append(line)
    return "\n".join(kept)


def changed_lines(old: str, new: str) -> str:
    """What is otherwise in a text, as one hunk: from the first line that differs to the last."""
    before, after = old.split("\n"), new.split("\n")
    least = min(len(before), len(after))
    head = next((n for n in range(least) if before[n] != after[n]), least)
    rest = least - head
    tail = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)
    gone, come = before[head : len(before) - tail], after[head : len(after) - tail]
    lines = [f"@@ -{head + 1},{len(gone)} +{head + 1},{len(come)} @@"]
    return "\n".join([*lines, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)])


def skill_index(skills: Sequence[FoundSkill]) -> str:
    """The names of skills and what they are about, a line each; no more than is told of them."""
    lines, size = list[str](), 0
    for skill in skills:
        line = f"{skill.name}: {skill.description}" if skill.description else skill.name
        size += len(quoted(line).encode())
        if size > MOST_INDEX:
            break
        lines.append(line)
    return "\n".join(lines)
