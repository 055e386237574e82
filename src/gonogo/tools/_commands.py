"""execute_command."""

from typing import Annotated

from pydantic import Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.gate import Access, ToolClass
from gonogo.tools._tool import Arguments, Bench, JsonObject, Prepared, Tool
from gonogo.workspace import Workspace, run_command

MAX_COMMAND = 32_000
MAX_TIMEOUT = 3_600


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


def _prepare(workspace: Workspace, arguments: ExecuteCommand) -> Prepared:
    if "\0" in arguments.command:
        raise ToolFailed("invalid_arguments", "A command holds no NUL character")
    final = arguments.final()
    cwd = None if arguments.cwd is None else workspace.real(arguments.cwd)
    if cwd is not None:
        with workspace.folder(cwd):
            final["cwd"] = cwd
    return Prepared(
        arguments=final,
        access=Access(command=arguments.command, cwd=cwd),
        preview=arguments.command if cwd in (None, ".") else f"cd {cwd}\n{arguments.command}",
    )


async def _run(bench: Bench, arguments: ExecuteCommand) -> JsonObject:
    try:
        result = await run_command(
            bench.workspace,
            arguments.command if bench.run_as is None else bench.run_as,
            cwd=arguments.cwd,
            timeout=arguments.timeout or bench.command_timeout,
            output_cap=bench.output_cap,
            sandbox=bench.sandbox,
            hidden=bench.hidden,
            network=bench.network,
            read_only=bench.read_only,
            search_path=bench.search_path,
            on_spawn=bench.on_spawn,
        )
    except ToolFailed as failure:
        if failure.kind == "symlink_escape":
            raise ToolFailed(
                "changed_since_approval", f"{failure}; it was a folder when it was approved"
            ) from failure
        raise
    return {
        "exit_code": result.exit_code,
        "output": result.output,
        "truncated": result.truncated,
        "timed_out": result.timed_out,
        "duration_ms": result.duration_ms,
    }


COMMAND_TOOLS = (
    Tool(
        name="execute_command",
        description=(
            "Run a command line in bash. Standard output and errors come together; what it leaves"
            " in the background ends with it. There is no network and no input."
        ),
        arguments=ExecuteCommand,
        tool_class=ToolClass.OTHER,
        prepare=_prepare,
        run=_run,
    ),
)
