"""The parts of a tool: its arguments, its class, a check before it runs, and its body."""

import difflib
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, ValidationError

from gonogo.domain.errors import InvalidArguments, ToolFailed, defect_of
from gonogo.domain.paths import is_secret
from gonogo.domain.tool_calls import Access, FileEffect, ToolClass, ToolSchema
from gonogo.tools.schemas import SchemaChecks
from gonogo.workspace import (
    DEFAULT_PATH,
    OUTPUT_CAP,
    Base,
    Ceilings,
    Guarded,
    Network,
    Sandbox,
    Workspace,
    elsewhere,
    nothing,
)

# A program's output without the parts that differ in each run and on each machine.
#
# Only sessions that are recorded or replayed get it, so that the same work sends the same requests
# to a model, byte for byte. All other sessions get the output as it is.

_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_ZONE = r"(?:Z\b| ?[+-]\d\d:?\d\d\b| [A-Z]{3,4}\b)?"
_DIFFERS = (
    # 2026-01-02T03:04:05Z, as in logs; a date without a time stays.
    (re.compile(rf"\b\d{{4}}-\d\d-\d\d[T ](?:{_CLOCK}|\d\d:\d\d\b){_ZONE}"), "<time>"),
    # Fri Jan  2 03:04:05 UTC 2026, as in `date` and git; Jan  2 03:04, as in `ls -l`.
    (
        re.compile(
            rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{_MONTHS} {{1,2}}\d{{1,2}} "
            rf"(?:{_CLOCK}(?: [A-Z]{{3,4}})?(?: \d{{4}})?(?: [+-]\d{{4}})?|\d\d:\d\d\b| \d{{4}}\b)"
        ),
        "<time>",
    ),
    (re.compile(rf"\b{_CLOCK}\b"), "<time>"),
    (re.compile(r"\b(?:\d+m)?\d+\.\d+ ?(?:s|secs?|seconds)\b"), "<duration>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|µs|us|ns)\b"), "<duration>"),
    (re.compile(r"(?<=duration_ms)(\W{1,3})\d[\d.]*"), r"\1<duration>"),
    (re.compile(r"(?<![\w.-])(?:/var)?/tmp(?:/[\w.@+-]+)+"), "<temporary>"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "<address>"),
)


def steady(output: str, root: str) -> str:
    """The output without times, durations, addresses and temporary folders.

    Args:
        root: The workspace; paths in it become relative to it.
    """
    text = _inside(root).sub(lambda found: "" if found[0].endswith("/") else ".", output)
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return text


@lru_cache(maxsize=64)
def _inside(root: str) -> re.Pattern[str]:
    """Matches the workspace's folder, unless it is a part of another name."""
    return re.compile(rf"(?<![\w./-]){re.escape(root)}(?:/(?=[\w.@+-])|(?![\w-]|\.\w))")


JsonObject = dict[str, Any]


class Arguments(BaseModel):
    """The arguments of one tool; unknown names and wrong types are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    def final(self, **changed: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
        """The arguments as JSON, with some of them replaced; absent ones stay absent."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True) | changed


class Prepared(Struct, frozen=True, kw_only=True):
    """What a call will do, determined before anybody is asked."""

    arguments: JsonObject
    """The final arguments: paths are relative and free of links."""
    access: Access = field(default_factory=Access)
    base_hashes: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The current hashes of the files that would change."""
    effects: tuple[FileEffect, ...] = ()
    preview: str = ""
    """The text for the person who decides: a unified diff, or the command."""


Output = Callable[[str], Awaitable[Any]]
"""Gives the result of an earlier call by its id; raises `ToolFailed` if nobody may read it."""


class Bench(Struct, frozen=True, kw_only=True):
    """The place where a tool runs, and its limits."""

    workspace: Workspace
    sandbox: Sandbox | None = None
    base_hashes: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """The hashes of the files when the call was approved."""
    run_as: str | None = None
    """The command text to run instead of the written one."""
    hidden: tuple[Path, ...] = ()
    network: Network | None = None
    """What a command may reach."""
    shown: Callable[[str], bool] | None = None
    """Which of the workspace's secrets a command may see; None: all of them."""
    may_change: Callable[[str], bool] = nothing
    """Which installed programs a command may change."""
    guards: Guarded | None = None
    """The paths that the sandbox guards, from the latest search for them."""
    unlooked: Collection[str] = ()
    """Folders that were not searched, and a person let the command run anyway."""
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The full paths of the programs that a command names."""
    ceilings: Ceilings = field(default_factory=Ceilings)
    writes_git: bool = False
    """A command in the sandbox may write in the workspace's repository."""
    read_only: bool = False
    """A command in the sandbox may not write in the workspace."""
    on_copy: bool = False
    """It writes in a copy of the workspace, which is deleted afterwards."""
    search_path: Callable[[], str] = lambda: DEFAULT_PATH
    """Gives the PATH of commands; only then the disk is searched for it."""
    output_cap: int = OUTPUT_CAP
    output: Output | None = None
    """Gives the results of the conversation's earlier calls."""
    result_tokens: int = 8_000
    """Tokens of one result that a model gets."""
    command_timeout: float = 120.0
    """Seconds for a command without a time limit of its own."""
    steady: bool = False
    """Remove what differs in each run from the output of programs; see `steady`."""
    on_spawn: Callable[[int], None] | None = None
    is_ours: Callable[[], bool] | None = None
    """Whether this process still has the work; None: no other process can take it."""

    def told(self, output: str) -> str:
        """A program's output as the model gets it."""
        return steady(output, str(self.workspace.root)) if self.steady else output

    def base(self, path: str, named: str | None = None) -> Base:
        """The hash that `path` must have when it is changed: as approved, or as `named`."""
        if path in self.base_hashes:
            return self.base_hashes[path]
        return "any" if named is None else named

    @contextmanager
    def approved(self) -> Generator[None]:
        """Report a path that has become invalid since the approval as changed.

        Raises:
            ToolFailed: `changed_since_approval`.
        """
        try:
            yield
        except ToolFailed as failure:
            if self.base_hashes and failure.kind in _MOVED:
                raise ToolFailed(
                    "changed_since_approval",
                    "{failure}; it was in order when it was approved",
                    failure=failure,
                ) from failure
            raise


_MOVED = frozenset({"symlink_escape", "not_a_regular_file", "hardlink"})

Touches = Callable[[Mapping[str, Any]], Access]
Prepare = Callable[[Workspace, Any], Prepared]
Run = Callable[[Bench, Any], Awaitable[JsonObject]]
Work = Callable[[Bench, Any], JsonObject]


class Tool(Struct, frozen=True, kw_only=True):
    """One thing that an agent can do.

    `touches` derives the access of a call from its arguments alone, for files on a client: their
    disk is not here, and the client's system is unknown. So it refuses, with `ToolFailed`, every
    path that could lead out of the workspace on any system. `prepare` reads the disk and changes
    nothing; `run` takes the final arguments from `prepare`. Control tools have no `run`: the
    runtime does what they ask for.
    """

    name: str
    description: str
    arguments: type[Arguments]
    tool_class: ToolClass
    touches: Touches
    prepare: Prepare
    run: Run | None = None
    of_record: bool = False
    """It reads only the database and not the workspace, so it always runs in this process."""
    here: bool = False
    """It needs the workspace on this machine, so no client can carry it out."""

    def schema(self) -> ToolSchema:
        """The tool as a model gets it."""
        return _schema(self.name, self.description, self.arguments)

    def parse(self, arguments: Mapping[str, Any], within: SchemaChecks | None = None) -> Arguments:
        """Read the arguments of a call. Do not call it in the event loop: it may take a second.

        Args:
            within: The checker for arguments of foreign tools; by default one for this call alone.

        Raises:
            InvalidArguments: naming the first argument that is wrong.
        """
        del within
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            said = defect_of(error, "arguments")
            raise InvalidArguments("{name}: {said}", name=self.name, said=said) from error


@cache
def _schema(name: str, description: str, arguments: type[Arguments]) -> ToolSchema:
    """A tool as a model gets it; made once, since each request to a model contains all tools."""
    parameters = arguments.model_json_schema()
    parameters.pop("title", None)
    parameters.pop("description", None)
    for value in parameters.get("properties", {}).values():
        value.pop("title", None)
    return ToolSchema(name=name, description=description, parameters=parameters)


def touches_nothing(arguments: Mapping[str, Any]) -> Access:
    """The access of a tool that touches no file, or whose access is unknown."""
    del arguments
    return Access()


def path_of(arguments: Mapping[str, Any]) -> str:
    """The path that a call names, on any machine.

    Raises:
        ToolFailed: the path as written leaves the workspace.
    """
    return elsewhere(str(arguments.get("path", ".")))


def in_thread(work: Work) -> Run:
    """Make the body of a tool that blocks: it runs in a worker thread, always to its end."""

    async def run(bench: Bench, arguments: Any) -> JsonObject:  # noqa: ANN401 - its own model
        return await anyio.to_thread.run_sync(work, bench, arguments)

    return run


def check_read(path: str, current: str | None, named: str | None) -> None:
    """Compare a file with the hash that the agent read.

    Raises:
        ToolFailed: `changed_since_read`.
    """
    if named is not None and named != current:
        raise ToolFailed("changed_since_read", "{path!r} has changed: read it again", path=path)


# Text of files: decoding, and the differences that a person is shown.

DIFF_LINES = 20_000
"""Longer files are summed up instead of compared."""


def decoded(path: str, data: bytes) -> str:
    """The text of a file that will be changed.

    Raises:
        ToolFailed: `not_text` if the file is binary or not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed("not_text", "{path!r} is not UTF-8 text", path=path) from error
    if "\0" in text:
        raise ToolFailed("not_text", "{path!r} is binary", path=path)
    return text


def difference(path: str, before: bytes | None, after: bytes | None) -> str:
    """A unified diff of one file; None: no file.

    The contents of a file with secrets are not shown, because a diff is stored, and sent to all who
    are asked.
    """
    if before is not None and is_secret(path):
        return _sizes(path, before, after, "what it holds may be secret")
    try:
        old, new = (with_ends(decoded("", data or b"")) for data in (before, after))
    except ToolFailed:
        return _sizes(path, before, after)
    if len(old) + len(new) > DIFF_LINES:
        return _sizes(path, before, after)
    names = ("/dev/null" if before is None else f"a/{path}",
             "/dev/null" if after is None else f"b/{path}")  # fmt: skip
    return "".join(_marked(difflib.unified_diff(old, new, *names)))


def changed_lines(diff: str) -> tuple[int, int] | tuple[None, None]:
    """How many lines a diff adds and removes; None if it shows no lines."""
    if "\n@@ " not in diff:
        return None, None
    lines = diff.split("\n")
    # The two lines before the first @@ of a file name it.
    heads = {n for n, line in enumerate(lines) if line.startswith("--- ") and _is_head(lines, n)}
    shown = [line[:1] for n, line in enumerate(lines) if n not in heads and n - 1 not in heads]
    return shown.count("+"), shown.count("-")


def _is_head(lines: Sequence[str], at: int) -> bool:
    return [line[:3] for line in lines[at + 1 : at + 3]] == ["+++", "@@ "]


def with_ends(text: str) -> list[str]:
    """The lines of a text with their line feeds; nothing else ends a line of a diff."""
    # Not splitlines(), which also splits at other characters.
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])


def _marked(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _sizes(
    path: str,
    before: bytes | None,
    after: bytes | None,
    why: str = "binary or too long to compare",
) -> str:
    old, new = ("no file" if data is None else f"{len(data)} bytes" for data in (before, after))
    return f"{path}: {old} -> {new} ({why})\n"
