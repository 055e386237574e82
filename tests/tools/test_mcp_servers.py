"""Servers of the SDK, as processes and on a port: started when needed, bounded, gone with us."""

import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import pytest

from fakes import mcp_stdio
from fakes.mcp_server import served_over_http, write_tools
from fakes.sockets import held_port
from fakes.until import time_passes, until
from fakes.world import is_running
from gonogo.domain.errors import OutcomeUnknown, ToolFailed
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory
from gonogo.tools import Bench, Definition, Remembered, ServerConfig, ServerPool, ServerReport
from gonogo.tools.mcp.connection import Listed
from gonogo.tools.mcp.servers import _ToolList
from gonogo.tools.schemas import SchemaChecks
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


async def silence(asked, seconds):
    """Have so much time pass once the server has been asked, of which that file tells."""
    await until(asked.exists)
    await anyio.wait_all_tasks_blocked()
    time_passes(seconds)


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
    slow = replace(config, timeout=50.0)
    async with serving(slow) as servers, anyio.create_task_group() as group:
        group.start_soon(silence, folder / "calls", 50)
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
    ("command", "problem", "seconds"),
    [
        (("no-such-program",), "There is no program 'no-such-program' on its PATH", 60.0),
        (("sh", "-c", "echo oh no >&2; exit 1"), "oh no", 60.0),
        (("sh", "-c", "echo hello; cat >/dev/null"), "does not answer in time", 0.5),
        (("sh", "-c", "head -c 9000000 /dev/zero; cat >/dev/null"), "", 60.0),
    ],
)
async def test_a_program_that_is_no_server_offers_nothing_and_says_why(
    config, command, problem, seconds
):
    odd = replace(config, command=command, start_timeout=seconds)
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
    slow = replace(config, start_timeout=50.0)
    async with serving(slow) as servers, anyio.create_task_group() as group:
        group.start_soon(silence, folder / "was asked", 50)
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
    with held_port() as port:
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
    assert (failure.value.kind, str(failure.value)) == (
        "unknown_tool", "no server has listed mcp__docs__other yet"
    )  # fmt: skip
    assert (tool.description, tool.definition.body) == ("Finds", said)
    assert (remembered.of("docs"), remembered.of("web")) == ((name,), ())
    assert (remembered.lent("coder"), remembered.lent("ask")) == ((name,), ())
    assert remembered.borrowers(name) == ("coder",)


DOCS = ServerConfig(
    name="docs", command=("docs-server", "--secret"), agents=("coder",), tools=("search",)
)
WEB = ServerConfig(name="web", url="https://web.example/mcp?key=secret", agents=("ask",))
BAD = ServerConfig(name="bad", fault="mcp.toml:1: it has no command")


async def test_servers_that_do_not_run_are_known_by_what_their_file_says():
    pool = ServerPool({each.name: each for each in (DOCS, WEB, BAD)}, at_first_sight)
    tools = [
        "mcp__docs__search",
        "mcp__docs__delete",
        "mcp__web__any",
        "mcp__other__x",
        "read_file",
    ]
    assert [tool in pool for tool in (*tools, 5)] == [True, False, True, False, False, False]
    lent = [pool.lends(tool, "coder") for tool in (*tools, "mcp__bad__x")]
    assert lent == [True, False, False, False, False, True]
    assert pool.borrowers("mcp__docs__search") == ("coder",)
    idle = [
        ServerReport(name="docs", place="docs-server", state="idle", agents=("coder",)),
        ServerReport(name="web", place="https://web.example", state="idle", agents=("ask",)),
        ServerReport(name="bad", place="", state="failed", error="mcp.toml:1: it has no command"),
    ]
    assert pool.report() == idle
    still = "servers do not run for a command that only shows something"
    for tool, kind, said in [
        ("mcp__other__x", "unknown_tool", "no server offers mcp__other__x"),
        ("mcp__docs__delete", "unknown_tool", "no server offers mcp__docs__delete"),
        ("mcp__docs__search", "server_unavailable", still),
        ("mcp__bad__x", "server_unavailable", "MCP server bad: mcp.toml:1: it has no command"),
    ]:
        with pytest.raises(ToolFailed) as failure:
            await pool.look(tool)
        assert (failure.value.kind, str(failure.value)) == (kind, said)
    assert await pool.offered(lambda config: config.name == "docs") == ()
    assert [(each.state, each.error) for each in pool.report()[:2]] == [
        ("failed", still), ("idle", None),
    ]  # fmt: skip


async def test_a_table_without_a_name_could_be_any_server_and_its_fault_is_told():
    unread = ServerConfig(name="mcp.toml:4", fault="mcp.toml:4: server 2: name: Field required")
    pool = ServerPool({"docs": DOCS, unread.name: unread}, at_first_sight)
    assert "mcp__other__x" in pool
    assert pool.lends("mcp__other__x", "ask")
    with pytest.raises(ToolFailed, match=r"^MCP server mcp.toml:4: mcp.toml:4: server 2: name: "):
        await pool.look("mcp__other__x")


PLAIN = {"type": "object"}


def test_a_listing_takes_what_fits_and_says_why_the_rest_does_not():
    listing = _ToolList(WEB)
    assert listing.add([Listed("one", "d", PLAIN), Listed("x" * 200, "d", PLAIN)])
    assert listing.add([Listed("two", "d", PLAIN), Listed("two", "e", PLAIN)])
    assert listing.add([Listed("two", "f", PLAIN), Listed("odd", "d", [])])
    assert [each.name for each in listing.definitions] == ["mcp__web__one"]
    assert listing.refused == {
        "x" * 100: listing.refused["x" * 100], "odd": "its schema: it is not an object",
        "two": "the server lists two tools of that name",
    }  # fmt: skip
    again = _ToolList(WEB, listing)
    again.add([Listed("one", "d", PLAIN)])
    assert again.definitions[0] is listing.definitions[0]
    other = _ToolList(WEB, listing)
    other.add([Listed("one", "another", PLAIN)])
    assert other.definitions[0].description == "another"


def test_all_schemas_of_a_listing_are_read_in_one_time():
    listing = _ToolList(WEB)
    listing._checks = SchemaChecks(0)
    listing.add([Listed("one", "d", PLAIN)])
    assert listing.definitions == []
    assert listing.refused["one"].startswith("its schema: ")


def test_a_listing_has_a_most_of_tools_and_of_characters():
    many = _ToolList(WEB)
    assert many.add([Listed(f"t{n}", "", PLAIN) for n in range(255)])
    assert not many.add([Listed(f"u{n}", "", PLAIN) for n in range(2)])
    assert not many.add([Listed("v", "", PLAIN)])
    assert len(many.definitions) == 256
    long = _ToolList(WEB)
    frame = Definition(server="web", tool="t000", description="", parameters=PLAIN).size
    most, rest = divmod(1 << 20, 8_000 + frame)
    long.add([Listed(f"t{n:03}", "x" * 8_000, PLAIN) for n in range(most)])
    long.add([Listed("full", "x" * (rest - frame + 1), PLAIN)])
    long.add([Listed("fits", "x" * (rest - frame), PLAIN)])
    assert len(long.definitions) == most + 1
    why = "its server's tools have more than 1048576 characters together"
    assert long.refused == {"full": why}
