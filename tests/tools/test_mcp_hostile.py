"""Servers that want to do harm: each is told from an honest one, starves nobody, fills no log."""

import logging
import os
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import anyio
import pytest

from fakes import hostile, hostile_http, mcp_stdio
from fakes.mcp_server import write_tools
from fakes.until import time_passes, until
from fakes.world import is_running
from gonogo.domain.errors import GonogoError, OutcomeUnknown, ToolFailed
from gonogo.tools import ServerConfig
from gonogo.workspace import DEFAULT_PATH
from tools.test_mcp_servers import run, serving

PATH = os.pathsep.join(part for part in sys.path if part)
IMPATIENT = {"timeout": 5.0, "start_timeout": 10.0}
PATIENT = {"timeout": 60.0, "start_timeout": 60.0}
SILENT = {
    "says nothing", "no listing", "dribble", "no answer", "deep", "half a pair", "a long number",
    "what is no message", "a trickle", "of another",
}  # fmt: skip
"""What is waited for in vain."""
LIVES = 3
"""How often a server that fails is started in a while."""
ARGUMENTS = {
    "bomb": {"x": {"a": 1, "b": 2}}, "unique": {"a": list(range(20_000))},
    "branches": {"a": list(range(20_000))}, "pattern": {"a": "a" * 60 + "!"},
    "another dialect": {"a": "a" * 60 + "!"}, "multiple": {"a": 10**400},
    "itself": {"a": {}}, "far away": {"a": {}},
}  # fmt: skip
_JUNK = "lines that are not messages (101)"
FLOODS = {
    "junk": _JUNK, "junk of braces": _JUNK, "bytes that are no text": _JUNK,
    "blank lines": "too much too fast", "an endless line": "longer than 4194304 bytes",
    "brackets": _JUNK, "batches": _JUNK, "junk at a call": _JUNK,
    "progress": "what nobody asked", "log": "what nobody asked",
    "changes": "what nobody asked", "unknown words": "what nobody asked",
    "sampling": "what nobody asked", "elicitation": "what nobody asked",
    "roots": "what nobody asked", "pings": "what nobody asked",
    "pings that nobody reads": "what nobody asked", "answers to nothing": "what nobody asked",
}  # fmt: skip
"""What a server does without end, and what it is ended for."""
USUAL = {"junk", "an endless line", "junk at a call", "changes", "sampling"}
"""Those that every run tries; the others are of the same kinds."""


def some(names, usual):
    """All of them for a long run, a few for every run."""
    return [
        pytest.param(name, marks=() if name in usual else pytest.mark.nightly) for name in names
    ]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def config(tmp_path):
    """A hostile server as a program; `config(trick)`."""

    def configured(trick):
        folder = tmp_path / "hostile"
        folder.mkdir(exist_ok=True)
        return ServerConfig(
            name="docs",
            command=(sys.executable, "-m", "fakes.hostile", trick, str(folder)),
            folder=folder, environment={"PATH": DEFAULT_PATH, "PYTHONPATH": PATH},
            agents=("coder",), **(IMPATIENT if trick in SILENT else PATIENT),
        )  # fmt: skip

    return configured


@pytest.fixture
def honest(tmp_path):
    """A server that does what it should."""
    folder = tmp_path / "honest"
    folder.mkdir()
    write_tools(folder, "search")
    return ServerConfig(
        name="honest", command=tuple(mcp_stdio.command(folder)),
        folder=folder, environment={"PATH": DEFAULT_PATH}, agents=("coder",),
    )  # fmt: skip


@asynccontextmanager
async def over_http(trick, config):
    """A hostile server at an address."""
    async with hostile_http.hostile(trick) as (url, asked):
        yield replace(config(trick), command=(), url=url), asked


async def use(servers, folder, trick=""):
    """Whatever comes of listing its tools and calling the first of them."""
    offered = await servers.offered(lambda config: config.name == "docs")
    name = offered[0] if offered else "mcp__docs__search"
    return await run(servers, folder, name, **ARGUMENTS.get(trick, {"text": "x"}))


async def until_it_failed(servers):
    """Wait until the hostile server is over; gives why."""

    def error():
        return next(each.error for each in servers.report() if each.name == "docs")

    await until(error)
    return error()


def told(caplog):
    """What was logged of it, here and by the library."""
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("trick", some(FLOODS, USUAL))
async def test_a_server_that_floods_is_ended_with_a_word_and_others_work_meanwhile(
    trick, config, honest, caplog
):
    flooding = config(trick)
    async with serving(flooding, honest) as servers:
        async with anyio.create_task_group() as group:

            async def work():
                for number in range(3):
                    answer = await run(
                        servers, honest.folder, "mcp__honest__search", text=str(number)
                    )
                    assert answer["content"] == f"search: {number}"

            group.start_soon(work)
            # It may answer before it is ended.
            with suppress(ToolFailed):
                await use(servers, flooding.folder)
        error = await until_it_failed(servers)
        assert error.startswith("gonogo stopped it: ")
        assert FLOODS[trick] in error
    assert 1 <= len(told(caplog)) <= 2 * LIVES
    assert all(len(record.getMessage()) < 1_000 for record in told(caplog))
    await is_running(str(flooding.folder), wanted=False)


async def test_a_program_that_writes_to_its_other_output_without_end_waits_for_us(config, caplog):
    noisy = config("stderr")
    async with serving(noisy) as servers:
        assert await use(servers, noisy.folder) == {"content": "done"}
        assert await use(servers, noisy.folder) == {"content": "done"}
        assert servers.report()[0].state == "ready"
    assert told(caplog) == []


@pytest.mark.parametrize(
    "trick",
    some([t for t in hostile.TRICKS if t not in {*FLOODS, "kills us"}], {"many parts", "bomb"}),
)
async def test_whatever_a_program_does_a_call_has_an_end_and_another_server_works(
    trick, config, honest, caplog
):
    odd = config(trick)
    async with serving(odd, honest) as servers:
        for _ in range(2):
            # A result, or an error that names the reason; anything else fails here.
            with suppress(GonogoError):
                assert isinstance(await use(servers, odd.folder, trick), dict)
        answer = await run(servers, honest.folder, "mcp__honest__search", text="x")
        assert answer["content"] == "search: x"
    assert len(told(caplog)) <= 2 * LIVES
    assert not any(record.exc_info for record in told(caplog))
    await is_running(str(odd.folder), wanted=False)


HTTP_FLOODS = {
    "comments": "too much", "lines": "too much", "other events": "too much",
    "comments at once": "too much", "notifications": "what nobody asked",
    "long notifications": "what nobody asked", "sampling": "what nobody asked",
    "again at once": "what nobody asked",
}  # fmt: skip


@pytest.mark.parametrize("trick", some(HTTP_FLOODS, {"comments", "sampling", "again at once"}))
async def test_an_address_that_floods_is_ended_and_not_asked_without_end(trick, config, caplog):
    async with over_http(trick, config) as (there, asked), serving(there) as servers:
        with pytest.raises(ToolFailed, match=f"stopped its server: .*{HTTP_FLOODS[trick]}"):
            await use(servers, there.folder)
        assert asked.count("GET") < 100
        assert asked.count("") < 300, "so often it was told no"
    assert len(told(caplog)) <= LIVES
    assert not any(record.exc_info for record in told(caplog))


HTTP_FAULTS = hostile_http.TRICKS.keys() - {*HTTP_FLOODS, hostile_http.PACKED_IF_WANTED}


@pytest.mark.parametrize("trick", some(sorted(HTTP_FAULTS), {"infinite", "no JSON", "packed"}))
async def test_whatever_an_address_does_a_call_has_an_end(trick, config, caplog):
    async with over_http(trick, config) as (there, _), serving(there) as servers:
        for _ in range(2):
            with pytest.raises(GonogoError) as failure:
                await use(servers, there.folder)
            assert 0 < len(str(failure.value)) < 2_000
    assert not any(record.exc_info for record in told(caplog))


async def test_an_address_is_told_not_to_pack_its_answers(config):
    trick = hostile_http.PACKED_IF_WANTED
    async with over_http(trick, config) as (there, _), serving(there) as servers:
        assert await use(servers, there.folder) == {"content": "as you like it"}


@pytest.mark.parametrize(
    ("trick", "why"),
    [
        (
            "is no answer",
            "its server's answer cannot be read: an answer that the protocol does not",
        ),
        ("null in it", "its server's answer cannot be read: content: Input should be a valid list"),
        ("a large number", "its server's answer cannot be read: Out of range float values"),
        ("goes at a call", "its server ended: Connection closed"),
        ("too long", "gonogo stopped its server: a message is longer than 4194304 bytes"),
    ],
)
async def test_an_answer_that_is_none_leaves_a_doubt_that_says_why(trick, why, config):
    odd = config(trick)
    async with serving(odd) as servers:
        with pytest.raises(OutcomeUnknown) as doubt:
            await use(servers, odd.folder)
        assert str(doubt.value).startswith(why)


async def test_an_answer_of_which_nothing_can_be_read_is_said_to_have_been_a_line(config, caplog):
    odd = replace(config("what is no message"), **PATIENT)

    async def is_silent():
        await until(lambda: "here is your answer" in caplog.text)
        await anyio.wait_all_tasks_blocked()
        time_passes(PATIENT["timeout"])

    async with serving(odd) as servers, anyio.create_task_group() as group:
        group.start_soon(is_silent)
        with pytest.raises(OutcomeUnknown, match="60 s, and 1 lines that are not"):
            await use(servers, odd.folder)


@pytest.mark.parametrize("trick", ["accepted", "a page"])
async def test_over_http_what_is_no_answer_to_a_call_leaves_a_doubt_too(trick, config):
    async with over_http(trick, config) as (there, _), serving(there) as servers:
        with pytest.raises(OutcomeUnknown, match="cannot be read"):
            await use(servers, there.folder)


async def test_an_error_of_a_servers_own_is_no_doubt_and_ends_nothing(config):
    honest_error = config("an error of its own")
    async with serving(honest_error) as servers:
        for _ in range(LIVES + 2):
            with pytest.raises(ToolFailed, match=r"^mine$") as failure:
                await use(servers, honest_error.folder)
            assert failure.value.kind == "server_error"


async def test_some_chatter_is_put_up_with(config, caplog):
    chatty = config("answers of others")
    async with serving(chatty) as servers:
        for _ in range(5):
            assert await use(servers, chatty.folder) == {"content": "yours"}
        assert servers.report()[0].state == "ready"
    assert len(told(caplog)) == 1


async def test_a_listing_is_bounded_however_many_tools_and_pages_it_has(config):
    for trick, offered in [("many tools", 256), ("endless pages", 0), ("large schemas", 25)]:
        async with serving(config(trick)) as servers:
            assert len(await servers.offered(lambda config: True)) == offered
