"""What is in a folder, and the walk that listing and searching share."""

import os
import re
import stat
from collections.abc import Generator
from typing import Literal

from msgspec import Struct

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.files.safe_open import open_component

STATE_FOLDERS = frozenset({".git", ".gonogo", ".hg", ".svn"})
"""Never shown, never entered."""
HEAVY_FOLDERS = frozenset(
    {
        *("node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
    }
)
"""Shown, but entered only when they are named."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY

Kind = Literal["file", "folder", "link", "other"]


class FolderEntry(Struct, frozen=True, kw_only=True):
    """One thing in a folder; `path` is relative to the workspace, `size` in bytes for files."""

    path: str
    kind: Kind
    size: int | None = None


class Listing(Struct, frozen=True, kw_only=True):
    """The entries in order; `truncated` when there are more."""

    entries: tuple[FolderEntry, ...]
    truncated: bool


class WalkStep(Struct, frozen=True):
    """One name met on a walk, with the open folder that holds it."""

    folder: int
    name: str
    path: str
    kind: Kind


def walk(folder: int, path: str, depth: int) -> Generator[WalkStep]:
    """Each name below an open folder, in the order of the paths; links are not followed.

    A folder that goes away or may not be read meanwhile is left out.
    """
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        kind = _kind(entry)
        if kind == "folder" and entry.name in STATE_FOLDERS:
            continue
        below = entry.name if path == "." else f"{path}/{entry.name}"
        yield WalkStep(folder, entry.name, below, kind)
        if kind == "folder" and depth > 1 and entry.name not in HEAVY_FOLDERS:
            yield from _inside(folder, entry.name, below, depth - 1)


def _inside(folder: int, name: str, path: str, depth: int) -> Generator[WalkStep]:
    try:
        descriptor = open_component(folder, name, _FOLDER)
    except OSError:
        return
    try:
        yield from walk(descriptor, path, depth)
    finally:
        os.close(descriptor)


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def list_folder(folder: int, path: str, *, depth: int, limit: int) -> Listing:
    """The entries below an open folder."""
    entries: list[FolderEntry] = []
    steps = walk(folder, path, depth)
    try:
        for step in steps:
            if len(entries) == limit:
                return Listing(entries=tuple(entries), truncated=True)
            entries.append(FolderEntry(path=printable(step.path), kind=step.kind, size=_size(step)))
    finally:
        # Closed here and not by the collector: it holds open folders.
        steps.close()
    return Listing(entries=tuple(entries), truncated=False)


def printable(path: str) -> str:
    """A path as text; bytes that are no UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")


def _size(step: WalkStep) -> int | None:
    if step.kind != "file":
        return None
    try:
        status = os.lstat(step.name, dir_fd=step.folder)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


# File globs, as .gitignore and ripgrep read them.
#
# A glob without a slash is compared with the last name of a path, any other with the whole path.
# `*` and `?` stay inside one name, `**` spans folders, `[a-z]` and `{one,two}` are as usual.

MAX_BRACES = 8
"""Levels of braces inside braces."""
MAX_GROUPS, MAX_WILDCARDS = 12, 3
"""Braces in all; wildcards within one name, and across folders. Each is tried with all others."""

_WILD = {
    "\0": r"(?:[^/]+/)*",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
    "{": "(?:",
    "}": ")",
}
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|\*\*|.", re.DOTALL)


def compile_glob(glob: str) -> re.Pattern[str]:
    """The pattern that matches a whole relative path, or its end after a slash.

    Raises:
        ToolFailed: `path_outside_workspace` for a glob that is absolute or climbs,
            `invalid_arguments` for one that cannot be read.
    """
    if not glob or glob.startswith("!") or not glob.isprintable():
        raise ToolFailed(
            "invalid_arguments", "{glob!a} is not a glob of files to search", glob=glob
        )
    if glob.startswith("/") or ".." in re.split(r"[/{},]", glob):
        raise ToolFailed(
            "path_outside_workspace", "The glob {glob!r} leads out of the workspace", glob=glob
        )
    plain = re.sub(r"\*{3,}", "**", re.sub(r"(?:\*\*/)+", "**/", glob))
    _check_wildcards(glob, plain)
    anchored = "/" in glob
    try:
        return re.compile(("" if anchored else r"(?:.*/)?") + _translate(plain), re.DOTALL)
    except re.error as error:
        raise ToolFailed(
            "invalid_arguments", "The glob {glob!r} cannot be read: {error}", glob=glob, error=error
        ) from error


def _check_wildcards(glob: str, plain: str) -> None:
    within = max(name.count("*") for name in re.split(r"\*\*/?|/", plain))
    across = plain.count("**")
    if max(within, across) > MAX_WILDCARDS or plain.count("{") > MAX_GROUPS:
        raise ToolFailed(
            "invalid_arguments", "The glob {glob!r} has too many wildcards; use a simpler one",
            glob=glob,
        )  # fmt: skip


def _translate(glob: str) -> str:
    pattern: list[str] = []
    depth = 0
    for part in _TOKEN.findall(glob.replace("**/", "\0")):
        depth += (part == "{") - (part == "}")
        if depth < 0 or depth > MAX_BRACES:
            raise _unbalanced(glob)
        pattern.append("|" if part == "," and depth else _one(part))
    if depth:
        raise _unbalanced(glob)
    return "".join(pattern)


def _unbalanced(glob: str) -> ToolFailed:
    return ToolFailed("invalid_arguments", "The braces of {glob!r} do not match", glob=glob)


def _one(part: str) -> str:
    if part in _WILD:
        return _WILD[part]
    if len(part) > 2 and part.startswith("["):
        return _characters(part)
    return re.escape(part.removeprefix("\\") or "\\")


def _characters(part: str) -> str:
    inner = part[1:-1]
    negated = inner.startswith(("!", "^"))
    body = inner[1:] if negated else inner
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", body)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
