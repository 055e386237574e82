"""Servers of the SDK, as processes and on a port: started when needed, bounded, gone with us."""

import json
import os
import socket
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import pytest

from fakes import mcp_stdio
from fakes.mcp_server import served_over_http, write_tools
from fakes.world import is_running
from gonogo.domain.errors import OutcomeUnknown, ToolFailed
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory
from gonogo.tools import Bench, Remembered, ServerConfig, ServerPool
from gonogo.workspace import DEFAULT_PATH, Workspace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = os.pathsep.join(part for part in sys.path if part)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path):
    """What the fake server goes by."""
    write_tools(tmp_path, "search")
    return tmp_path


@pytest.fixture
def config(folder):
    """The fake server as a program."""
    return ServerConfig(
        name="docs", command=tuple(mcp_stdio.command(folder)), folder=folder,
        environment={"PATH": DEFAULT_PATH, "PYTHONPATH": PATH}, agents=("coder",),
    )  # fmt: skip


@pytest.fixture
def sdk(config, folder):
    """The same, as the SDK speaks."""
    return replace(config, command=(sys.executable, "-m", "fakes.mcp_server", str(folder)))


async def at_first_sight(definitions):
    """What a store gives that has never seen any of it."""
    return {
        each.name: ToolHistory([Sighting(
            name=each.name, position=1, digest=each.digest, definition=each.body, seen_at=NOW,
            accepted_at=NOW, accepted_by="first sight",
        )])
        for each in definitions
    }  # fmt: skip


@asynccontextmanager
async def serving(*configs):
    """Servers that may run while the block does."""
    servers = ServerPool({config.name: config for config in configs}, at_first_sight)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            await group.start(servers.serve)
            yield servers
            group.cancel_scope.cancel()


async def run(servers, folder, name="mcp__docs__search", **given):
    """One call, as it runs once it is allowed."""
    tool, _ = await servers.look(name)
    bench = Bench(workspace=Workspace(folder), output_cap=400)
    return await tool.run(bench, tool.parse(given))


async def test_a_program_starts_when_it_is_needed_and_nothing_of_it_is_left(folder, sdk):
    async with serving(sdk) as servers:
        assert servers.report()[0].state == "idle"
        assert await servers.offered(lambda server: "ask" in server.agents) == ()
        assert servers.report()[0].state == "idle"
        assert await servers.offered(lambda server: "coder" in server.agents) == (
            "mcp__docs__search",
        )
        [report] = servers.report()
        assert (report.state, report.version, report.error) == ("ready", "fake 1", None)
        assert servers.lent("coder") == ("mcp__docs__search",)
        assert servers.lent("ask") == ()
        assert await run(servers, folder, text="x") == {
            "content": "search: x", "structured": {"said": "search: x"},
        }  # fmt: skip
        await is_running(str(folder))
    await is_running(str(folder), wanted=False)


async def test_an_answer_is_bounded_and_a_failure_is_told(folder, sdk):
    async with serving(sdk) as servers:
        result = await run(servers, folder, size=5_000)
        assert result["content"].count("x") == 400
        assert "[… 4600 characters left out …]" in result["content"]
        assert result["structured_truncated"]
        with pytest.raises(ToolFailed, match="no such page") as told:
            await run(servers, folder, fail="no such page")
        assert told.value.kind == "server_error"


async def test_a_call_without_an_answer_has_an_outcome_that_nobody_knows(folder, config):
    quick = replace(config, timeout=3.0)
    async with serving(quick) as servers:
        with pytest.raises(OutcomeUnknown, match="timed out"):
            await run(servers, folder, wait=True)
        with pytest.raises(OutcomeUnknown):
            await run(servers, folder, exit=3)
        # It starts again, and is as good as new.
        assert (await run(servers, folder, text="x"))["content"] == "search: x"


async def test_a_server_that_fails_again_and_again_is_left_alone(folder, config):
    async with serving(config) as servers:
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                await run(servers, folder, exit=3)
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(ToolFailed, match=r"failed 3 times .*the fake server is up.*next try"):
            await run(servers, folder, text="x")
        assert len((folder / "calls").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("no-such-program",), "There is no program 'no-such-program' on its PATH"),
        (("sh", "-c", "echo oh no >&2; exit 1"), "oh no"),
        (("sh", "-c", "echo hello; cat >/dev/null"), "does not answer in time"),
        (("sh", "-c", "head -c 9000000 /dev/zero; cat >/dev/null"), ""),
    ],
)
async def test_a_program_that_is_no_server_offers_nothing_and_says_why(config, command, problem):
    odd = replace(config, command=command, start_timeout=4.0)
    async with serving(odd) as servers:
        assert await servers.offered(lambda server: True) == ()
        [report] = servers.report()
        assert report.state == "failed"
        assert problem in (report.error or "")
        with pytest.raises(ToolFailed) as told:
            await servers.look("mcp__docs__search")
        assert told.value.kind == "server_unavailable"


async def test_a_server_that_does_not_list_its_tools_is_away_and_not_waited_for(folder, config):
    (folder / "lists nothing").touch()
    async with serving(replace(config, start_timeout=3.0)) as servers:
        with pytest.raises(ToolFailed, match=r"^MCP server docs does not list its tools$") as told:
            await servers.look("mcp__docs__search")
        assert told.value.kind == "server_unavailable"


async def test_tools_that_do_not_fit_are_left_out_and_it_is_said_why(folder, config):
    plain = {"type": "object", "properties": {}}
    listed = ["search", "Search", "twice", "twice", "hidden", "delete"]
    tools = [{"name": name, "description": "", "parameters": plain} for name in listed]
    (folder / "tools.json").write_text(json.dumps(tools))
    choosy = replace(
        config, tools=("search", "Search", "twice", "delete"),
        classes={"delete": ToolClass.IRREVERSIBLE},
    )  # fmt: skip
    async with serving(choosy) as servers:
        offered = await servers.offered(lambda server: True)
        assert offered == ("mcp__docs__search", "mcp__docs__delete")
        [report] = servers.report()
        assert report.refused == {
            "Search": "a tool's name has small letters, digits, - and _, and nothing else",
            "twice": "the server lists two tools of that name",
        }  # fmt: skip
        tool, _ = await servers.look("mcp__docs__delete")
        assert tool.tool_class is ToolClass.IRREVERSIBLE
        for name in ("mcp__docs__twice", "mcp__docs__hidden", "mcp__other__search"):
            with pytest.raises(ToolFailed) as told:
                await servers.look(name)
            assert told.value.kind == "unknown_tool"


async def test_an_address_is_spoken_to_over_http_with_its_headers(folder, config):
    async with served_over_http(folder) as url:
        there = replace(config, command=(), url=url, headers={"Authorization": "x"})
        async with serving(there) as servers:
            assert (await run(servers, folder, text="x"))["content"] == "search: x"
            with pytest.raises(ToolFailed, match="no such page"):
                await run(servers, folder, fail="no such page")
            write_tools(folder, "search", fetch="New.")
            tool, _ = await servers.look("mcp__docs__fetch")
            assert tool.description == "New."


async def test_an_address_where_nobody_is_offers_nothing(config):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    nobody = replace(config, command=(), url=f"http://127.0.0.1:{port}/mcp", start_timeout=60.0)
    async with serving(nobody) as servers:
        assert await servers.offered(lambda server: True) == ()
        assert servers.report()[0].state == "failed"


async def test_a_tool_that_was_seen_is_known_though_nobody_is_asked_and_others_are_not(config):
    said = {"name": "search", "description": "Finds", "parameters": {"type": "object"}}
    name = "mcp__docs__search"
    seen = ToolHistory([Sighting(
        name=name, position=1, digest="d", definition=said, seen_at=NOW, accepted_at=None,
        accepted_by=None,
    )])  # fmt: skip
    remembered = Remembered({"docs": config}, {name: seen})

    tool, standing = await remembered.look(name)

    assert (tool.name, standing) == (name, seen)
    with pytest.raises(ToolFailed) as failure:
        await remembered.look("mcp__docs__other")
    assert failure.value.kind == "unknown_tool"
