"""Where instruction files and skills are looked for, and how they are read.

Those of a workspace are read as file tools read: no link leads out, nothing but regular files, no
secrets, and nothing that a rule keeps from being read without a question. The user's own lie in
their configuration folder, which no agent writes. All of it blocks: call it from a worker thread.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.instructions import (
    FoundInstructions,
    FoundSkill,
    InstructionText,
    Source,
    always_applies,
    applies_to,
    description_of,
    front_matter,
    readable,
)
from gonogo.domain.paths import is_secret
from gonogo.workspace.files.workspace import Workspace

ROOT_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md")
NEARER_FILES = ("AGENTS.md", "CLAUDE.md")
"""Those that count in folders further down, for what lies below."""
RULES = ".cursor/rules"
SKILLS = (".agents/skills", ".claude/skills")
OWN_FILE, OWN_SKILLS = "AGENTS.md", "skills"
SKILL_FILE = "SKILL.md"

MOST_BYTES = 256 * 1024
"""Bytes of a file that is read at all."""
MOST_FOLDERS = 100
"""Folders further down that are looked into."""
_MOST_RULES, _MOST_SKILLS, _MOST_NAMES = 64, 64, 400
_SKILL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def nothing_barred(path: str) -> bool:
    """No rule keeps a file from being read."""
    del path
    return False


class SkillText(Struct, frozen=True, kw_only=True):
    """A skill as it is now; `path` is None for one of the user's own."""

    name: str
    path: str | None
    data: bytes


class InstructionReader(Struct, frozen=True, kw_only=True):
    """Reads what there is now."""

    own: Path | None = None
    """The user's own configuration folder."""
    on: bool = True
    """Off: there is nothing."""
    barred: Callable[[str], bool] = nothing_barred
    """Whether a rule forbids to read a path of a workspace, or asks."""

    def look(self, folder: Path | None, touched: Sequence[str] = ()) -> FoundInstructions:
        """What there is for work in a folder.

        Args:
            folder: The workspace; None where it is not on this machine.
            touched: The paths that an agent has touched in it.
        """
        if not self.on:
            return FoundInstructions()
        left_out: dict[str, str] = {}
        files = [*self._own_files(left_out)]
        skills = {skill.name: skill for skill in self._own_skills()}
        if folder is not None:
            look = _WorkspaceLook(Workspace(folder), self.barred, left_out)
            files += [*look.files(ROOT_FILES), *look.rules(touched), *look.nearer(touched)]
            skills = {skill.name: skill for skill in look.skills()} | skills
        # The user's own come first, and win.
        ordered = sorted(skills.values(), key=lambda skill: (skill.source != "user", skill.name))
        return FoundInstructions(
            files=tuple(files), skills=tuple(ordered[:_MOST_SKILLS]), left_out=left_out
        )

    def skill(self, workspace: Workspace, name: str) -> SkillText:
        """One skill, the user's own before those of the workspace.

        Raises:
            ToolFailed: `skill_not_found`, or why it cannot be read.
        """
        if not self.on or not _SKILL.fullmatch(name):
            raise ToolFailed("skill_not_found", "There is no skill {name!a}", name=name)
        if self.own is not None:
            data = _own_bytes(self.own / OWN_SKILLS / name / SKILL_FILE)
            if isinstance(data, bytes):
                return SkillText(name=name, path=None, data=data)
        for folder in SKILLS:
            path = f"{folder}/{name}/{SKILL_FILE}"
            try:
                return SkillText(name=name, **_skill_file(workspace, path))
            except ToolFailed as failure:
                if failure.kind != "file_not_found":
                    raise
        raise ToolFailed("skill_not_found", "There is no skill {name!a}", name=name)

    def _own_files(self, left_out: dict[str, str]) -> Iterator[InstructionText]:
        data = _own_bytes(self.own / OWN_FILE) if self.own is not None else None
        if isinstance(data, bytes):
            yield _found("user", OWN_FILE, data)
        elif data is not None:
            left_out[str(self.own and self.own / OWN_FILE)] = data

    def _own_skills(self) -> Iterator[FoundSkill]:
        folder = self.own and self.own / OWN_SKILLS
        try:
            names = sorted(each.name for each in folder.iterdir()) if folder is not None else []
        except OSError:
            return
        for name in filter(_SKILL.fullmatch, names):
            data = _own_bytes(self.own / OWN_SKILLS / name / SKILL_FILE) if self.own else None
            if isinstance(data, bytes):
                yield _skill(name, "user", f"{OWN_SKILLS}/{name}/{SKILL_FILE}", data)


def _skill_file(workspace: Workspace, path: str) -> dict[str, Any]:
    real = workspace.real_file(path)
    # A link that came since the call was judged leads to no other kind of file.
    if posixpath.basename(real) != SKILL_FILE or is_secret(real):
        raise ToolFailed(
            "symlink_escape", "{path!r} is a link to a file that is not a skill", path=path
        )
    return {"path": real, "data": workspace.read(real, limit=MOST_BYTES, follow=False)}


def _own_bytes(path: Path) -> bytes | str | None:
    """A file of the user's own; or why it is not read; None: there is none."""
    try:
        if not path.is_file():
            return because("it is not a regular file") if path.exists() else None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return error.strerror or because("it cannot be read")
    if len(data) > MOST_BYTES:
        return because("it has more than {most} bytes", most=MOST_BYTES)
    return data


class _WorkspaceLook:
    """One look at a workspace; what is there and not read is noted."""

    def __init__(
        self, workspace: Workspace, barred: Callable[[str], bool], left_out: dict[str, str]
    ) -> None:
        self._workspace, self._barred, self._left_out = workspace, barred, left_out

    def files(self, paths: Iterable[str]) -> Iterator[InstructionText]:
        """Those of the files that are there."""
        for path in paths:
            if (data := self._bytes(path)) is not None:
                yield _found("repository", path, data)

    def nearer(self, touched: Sequence[str]) -> Iterator[InstructionText]:
        """Those further down, on the way to what was touched; from the top down."""
        there = (folder for folder in _names_on_the_way(touched) if self._is_folder(folder))
        found = islice(there, MOST_FOLDERS)
        return self.files(f"{folder}/{name}" for folder in found for name in NEARER_FILES)

    def rules(self, touched: Sequence[str]) -> Iterator[InstructionText]:
        """The rules of an editor: for every task, for files that were touched, or to be read."""
        found = (path for path in self._below(RULES, depth=4) if path.endswith(".mdc"))
        for path in islice(found, _MOST_RULES):
            if (data := self._bytes(path)) is None:
                continue
            fields, _ = front_matter(readable(data))
            about = description_of(fields)
            if always_applies(fields) or applies_to(fields, touched):
                yield _found("repository", path, data)
            elif about:
                yield _found("repository", path, data, offered=about)

    def skills(self) -> Iterator[FoundSkill]:
        """The skills of the workspace; of two with one name the first."""
        seen = set[str]()
        for folder in SKILLS:
            for place in self._below(folder, depth=1):
                name, path = posixpath.basename(place), f"{place}/{SKILL_FILE}"
                if name in seen or not _SKILL.fullmatch(name):
                    continue
                if (data := self._bytes(path)) is not None:
                    seen.add(name)
                    yield _skill(name, "repository", path, data)

    def _is_folder(self, path: str) -> bool:
        try:
            found = self._workspace.stat(path)
        except ToolFailed:
            return False
        return found is not None and found.kind == "folder"

    def _is_there(self, path: str) -> bool:
        """Whether there is anything to look at: before each request to a model, mostly not."""
        return os.path.lexists(self._workspace.root / path)

    def _below(self, folder: str, *, depth: int) -> list[str]:
        if not self._is_there(folder):
            return []
        try:
            found = self._workspace.list(folder, depth=depth, limit=500)
        except ToolFailed:
            return []
        return [entry.path for entry in found.entries]

    def _bytes(self, path: str) -> bytes | None:
        if not self._is_there(path):
            return None
        try:
            real = self._workspace.real_file(path)
            if is_secret(real) or self._barred(real) or self._barred(path):
                self._left_out[path] = because("only a person can allow reading it")
                return None
            return self._workspace.read(real, limit=MOST_BYTES, follow=False)
        except ToolFailed as failure:
            if failure.kind != "file_not_found":
                self._left_out[path] = failure.said
            return None


def _names_on_the_way(touched: Sequence[str]) -> list[str]:
    """What stands on the way to paths, and they themselves, each once, as they were touched."""
    found: dict[str, None] = {}
    for path in touched:
        names = path.split("/")
        found |= {"/".join(names[: n + 1]): None for n in range(len(names))}
        if len(found) > _MOST_NAMES:
            break
    return [name for name in found if name not in ("", ".")][:_MOST_NAMES]


def _found(source: Source, path: str, data: bytes, *, offered: str = "") -> InstructionText:
    text = readable(data)
    if path.endswith(".mdc"):
        text = front_matter(text)[1].strip("\n")
    return InstructionText(
        source=source, path=path, sha256=content_hash(data).removeprefix("sha256:"),
        size=len(data), text=text, offered=offered,
    )  # fmt: skip


def _skill(name: str, source: Source, path: str, data: bytes) -> FoundSkill:
    about = description_of(front_matter(readable(data))[0])
    return FoundSkill(name=name, source=source, path=path, description=about)
