"""Unified diffs: read as they were meant, applied where they fit.

A patch is plain: text hunks for files that are created, changed or deleted. Renames, copies,
modes and binary hunks are refused. What a hunk's header says is a hint: models count wrong. Its old
lines must stand in the file as they are, at the line it names or at exactly one other place, or at
one place but for white space; no line is guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from msgspec import Struct
from pydantic import Field

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.tool_calls import Access, FileEffect, ToolClass
from gonogo.tools.base import (
    Arguments,
    Bench,
    JsonObject,
    Prepared,
    Tool,
    decoded,
    difference,
    in_thread,
    with_ends,
)
from gonogo.tools.edits import differing, each_broken, landed, told
from gonogo.tools.files import encoded
from gonogo.workspace import Workspace, elsewhere

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@|@@[ .]*(?:@@)?$")
"""The second form names no line: its lines must be there once."""
_REFUSED = (
    "rename ",
    "copy ",
    "old mode",
    "new mode",
    "similarity ",
    "new file mode 12",
    "new file mode 16",
    "GIT binary",
    "Binary files",
)
_NOTHING = "/dev/null"


class Hunk(Struct, frozen=True):
    """Lines, with their line ends, that are replaced; `start` counts from 1."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


class FilePatch(Struct, frozen=True):
    """What happens to one file."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Read a patch of one or several files.

    Raises:
        ToolFailed: `invalid_arguments`, naming the line that is wrong.
    """
    reader = _PatchReader(text)
    patches: list[FilePatch] = []
    while reader.skip_preamble():
        patches.append(_file_patch(reader))
    if not patches:
        raise ToolFailed("invalid_arguments", "The patch changes nothing: it has no `---` line")
    paths = [patch.path for patch in patches]
    if len(set(paths)) != len(paths):
        raise ToolFailed("invalid_arguments", "The patch names a file twice")
    return tuple(patches)


class Landed(Struct, frozen=True):
    """A text with hunks applied, and the lines of it before that stood there but for white space.

    They are the first and last of each such place, counted from 1.
    """

    text: str
    loosely: tuple[tuple[int, int], ...] = ()


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> Landed:
    """The text with the hunks applied.

    Raises:
        ToolFailed: `not_found_in_file` or `not_unique`, naming the hunk.
    """
    lines = with_ends(text)
    result, loosely = list[str](), list[tuple[int, int]]()
    done = 0
    for hunk in hunks:
        place, new = _place(path, lines, hunk, done)
        last = place + len(hunk.old)
        if new is not hunk.new:
            loosely.append((place + 1, last))
        result += [*lines[done:place], *new]
        done = last
    return Landed("".join(result + lines[done:]), tuple(loosely))


def _place(path: str, lines: list[str], hunk: Hunk, done: int) -> tuple[int, Sequence[str]]:
    """Where a hunk begins, and its new lines as they belong there."""
    named = hunk.start - 1 if hunk.old else hunk.start
    if named >= done and _stands(lines, hunk.old, named):
        return named, hunk.new
    if not hunk.old:
        raise ToolFailed(
            "not_found_in_file",
            "{path!r} has no line {line} to add after",
            path=path,
            line=hunk.start,
        )
    places = [at for at in range(done, len(lines) + 1) if _stands(lines, hunk.old, at)]
    if len(places) > 1:
        raise ToolFailed(
            "not_unique",
            "{path!r} contains the old lines of hunk @@ -{line} at {count} places, and none is "
            "where the hunk says",
            path=path,
            line=hunk.start,
            count=len(places),
        )
    if places:
        return places[0], hunk.new
    if found := landed(lines, hunk.old, hunk.new, done):
        return found
    near = told(path, lines, hunk.old)
    raise ToolFailed(
        "not_found_in_file",
        "{path!r} does not contain the old lines of hunk @@ -{line}{near}",
        path=path,
        line=hunk.start,
        near=near,
    )


def _stands(lines: list[str], old: tuple[str, ...], at: int) -> bool:
    return at + len(old) <= len(lines) and tuple(lines[at : at + len(old)]) == old


class _PatchReader:
    """The lines of a patch, taken one by one."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if self._lines and not self._lines[-1]:
            self._lines.pop()
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def take(self) -> str:
        line = self.next
        if line is None:
            raise ToolFailed("invalid_arguments", "The patch ends in the middle of a file")
        self._at += 1
        return line

    def fail(self, fact: str) -> ToolFailed:
        return ToolFailed(
            "invalid_arguments", "Line {line} of the patch: {fact}", line=self._at, fact=fact
        )

    def skip_preamble(self) -> bool:
        """Go to the next `---` line; False when there is none."""
        announced = False
        while self.next is not None and not self.next.startswith("--- "):
            line = self.take()
            if line.startswith(_REFUSED):
                raise self.fail(
                    because("renames, copies, modes and binary files are not supported")
                )
            if line.startswith(("@@", "+++ ")):
                raise self.fail(
                    because("the `---` and `+++` lines of this hunk's file are missing")
                )
            if line.startswith("diff --git ") and announced:
                raise self.fail(because("the file before it has no hunk"))
            announced = announced or line.startswith("diff --git ")
        if announced and self.next is None:
            raise self.fail(because("the last file has no hunk"))
        return self.next is not None

    def hunk(self, old: int, new: int) -> list[str]:
        """The lines of a hunk: as many as its header counts, else those up to what comes next.

        Models count wrong, and where a hunk ends is plain all the same.

        Raises:
            ToolFailed: `invalid_arguments` for lines that belong to nothing.
        """
        counted = self._counted(old, new)
        end = self._look_for_end() if counted is None else counted
        lines = self._lines[self._at : end]
        self._at = end
        if not lines:
            raise ToolFailed("invalid_arguments", "The patch ends in the middle of a file")
        if counted is None and old and not any(line[:1] in _OLD for line in lines):
            raise self.fail(because("no line of this hunk says where in the file it belongs"))
        return lines

    def _counted(self, old: int, new: int) -> int | None:
        """The index behind the lines that a header counts; None where they are not those."""
        at = self._at
        while at < len(self._lines) and (old or new or self._lines[at].startswith("\\")):
            mark = self._lines[at][:1]
            old -= mark in _OLD
            new -= mark in _NEW
            at += 1
            if old < 0 or new < 0 or mark not in _MARKS:
                return None
        after = "".join(self._lines[at : at + 1])
        is_more = after.startswith((" ", "+", "-")) and not after.startswith(("--- ", "-- "))
        return None if old or new or is_more else at

    def _look_for_end(self) -> int:
        at = self._at
        while at < len(self._lines) and not self._begins_another(at):
            if self._lines[at][:1] not in _MARKS:
                self._at = at + 1
                raise self.fail(
                    because("each line of a hunk must begin with a space, `-`, `+` or a backslash")
                )
            at += 1
        while at > self._at and not self._lines[at - 1]:
            at -= 1
        return at

    def _begins_another(self, at: int) -> bool:
        line, after = self._lines[at], "".join(self._lines[at + 1 : at + 2])
        is_name = line.startswith("--- ") and after.startswith("+++ ")
        is_signature = line == "-- " and (not after or after[:1] not in _MARKS)
        return is_name or is_signature or line.startswith(("@@", "diff --git ", "```"))


_OLD, _NEW, _MARKS = ("", " ", "-"), ("", " ", "+"), ("", " ", "-", "+", "\\")
"""How lines of a hunk begin: those of the file before, those after, and all."""


def _file_patch(reader: _PatchReader) -> FilePatch:
    old = _name(reader.take(), "--- ")
    line = reader.take()
    if not line.startswith("+++ "):
        raise reader.fail(because("a `+++` line must follow the `---` line"))
    new = _name(line, "+++ ")
    hunks = tuple(_hunks(reader))
    if not hunks:
        raise reader.fail(because("this file has no hunk"))
    creates, deletes = old == _NOTHING, new == _NOTHING
    path = _path(old, new)
    if path is None:
        raise reader.fail(because("the two names differ: renames are not supported"))
    if (creates and any(hunk.old for hunk in hunks)) or (
        deletes and any(hunk.new for hunk in hunks)
    ):
        raise reader.fail(
            because("a created file cannot have old lines, and a deleted file cannot have new ones")
        )
    return FilePatch(path, hunks, creates=creates, deletes=deletes)


def _name(line: str, mark: str) -> str:
    name = line.removeprefix(mark).split("\t", 1)[0].rstrip("\r ")
    if not name or name.startswith('"'):
        raise ToolFailed(
            "invalid_arguments", "The patch has a name that is not plain: {text!r}", text=line
        )
    return name


def _path(old: str, new: str) -> str | None:
    if old == _NOTHING or new == _NOTHING:
        name = new if old == _NOTHING else old
        return None if name == _NOTHING else re.sub(r"^[ab]/", "", name)
    if old.startswith("a/") and new.startswith("b/"):
        old, new = old[2:], new[2:]
    return old if old == new else None


def _hunks(reader: _PatchReader) -> Iterator[Hunk]:
    while reader.next is not None and reader.next.startswith("@@"):
        header = _HUNK.match(reader.take())
        if header is None:
            raise reader.fail(because("a hunk header must have the form `@@ -1,2 +1,2 @@`"))
        start, old_count, _, new_count = header.groups()
        if start is None:
            yield _hunk(0, reader.hunk(-1, -1))
        else:
            yield _hunk(int(start), reader.hunk(int(old_count or 1), int(new_count or 1)))


def _hunk(start: int, lines: Sequence[str]) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    sides: tuple[list[str], ...] = ()
    for line in lines:
        if line.startswith("\\"):
            _without_end(sides)
            continue
        sides = tuple(s for s, marks in ((old, _OLD), (new, _NEW)) if line[:1] in marks)
        for side in sides:
            side.append(f"{line[1:]}\n")
    return Hunk(start, tuple(old), tuple(new))


def _without_end(sides: tuple[list[str], ...]) -> None:
    for side in sides:
        side[-1] = side[-1].removesuffix("\n")


# apply_patch: several files in one change, all of them or none.

MAX_FILES = 200


class ApplyPatch(Arguments):
    """The patch."""

    patch: Annotated[
        str,
        Field(
            min_length=1,
            description="A unified diff (`---`, `+++`, `@@`) of one or several text files.",
        ),
    ]


class _Change(Struct, frozen=True):
    """What one file holds before and after; None is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    loosely: tuple[tuple[int, int], ...] = ()

    @property
    def hashes(self) -> tuple[str | None, str | None]:
        before, after = (
            None if data is None else content_hash(data) for data in (self.before, self.after)
        )
        return before, after

    @property
    def action(self) -> str:
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "changed"


def _changes(workspace: Workspace, patch: str) -> list[_Change]:
    patches = parse_patch(patch)
    if len(patches) > MAX_FILES:
        raise ToolFailed("too_large", "A patch changes at most {most} files", most=MAX_FILES)
    changes = [_change(workspace, file) for file in patches]
    if len({change.path for change in changes}) != len(changes):
        raise ToolFailed("invalid_arguments", "The patch names a file twice")
    return changes


def _change(workspace: Workspace, file: FilePatch) -> _Change:
    path = workspace.normal(file.path)
    if workspace.real_file(file.path) != path:
        raise ToolFailed(
            "symlink_escape", "{path!r} goes through a link: name the real path", path=path
        )
    workspace.check_writable(path)
    current = workspace.hash(path)
    if file.creates:
        if current is not None:
            raise ToolFailed("file_exists", "{path!r} already exists", path=path)
        return _Change(path, None, encoded(apply_hunks(path, "", file.hunks).text))
    if current is None:
        raise ToolFailed("file_not_found", "{path!r} does not exist", path=path)
    before = workspace.read(path, follow=False)
    patched = apply_hunks(path, decoded(path, before), file.hunks)
    if not file.deletes:
        return _checked(_Change(path, before, encoded(patched.text), patched.loosely))
    if patched.text:
        raise ToolFailed(
            "not_found_in_file", "{path!r} contains more than the patch deletes", path=path
        )
    return _Change(path, before, None)


def _checked(change: _Change) -> _Change:
    if change.before == change.after:
        raise ToolFailed("no_change", "The patch does not change {path!r}", path=change.path)
    return change


def _prepare(workspace: Workspace, arguments: ApplyPatch) -> Prepared:
    changes = _changes(workspace, arguments.patch)
    hashes = {change.path: change.hashes for change in changes}
    return Prepared(
        arguments=arguments.final(),
        access=Access(
            writes=tuple(change.path for change in changes if change.after is not None),
            deletes=tuple(change.path for change in changes if change.after is None),
        ),
        base_hashes={path: before for path, (before, _) in hashes.items()},
        effects=tuple(
            FileEffect(path=path, before=before, after=after)
            for path, (before, after) in hashes.items()
        ),
        preview="".join(difference(change.path, change.before, change.after) for change in changes),
    )


def _run(bench: Bench, arguments: ApplyPatch) -> JsonObject:
    with bench.approved():
        _check_bases(bench, arguments)
        changes = _changes(bench.workspace, arguments.patch)
        done: list[_Change] = []
        try:
            for change in changes:
                base = bench.base_hashes.get(change.path, change.hashes[0])
                _put(bench.workspace, change.path, change.after, base)
                done.append(change)
        except ToolFailed:
            _take_back(bench.workspace, done)
            raise
    faults = each_broken((change.path, change.before, change.after) for change in changes)
    return {
        "files": [
            {"path": change.path, "action": change.action, "hash": change.hashes[1]}
            | differing(change.loosely)
            | fault
            for change, fault in zip(changes, faults, strict=True)
        ]
    }


def _check_bases(bench: Bench, arguments: ApplyPatch) -> None:
    for file in parse_patch(arguments.patch):
        path = bench.workspace.normal(file.path)
        base = bench.base(path)
        if base not in ("any", bench.workspace.hash(path)):
            raise ToolFailed(
                "changed_since_approval", "{path!r} has changed since it was approved", path=path
            )


def _put(workspace: Workspace, path: str, data: bytes | None, base: str | None) -> None:
    if data is None:
        workspace.delete(path, base=base)
    else:
        workspace.write(path, data, base=base)


def _take_back(workspace: Workspace, done: list[_Change]) -> None:
    for change in reversed(done):
        # What somebody changed in between stays as it is.
        with suppress(ToolFailed):
            _put(workspace, change.path, change.before, change.hashes[1])


def _touches(arguments: Mapping[str, Any]) -> Access:
    files = [(elsewhere(file.path), file.deletes) for file in parse_patch(str(arguments["patch"]))]
    return Access(
        writes=tuple(sorted({path for path, deletes in files if not deletes})),
        deletes=tuple(sorted({path for path, deletes in files if deletes})),
    )


PATCHING_TOOLS = (
    Tool(
        name="apply_patch",
        description=(
            "Apply a unified diff to one or several files; /dev/null creates or deletes one."
            " Every hunk must fit, white space aside, else nothing is changed."
        ),
        arguments=ApplyPatch,
        tool_class=ToolClass.IDEMPOTENT,
        touches=_touches,
        prepare=_prepare,
        run=in_thread(_run),
    ),
)
