"""execute_command."""

import json
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Annotated, Any, cast

import anyio.to_thread
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from gonogo.domain.commands import INTERPRETERS, SHELLS, family
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.network import read_network
from gonogo.domain.paths import is_secret, write_guard
from gonogo.domain.tool_calls import Access, ToolClass
from gonogo.policy import programs_of
from gonogo.tools.base import Arguments, Bench, JsonObject, Prepared, Tool, touches_nothing
from gonogo.workspace import Reached, Workspace, elsewhere, matching_lines, run_command

MAX_COMMAND = 32_000
MAX_TIMEOUT = 3_600


def _read_hosts(value: Any) -> tuple[str, ...] | None:  # noqa: ANN401 - as a model wrote it
    if value is None:
        return None
    found = read_network(value)
    if isinstance(found, bool):
        raise ValueError(because("name the hosts in a list"))  # noqa: TRY004 - pydantic's own way
    return found


class ExecuteCommand(Arguments):
    """What runs, where, and for how long."""

    command: Annotated[
        str, Field(min_length=1, max_length=MAX_COMMAND, description="A command line for bash.")
    ]
    cwd: Annotated[
        str | None, Field(description="The folder to run in, relative to the workspace.")
    ] = None
    timeout: Annotated[
        float | None, Field(gt=0, le=MAX_TIMEOUT, description="Seconds until it is ended.")
    ] = None
    network: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(_read_hosts),
        WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        Field(
            description="Hosts that it must reach over HTTP(S), such as `packages.example.com` or"
            " `*.example.org:8443`. Leave it out where the subtask's scope has them."
        ),
    ] = None


def _prepare(workspace: Workspace, arguments: ExecuteCommand) -> Prepared:
    if "\0" in arguments.command:
        raise ToolFailed("invalid_arguments", "A command must not contain a NUL character")
    final = arguments.final()
    cwd = None if arguments.cwd is None else workspace.real(arguments.cwd)
    if cwd is not None:
        with workspace.folder(cwd):
            final["cwd"] = cwd
    return Prepared(
        arguments=final,
        access=Access(command=arguments.command, cwd=cwd, network=arguments.network or ()),
        base_hashes=_code_hashes(workspace, arguments.command, cwd or "."),
        preview="\n".join(_preview(arguments, cwd)),
    )


# What a command runs of the workspace. Who approves `./build.sh` or `make` has read that file, so
# what it holds is part of what they approve, and so is what a shell's script sources by a name that
# stands there as it is. What such a file reads in other ways is not looked for.

_MOST_WORDS, _MOST_FOLDERS, _MOST_SOURCED = 200, 8, 200
_SOURCES = re.compile(
    r"(?m)(?:^|[;&|({`!]|\b(?:then|do|else|if|while|until)\s)[ \t]*(?:(?:builtin|command)[ \t]+)?"
    r"""(?:\.|source)[ \t]+(?:--[ \t]+)?(?:"([^"$`\n]+)"|'([^'\n]+)'|([^\s;|&<>()'"`$]+))"""
)
_SHELL = re.compile(r"\.(?:ba|z|k|da)?sh")
_SHEBANG = re.compile(rb"#!.*\b(?:ba|z|k|da|a)?sh\b|(?!#!)")
"""How a shell's script begins, and what may be one."""
_BARE_WORD = re.compile(r"[^\s;|&<>()'\"`$=]+")
_CODE = re.compile(
    r"(?:ba|z|k|fi|c|tc)?sh|pyw?|rb|pl|php|lua|r|jl|tcl|awk|sed|ps1|bat|cmd|mk|make|gradle|kts"
    r"|[cm]?[jt]sx?|exs?|clj|groovy|jar|wasm",
    re.IGNORECASE,
)
"""Endings of files that hold code, whose mode need not say so."""
_BUILDS = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "bunx"), ("package.json",)),
    **dict.fromkeys(("poetry", "pdm", "uv", "hatch", "tox", "nox"),
                    ("pyproject.toml", "tox.ini", "noxfile.py")),
    "just": ("justfile", "Justfile", ".justfile"), "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "rakefile"), "invoke": ("tasks.py",), "inv": ("tasks.py",),
    "pytest": ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    "cargo": ("Cargo.toml", "build.rs"), "composer": ("composer.json",), "mvn": ("pom.xml",),
    "gradle": ("build.gradle", "build.gradle.kts"), "cmake": ("CMakeLists.txt",),
    "docker": ("Dockerfile", "compose.yaml", "docker-compose.yml"), "deno": ("deno.json",),
}  # fmt: skip
"""Files that programs look for in their folder, to be told what to run."""


def _code_hashes(workspace: Workspace, command: str, cwd: str) -> dict[str, str | None]:
    """The content hashes of the workspace's files that a command says it runs."""
    found: dict[str, str | None] = {}
    if all(programs_of(command).values()):
        return found
    paths = sorted({*_code_named(str(workspace.root), command, cwd)})
    named = len(paths)
    for number, path in enumerate(paths):
        with suppress(ToolFailed):
            found[path] = workspace.hash(workspace.real(path))
        sourced = _sourced(workspace, path, cwd, is_shell=number >= named)
        paths += sorted({*sourced} - {*paths})
        if len(paths) > named + _MOST_SOURCED:
            raise ToolFailed(
                "too_many_files", "Its scripts source more than {most} files", most=_MOST_SOURCED
            )
    return found


def _sourced(workspace: Workspace, path: str, cwd: str, *, is_shell: bool) -> Iterator[str]:
    """The files that a shell's script sources, beside it or in the folder that it runs in."""
    ending = posixpath.splitext(path)[1]
    is_shell = is_shell or _SHELL.fullmatch(ending) is not None
    try:
        data = workspace.read(path)
    except ToolFailed as failure:
        # Nobody knows what it sources; another program may be as large as it likes.
        if is_shell and failure.kind == "too_large":
            raise
        return
    is_other = data[:2] != b"#!" and _CODE.fullmatch(ending.removeprefix("."))
    if is_shell or (_SHEBANG.match(data) and not is_other):
        root, folders = str(workspace.root), (cwd, posixpath.dirname(path))
        names = {"".join(each) for each in _SOURCES.findall(data.decode("utf-8", "replace"))}
        places = (_inside(root, folder, name) for name in names for folder in folders)
        yield from (place for place in places if place and _is_code(root, place, runs=True))


def _code_named(root: str, command: str, cwd: str) -> Iterator[str]:
    words = _words(command)
    folders = {cwd: None} | dict.fromkeys(
        path for path in (_inside(root, cwd, word) for word in words)
        if path is not None and os.path.isdir(posixpath.join(root, path))
    )  # fmt: skip
    for folder in islice(folders, _MOST_FOLDERS):
        runs = False
        for before, word in pairwise(("", *words)):
            names = [word, *_BUILDS.get(family(word), ())]
            if before == "-m":
                module = word.replace(".", "/")
                names += [f"{module}.py", f"{module}/__main__.py"]
            paths = (_inside(root, folder, name) for name in names)
            yield from (path for path in paths if path and _is_code(root, path, runs=runs))
            # Behind an interpreter and its options stands what it runs.
            kind = family(word)
            runs = (
                kind in SHELLS
                or kind in INTERPRETERS
                or word in (".", "source")
                or (runs and word.startswith("-"))
            )


def _words(command: str) -> list[str]:
    """The words of a command as a shell reads them, and whatever may be one inside of these."""
    words: list[str] = []
    with suppress(ValueError):
        words += shlex.split(command)
    return list(islice([*words, *_BARE_WORD.findall(command)], 2 * _MOST_WORDS))


def _inside(root: str, folder: str, word: str) -> str | None:
    path = posixpath.normpath(posixpath.join(root, folder, word))
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _is_code(root: str, path: str, *, runs: bool) -> bool:
    place = posixpath.join(root, path)
    try:
        if "\0" in path or is_secret(path) or not os.path.isfile(place):
            return False
        ends = bool(_CODE.fullmatch(posixpath.splitext(path)[1].removeprefix(".")))
        return runs or ends or write_guard(path) == "ask" or os.access(place, os.X_OK)
    except OSError:
        return False


def _preview(arguments: ExecuteCommand, cwd: str | None) -> Iterator[str]:
    if cwd not in (None, "."):
        yield f"cd {cwd}"
    if arguments.network:
        yield f"# network: {', '.join(arguments.network)}"
    yield arguments.command


async def _run(bench: Bench, arguments: ExecuteCommand) -> JsonObject:
    try:
        result = await run_command(
            bench.workspace, arguments.command if bench.run_as is None else bench.run_as,
            cwd=arguments.cwd, timeout=arguments.timeout or bench.command_timeout,
            output_cap=bench.output_cap, sandbox=bench.sandbox,
            hidden=bench.hidden, network=bench.network, read_only=bench.read_only,
            on_copy=bench.on_copy, writes_git=bench.writes_git, shown=bench.shown,
            may_change=bench.may_change, guards=bench.guards, unlooked=bench.unlooked,
            ceilings=bench.ceilings, search_path=bench.search_path(), programs=bench.programs,
            on_spawn=bench.on_spawn, is_ours=bench.is_ours,
        )  # fmt: skip
    except ToolFailed as failure:
        if failure.kind == "symlink_escape":
            raise ToolFailed(
                "changed_since_approval",
                "{failure}; it was a folder when it was approved",
                failure=failure,
            ) from failure
        raise
    told: JsonObject = {
        "exit_code": result.exit_code,
        "output": bench.told(result.output),
        "truncated": result.truncated,
        "timed_out": result.timed_out,
    }
    if result.over is not None:
        told["over"] = f"ended: it took more {result.over} than one command may"
    if result.network is not None:
        told["network"] = _network(result.network)
    return told


def _network(report: Reached) -> JsonObject:
    refused = [{"host": host, "reason": why} for host, why in report.refused.items()]
    return {"reached": list(report.reached), "refused": refused}


def _touches(arguments: Mapping[str, Any]) -> Access:
    cwd, hosts = arguments.get("cwd"), read_network(arguments.get("network") or False)
    return Access(
        command=str(arguments["command"]),
        cwd=None if cwd is None else elsewhere(str(cwd)),
        network=hosts if isinstance(hosts, tuple) else (),
    )


COMMAND_TOOLS = (
    Tool(
        name="execute_command",
        description=(
            "Run a command line in bash. Standard output and errors come together; what it leaves"
            " in the background ends with it. There is no input. There is no network but what the"
            " subtask's scope or `network` names, by an HTTP proxy in the environment."
        ),
        arguments=ExecuteCommand,
        tool_class=ToolClass.OTHER,
        touches=_touches,
        prepare=_prepare,
        run=_run,
    ),
)


# Results of earlier calls, which the record keeps whole: excerpts of them, and `read_output`.
#
# A result is read as rows: its lines, of which the very long ones are folded. So every part of it
# has a place, and one row is never large.

READ_OUTPUT = "read_output"
ROW = 500
"""Characters of one row."""
_MOST_FOUND = 200
_LONGEST = 200
"""Characters of the arguments in a line."""
_BYTES_PER_TOKEN = 4


def text_of(result: Any) -> str:  # noqa: ANN401 - JSON
    """A result as text whose lines are those of what it holds."""
    if not isinstance(result, Mapping):
        return _shown(result)
    fields = cast("Mapping[str, Any]", result)
    return "\n".join(
        f"{name}:\n{value}" if _has_lines(value) else f"{name}: {_shown(value)}"
        for name, value in fields.items()
    )


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def _shown(value: Any) -> str:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rows_of(text: str) -> list[str]:
    """The text as rows: a line each, or several for a line that is very long."""
    rows: list[str] = []
    for line in text.split("\n"):
        rows.extend(line[at : at + ROW] for at in range(0, max(len(line), 1), ROW))
    return rows


def beginning(rows: Iterable[str], room: int) -> list[str]:
    """As many of the rows, from the first one on, as fit into so many bytes."""
    kept: list[str] = []
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        kept.append(row)
    return kept


def excerpt(text: str, tokens: int, how: Callable[[int, int], str]) -> str:
    """The beginning and the end of a text, and between them what is left out.

    Args:
        tokens: What the excerpt may have of the text; the note comes on top.
        how: Says how the rows left out can be read, told the first and the last of them.
    """
    rows = rows_of(text)
    head = beginning(rows, tokens * _BYTES_PER_TOKEN * 2 // 3)
    rest = rows[len(head) :]
    tail = beginning(reversed(rest), tokens * _BYTES_PER_TOKEN // 3)[::-1]
    first, last = len(head) + 1, len(rows) - len(tail)
    note = (
        f"[{len(text)} characters in {len(rows)} rows; rows {first} to {last} are left out here. "
        f"{how(first, last)}]"
    )
    return "\n".join([*head, note, *tail])


class ReadOutput(Arguments):
    """Which call, and which rows of its result."""

    model_config = ConfigDict(populate_by_name=True)

    id: Annotated[str, Field(max_length=100, description="The id of the call.")]
    first: Annotated[
        int | None,
        Field(alias="from", ge=1, le=100_000_000, description="First row, counted from 1."),
    ] = None
    last: Annotated[
        int | None, Field(alias="to", ge=1, le=100_000_000, description="Last row, included.")
    ] = None
    pattern: Annotated[
        str | None,
        Field(
            max_length=2_000,
            description="Only rows in which this regular expression is found.",
        ),
    ] = None


def _prepare_output(_workspace: Workspace, arguments: ReadOutput) -> Prepared:
    return Prepared(arguments=arguments.final())


async def _read(bench: Bench, arguments: ReadOutput) -> JsonObject:
    if bench.output is None:
        raise ToolFailed("not_found", "There is no record of earlier calls here")
    rows = rows_of(text_of(await bench.output(arguments.id)))
    first = arguments.first or 1
    wanted = rows[first - 1 : arguments.last]
    # Less than the model may be given, for JSON makes it longer.
    room = bench.result_tokens * (_BYTES_PER_TOKEN - 1)
    about: JsonObject = {"id": arguments.id, "rows": len(rows)}
    if arguments.pattern is None:
        kept = beginning(wanted, room)
        last = first - 1 + len(kept)
        content = "\n".join(kept)
        more = len(kept) < len(wanted)
        return {**about, "from": first, "to": last, "content": content, "truncated": more}
    found = await anyio.to_thread.run_sync(matching_lines, wanted, arguments.pattern)
    numbered = [f"{first - 1 + n}: {wanted[n - 1]}" for n in found[:_MOST_FOUND]]
    kept = beginning(numbered, room)
    return {**about, "found": len(found), "content": "\n".join(kept),
            "truncated": len(kept) < len(found)}  # fmt: skip


def how_to_read(call_id: str, tool: str) -> Callable[[int, int], str]:
    """How a model reads on in a result of which it was given a part."""
    if tool == READ_OUTPUT:
        return lambda first, last: "Ask for fewer rows."
    return lambda first, last: (
        f'{READ_OUTPUT} with {{"id": "{call_id}", "from": {first}, "to": {last}}} gives them, '
        'with "pattern" those that match.'
    )


def line_of(tool: str, arguments: Mapping[str, Any], call_id: str, size: int) -> str:
    """One line in the place of a result that was given before."""
    words = " ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
    told = " ".join(words.split())[:_LONGEST]
    how = "call it again" if tool == READ_OUTPUT else f'{READ_OUTPUT} with {{"id": "{call_id}"}}'
    return (
        f"[{tool} {told}: {size} characters, given before and left out here. "
        f"To see them again: {how}.]"
    )


OUTPUT_TOOLS: Sequence[Tool] = (
    Tool(
        name=READ_OUTPUT,
        description=(
            "Read the result of an earlier call of this conversation that was too long to be given"
            " whole, or that is left out by now: a range of its rows, or the rows that match a"
            " pattern. To see a file as it is now, use read_file."
        ),
        arguments=ReadOutput,
        tool_class=ToolClass.PURE,
        touches=touches_nothing,
        prepare=_prepare_output,
        run=_read,
        of_record=True,
    ),
)
