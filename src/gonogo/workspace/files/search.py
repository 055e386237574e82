"""Listing and searching folders; both use the same walk."""

import base64
import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NoReturn

from msgspec import Struct

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret
from gonogo.workspace.files.safe_open import (
    MAX_DEPTH,
    READING,
    Opener,
    check_regular,
    open_component,
    opened,
    read_all,
    root_opened,
    told,
)
from gonogo.workspace.sandbox.process import find_program

# What is in a folder, and the walk that listing and searching share.

STATE_FOLDERS = frozenset({".git", ".gonogo", ".hg", ".svn"})
"""Never shown, never entered."""
HEAVY_FOLDERS = frozenset(
    {
        *("node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
    }
)
"""Shown, but entered only if they are named."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY

Kind = Literal["file", "folder", "link", "other"]


class FolderEntry(Struct, frozen=True, kw_only=True):
    """One thing in a folder; `path` is relative to the workspace, `size` in bytes for files."""

    path: str
    kind: Kind
    size: int | None = None


class Listing(Struct, frozen=True, kw_only=True):
    """The entries in order; `truncated` if there are more."""

    entries: tuple[FolderEntry, ...]
    truncated: bool


class WalkStep(Struct, frozen=True):
    """One name on a walk, with the open folder that contains it."""

    folder: int
    name: str
    path: str
    kind: Kind


def walk(folder: int, path: str, depth: int) -> Generator[WalkStep]:
    """Each name below an open folder, in the order of the paths; links are not followed.

    A folder that disappears meanwhile, or that may not be read, is left out.
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
        # Closed here and not by the garbage collector, as it has folders open.
        steps.close()
    return Listing(entries=tuple(entries), truncated=False)


def printable(path: str) -> str:
    """A path as text; bytes that are not UTF-8 become replacement characters."""
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
"""The most braces in all, and wildcards within one name or across folders: they multiply."""

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
        ToolFailed: `path_outside_workspace` for a glob that is absolute or has `..`,
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


# Finding lines: with ripgrep if it is installed, otherwise with Python; both find the same lines.
#
# Patterns are regular expressions that Python and ripgrep read alike. A line that an engine finds
# is shown only after the file was opened again, as strictly as for any other read, and has exactly
# that line. So neither a link that was swapped in meanwhile nor a secret is shown. Both engines are
# separate processes that are killed at the time limit.

MAX_FILE = 4 * 1024 * 1024
"""Larger files are not searched."""
MAX_LINE = 500
"""How many characters of a line are shown."""
MAX_PATTERN = 2_000
TIME_LIMIT = 20.0
"""The most seconds of one search."""

_RIPGREP = (
    # Every setting that could differ between machines is given; files are chosen as by `walk`.
    *("--json", "--no-config", "--no-ignore", "--hidden", "--no-messages"),
    *("--sort=path", "--encoding=none"),
)
_MATCHER = Path(__file__).with_name("matcher.py")


class Query(Struct, frozen=True, kw_only=True):
    """What to look for."""

    pattern: str
    regex: bool = True
    glob: str | None = None
    limit: int = 200
    time_limit: float = TIME_LIMIT
    engine: str | None = None
    """`rg` or `python`; None: ripgrep if it is installed."""


class Match(Struct, frozen=True, kw_only=True):
    """One line that matches; `line` counts from 1, `text` is cut if it is very long."""

    path: str
    line: int
    text: str


class SearchResult(Struct, frozen=True, kw_only=True):
    """The matches in the order of the paths; `truncated` if there are more."""

    matches: tuple[Match, ...]
    truncated: bool


class _EngineRefused(Exception):
    """Ripgrep does not know this pattern."""


def search_folder(root: Path, opener: Opener, path: str, query: Query) -> SearchResult:
    """Search below `path`, which may be one file."""
    pattern = _checked(query)
    glob = compile_glob(query.glob) if query.glob else None
    place = _SearchPlace(root, opener, path, glob)
    place.check()
    program = None if query.engine == "python" else find_program("rg")
    if program is not None:
        try:
            return _collect(_by_ripgrep(program, place, query), query.limit)
        except _EngineRefused:
            pass
    return _collect(_by_python(place, query, pattern), query.limit)


def matching_lines(lines: Sequence[str], pattern: str) -> list[int]:
    """The numbers, from 1 on, of the lines in which a regular expression is found. Blocks.

    Raises:
        ToolFailed: `invalid_arguments` if it is not a regular expression, `timeout` if it takes too
            long.
    """
    expression = _checked(Query(pattern=pattern))
    argv = [sys.executable, "-I", "-S", str(_MATCHER)]
    data = "\n".join(lines).encode("utf-8", "replace")
    with _running(argv, Path("/"), TIME_LIMIT) as engine:
        engine.say(json.dumps({"pattern": expression}).encode() + b"\n")
        engine.say(b"%d\n%b" % (len(data), data))
        return json.loads(engine.answer())


def _checked(query: Query) -> str:
    if len(query.pattern) > MAX_PATTERN or not query.pattern or "\n" in query.pattern:
        raise ToolFailed(
            "invalid_arguments", "A pattern is one line of 1 to {most} characters", most=MAX_PATTERN
        )
    pattern = query.pattern if query.regex else re.escape(query.pattern)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolFailed(
            "invalid_arguments", "The pattern cannot be read: {error}", error=error
        ) from error
    return pattern


class _SearchPlace(Struct, frozen=True):
    """Where a search looks, and which files it may show."""

    root: Path
    opener: Opener
    path: str
    glob: re.Pattern[str] | None

    def check(self) -> None:
        with (
            told(self.path),
            root_opened(self.root) as root,
            opened(self.opener, root, self.path, READING) as found,
        ):
            # An engine that is given the name of a pipe would wait until somebody writes to it.
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                check_regular(found, self.path)

    def wants(self, path: str) -> bool:
        """Whether the path allows this file to be shown."""
        if not path.isprintable() or is_secret(path):
            return False
        return self.glob is None or bool(self.glob.fullmatch(path))

    def text(self, root: int, path: str) -> bytes | None:
        """The content of a file that may be shown; None for everything else."""
        try:
            with told(path), opened(self.opener, root, path, READING) as file:
                check_regular(file, path)
                data = read_all(file, path, MAX_FILE)
        except ToolFailed:
            return None
        return None if b"\0" in data else data

    def files(self, root: int) -> Generator[str]:
        """The paths of the files to search."""
        try:
            folder = self.opener(root, self.path, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError:
            yield self.path
            return
        try:
            for step in walk(folder, self.path, MAX_DEPTH):
                if step.kind == "file":
                    yield step.path
        finally:
            os.close(folder)


def _collect(found: Generator[Match], limit: int) -> SearchResult:
    matches: list[Match] = []
    try:
        for match in found:
            if len(matches) == limit:
                return SearchResult(matches=tuple(matches), truncated=True)
            matches.append(match)
    finally:
        found.close()
    return SearchResult(matches=tuple(matches), truncated=False)


def _by_python(place: _SearchPlace, query: Query, pattern: str) -> Generator[Match]:
    argv = [sys.executable, "-I", "-S", str(_MATCHER)]
    with root_opened(place.root) as root, _running(argv, place.root, query.time_limit) as engine:
        engine.say(json.dumps({"pattern": pattern}).encode() + b"\n")
        for path in place.files(root):
            data = place.text(root, path) if place.wants(path) else None
            if not data:
                continue
            text = data.removesuffix(b"\n")
            engine.say(b"%d\n%b" % (len(text), text))
            lines = text.split(b"\n")
            numbers: list[int] = json.loads(engine.answer())
            for number in numbers:
                yield Match(path=path, line=number, text=_shown(lines[number - 1]))


def _by_ripgrep(program: str, place: _SearchPlace, query: Query) -> Generator[Match]:
    argv = [program, *_options(query), "--", query.pattern, _start(place.path)]
    with root_opened(place.root) as root, _running(argv, place.root, query.time_limit) as engine:
        found: list[tuple[int, bytes]] = []
        while raw := engine.line():
            event = json.loads(raw)
            if event["type"] == "match":
                found.append((event["data"]["line_number"], _bytes(event["data"]["lines"])))
            elif event["type"] == "end":
                yield from _confirmed(place, root, _bytes(event["data"]["path"]), found)
                found = []
        if engine.refused():
            raise _EngineRefused


def _confirmed(
    place: _SearchPlace, root: int, raw_path: bytes, found: Sequence[tuple[int, bytes]]
) -> Generator[Match]:
    path = os.fsdecode(raw_path).removeprefix("./")
    data = place.text(root, path) if found and place.wants(path) else None
    lines = data.split(b"\n") if data else []
    for number, line in found:
        if number <= len(lines) and lines[number - 1] == line.removesuffix(b"\n"):
            yield Match(path=path, line=number, text=_shown(line))


def _options(query: Query) -> list[str]:
    options = [*_RIPGREP, f"--max-filesize={MAX_FILE}"]
    if not query.regex:
        options.append("--fixed-strings")
    if query.glob:
        options.append(f"--glob={query.glob}")
    options += [f"--glob=!{name}/" for name in sorted(STATE_FOLDERS | HEAVY_FOLDERS)]
    return options


def _start(path: str) -> str:
    return "./" if path == "." else f"./{path}"


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def _shown(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "replace")[:MAX_LINE]


class _Engine:
    """A process that searches lines, with a timer that kills it at the time limit."""

    def __init__(self, process: subprocess.Popen[bytes], time_limit: float) -> None:
        self._process = process
        self._late = False
        self._timer = threading.Timer(time_limit, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def say(self, data: bytes) -> None:
        stream = self._process.stdin
        try:
            if stream:
                stream.write(data)
                stream.flush()
        except BrokenPipeError:
            self._gone()

    def line(self) -> bytes:
        stream = self._process.stdout
        raw = stream.readline() if stream else b""
        if not raw and self._late:
            self._gone()
        return raw

    def answer(self) -> bytes:
        return self.line() or self._gone()

    def refused(self) -> bool:
        errors = self._process.stderr
        return self._process.wait() not in (0, 1) and bool(errors and errors.read())

    def end(self) -> None:
        self._timer.cancel()
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.__exit__(None, None, None)

    def _expire(self) -> None:
        self._late = True
        self._process.kill()

    def _gone(self) -> NoReturn:
        if self._late:
            raise ToolFailed("timeout", "The search took too long: narrow the path or the pattern")
        raise ToolFailed("io_error", "The search ended unexpectedly")


@contextmanager
def _running(argv: Sequence[str], root: Path, time_limit: float) -> Generator[_Engine]:
    process = subprocess.Popen(  # noqa: S603 - a fixed program; the pattern is data
        argv,
        cwd=root,
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    engine = _Engine(process, time_limit)
    try:
        yield engine
    finally:
        engine.end()
