"""A real MCP server of the SDK: `python -m fakes.mcp_server FOLDER [PORT]`, over stdio or HTTP.

It lists what FOLDER/tools.json holds at that moment, a list of `{name, description, parameters}`,
and writes each call as a line into FOLDER/calls; while there is a file "lists nothing", it does not
answer who asks for the list. What a call does follows from its arguments:

    {"text": "hi"}     the tool's name and the text, as text and as structured content
    {"fail": "why"}    an error of the tool
    {"exit": 3}        the server ends in the middle of the call
    {"size": 1000}     so many letters
    {"wait": true}     no answer ever
    {"beside": 8}      an answer once there were so many calls
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from fakes.sockets import held_port
from fakes.until import until

PLAIN = {"type": "object", "properties": {"text": {"type": "string"}}}


def write_tools(folder: Path, *names: str, **described: Any) -> None:
    """Have the server list tools: plain ones by name, others with a description or a whole."""
    tools = [{"name": name, "description": f"Does {name}.", "parameters": PLAIN} for name in names]
    for name, said in described.items():
        whole = said if isinstance(said, dict) else {"description": said}
        tools.append({"name": name, "description": "", "parameters": PLAIN, **whole})
    (folder / "tools.json").write_text(json.dumps(tools))


def _count(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def server_of(folder: Path) -> Server[Any]:
    """The server of a folder."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        if (folder / "lists nothing").exists():
            await anyio.sleep_forever()
        listed = json.loads((folder / "tools.json").read_text())
        return ListToolsResult(
            tools=[
                Tool(
                    name=each["name"],
                    description=each["description"],
                    input_schema=each["parameters"],
                )
                for each in listed
            ]
        )

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        given = params.arguments or {}
        with (folder / "calls").open("a") as calls:
            calls.write(json.dumps([params.name, given]) + "\n")
        if "exit" in given:
            os._exit(given["exit"])
        if "wait" in given:
            await anyio.sleep_forever()
        await until(lambda: _count(folder) >= given.get("beside", 0))
        if "fail" in given:
            return CallToolResult(
                content=[TextContent(type="text", text=given["fail"])], is_error=True
            )
        said = "x" * given["size"] if "size" in given else f"{params.name}: {given.get('text')}"
        return CallToolResult(
            content=[TextContent(type="text", text=said)], structured_content={"said": said}
        )

    return Server("fake", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio(folder: Path) -> None:
    """Serve whoever started us."""
    server = server_of(folder)
    print("the fake server is up", file=sys.stderr)  # noqa: T201
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(folder: Path, port: int) -> uvicorn.Server:
    """A server on this port of the machine itself."""
    app = server_of(folder).streamable_http_app()
    return uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))


@asynccontextmanager
async def served_over_http(folder: Path) -> AsyncIterator[str]:
    """A server in this process, for the time of a block; gives its address."""
    with held_port() as port:
        server = over_http(folder, port)
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve)
            await until(lambda: server.started)
            yield f"http://127.0.0.1:{port}/mcp"
            server.should_exit = True


if __name__ == "__main__":
    if len(sys.argv) > 2:
        over_http(Path(sys.argv[1]), int(sys.argv[2])).run()
    else:
        anyio.run(over_stdio, Path(sys.argv[1]))
