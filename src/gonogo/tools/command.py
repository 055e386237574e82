"""execute_command."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.network import read_network
from gonogo.domain.tool_calls import Access, ToolClass
from gonogo.tools.base import Arguments, Bench, JsonObject, Prepared, Tool
from gonogo.workspace import Reached, Workspace, elsewhere, run_command

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
        preview="\n".join(_preview(arguments, cwd)),
    )


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
