"""What a foreign server says besides its answers is counted, and what is too much ends it."""

from math import ceil

import anyio
import pytest

from gonogo.tools.mcp.connection import Chatter, bounded_client

MIB = 1 << 20


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = float(ceil(anyio.current_time()) + 1_000)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock(monkeypatch) -> Hand:
    hand = Hand()
    monkeypatch.setattr(anyio, "current_time", hand)
    return hand


@pytest.fixture
async def chatter(clock) -> Chatter:
    return Chatter("docs")


def words(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_so_much_may_come_unasked_at_once_and_then_nothing_is_listened_to(chatter, caplog):
    assert chatter.unasked(1_999)
    assert chatter.unasked()
    assert not chatter.gone.is_set()
    assert not chatter.unasked()
    assert (chatter.why, chatter.gone.is_set()) == (
        "it keeps writing what nobody asked for",
        True,
    )
    chatter.end("of something else")
    assert not chatter.came(0, 0)
    assert words(caplog) == ["MCP server docs is ended: it keeps writing what nobody asked for"]


async def test_lines_that_are_no_messages_count_twenty_and_the_first_is_shown(chatter, caplog):
    for _ in range(100):
        assert chatter.junk(b"bad \xff" + b"x" * 400)
    assert not chatter.junk(b"other")
    shown = "bad \ufffd" + "x" * 295
    assert words(caplog) == [
        f"MCP server docs writes what is no message; this is said once: {shown!r}",
        "MCP server docs is ended: it keeps writing lines that are not messages (101)",
    ]


async def test_bytes_are_counted_and_each_line_as_a_thousand_more(chatter):
    assert chatter.came(60 * MIB, 3 * 1_024)
    assert chatter.came(MIB - 1_024)
    assert not chatter.came(1, 0)
    assert chatter.why == "it writes too much too fast"
    many = Chatter("docs")
    assert many.came(0, 64 * 1_024)
    assert not many.came(1, 0)


async def test_what_was_spent_comes_back_up_to_the_burst(chatter, clock):
    assert chatter.unasked(2_000)
    clock.now += 3
    assert chatter.unasked(300)
    clock.now += 0.5
    assert chatter.unasked(50)
    clock.now += 1_000
    assert chatter.unasked(2_000)
    assert chatter.came(64 * MIB, 0)
    clock.now += 2
    assert chatter.came(8 * MIB, 0)
    assert not chatter.unasked(201)


async def test_a_call_without_an_answer_is_told_by_what_there_was_instead(chatter):
    assert str(chatter.late(2.5)) == "its server timed out: no answer within 2.5 s"
    assert str(chatter.doubt("closed")) == "its server ended: closed"
    assert chatter.reason("it ended") == "it ended"
    chatter.words(b"x" * 3_000)
    assert chatter.reason("it ended") == f"it ended; it said: {'x' * 300}"
    chatter.words(b"\nthe \xff end \n \n")
    chatter.junk(b"a")
    chatter.junk(b"b")
    junk = "lines that it wrote and that are not messages: 2"
    assert chatter.reason("it ended") == f"it ended; {junk}; it said: the \ufffd end"
    assert str(chatter.doubt("closed")) == (
        f"its server ended: closed; {junk}; it said: the \ufffd end"
    )
    assert str(chatter.late(60)) == (
        "its server timed out: no readable answer within 60 s, and 2 lines that are not messages"
    )
    chatter.end("it is too slow")
    assert str(chatter.doubt("closed")) == "gonogo stopped its server: it is too slow"
    assert chatter.reason("closed") == "gonogo stopped it: it is too slow"


async def test_a_client_of_a_foreign_server_waits_for_so_long_and_sends_its_headers():
    async with bounded_client({"Authorization": "x"}, 7.5, Chatter("docs")) as client:
        assert client.headers["authorization"] == "x"
        timeout = client.timeout
        assert (timeout.connect, timeout.read, timeout.write) == (10, 7.5, 10)
        unopened = await client.get("http://127.0.0.1:1/")
        assert unopened.status_code == 405
