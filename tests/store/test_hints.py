"""Hints between processes: the first goes out at once, and what follows it goes together."""

import asyncio
import select
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import pytest
from sqlalchemy import text

from fakes.until import LIMIT, clock_stops_after
from gonogo.domain.base import WrittenEvent
from gonogo.store import Membership, Store, Tx, hints
from gonogo.store.hints import Hint

pytestmark = [pytest.mark.parametrize("kind", ["postgresql"]), pytest.mark.feature(236)]
MEMBER = Membership(kind="server", pool="default", home="here")


class Ear:
    """What one process hears of another."""

    def __init__(self, teller: Store, reader: Store) -> None:
        assert teller.hints is not None
        assert reader.hints is not None
        self.store, self.said, self.hints = teller, teller.hints, list[Hint]()
        self.shown = list[Any]()
        self._news = anyio.Event()
        reader.hints.listen(self._hear, self.shown.append)

    async def until(self, session: str) -> None:
        """Wait until there was a hint of a session."""
        with anyio.fail_after(LIMIT):
            while not any(session in hint.sessions for hint in self.hints):
                await self._news.wait()

    def _hear(self, hint: Hint | None) -> None:
        if hint is not None:
            self.hints.append(hint)
        news, self._news = self._news, anyio.Event()
        news.set()

    async def listens(self) -> None:
        """Wait until there is somebody who hears; only then does it count what is said."""
        await self._news.wait()


@asynccontextmanager
async def ear(url: str) -> AsyncIterator[Ear]:
    with (
        closing(Store(url, drives=True, shared_as=MEMBER)) as teller,
        closing(Store(url, drives=True, shared_as=MEMBER)) as reader,
    ):
        found = Ear(teller, reader)
        await found.listens()
        found.said.say(["first"])
        await found.until("first")
        yield found


async def test_a_hint_is_heard_before_any_other_could_have_been_gathered(
    database_url: str, kind: str
) -> None:
    async with ear(database_url) as other:
        with clock_stops_after(0):
            other.said.say(["at once"])
            await other.until("at once")


async def test_what_is_said_while_a_hint_is_on_its_way_goes_out_together(
    database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_its_way, goes_on = asyncio.Event(), threading.Event()
    loop, send = asyncio.get_running_loop(), hints._Line._send

    def held_up(line: hints._Line, said: list[hints.Message]) -> bool:
        loop.call_soon_threadsafe(on_its_way.set)
        assert goes_on.wait(LIMIT)
        return send(line, said)

    async with ear(database_url) as other:
        monkeypatch.setattr(hints._Line, "_send", held_up)
        other.said.say(["a"])
        await on_its_way.wait()
        for each in ("b", "c", "b", "d"):
            # Each in a turn of the loop of its own.
            await asyncio.sleep(0)
            other.said.say([each])
        goes_on.set()
        await other.until("d")
    assert [hint.sessions for hint in other.hints[1:]] == [["a"], ["b", "c", "d"]]


async def test_more_than_a_message_takes_comes_in_several_and_nothing_is_lost(
    database_url: str, kind: str
) -> None:
    many = [f"session_{number}" for number in range(100)]
    async with ear(database_url) as other:
        other.said.say(many, timers=["2026-01-01T00:00:00+00:00"])
        await other.until(many[-1])
    heard = other.hints[1:]
    assert [session for hint in heard for session in hint.sessions] == many
    assert [at for hint in heard for at in hint.timers] == ["2026-01-01T00:00:00+00:00"]


async def test_owners_of_places_are_told_by_the_commit_and_of_nothing_that_was_not_committed(
    database_url: str, kind: str
) -> None:
    def work(tx: Tx, place: str, *, holds: bool = True) -> None:
        tx.outbox.wanted |= {place, "it's ours"}
        assert holds

    async with ear(database_url) as other:
        with pytest.raises(AssertionError):
            await other.store.write(work, "lost", holds=False)
        await other.store.write(work, "p1")
        # Nobody has delivered anything.
        other.said.say(["last"])
        await other.until("last")
    assert [hint.places for hint in other.hints if hint.places] == [["it's ours", "p1"]]


def told(session: str, seq: int, content: str) -> WrittenEvent:
    fields = {"session_id": session, "seq": seq, "type": "assistant_message", "content": content}
    return WrittenEvent(fields)


async def test_events_that_others_follow_come_whole_and_in_order_before_what_is_said_later(
    database_url: str, kind: str
) -> None:
    events = [told(session, seq, "да\x00") for seq in range(1, 40) for session in ("a", "b")]
    async with ear(database_url) as other:
        for each in events:
            other.said.say(events=[each])
        other.said.say(["last"])
        await other.until("last")
    for session in ("a", "b"):
        mine = [each for each in events if each["session_id"] == session]
        shown = [each for each in other.shown if each["session_id"] == session]
        assert shown == mine
        assert [each.written for each in shown] == [each.written for each in mine]
    assert [hint.sessions for hint in other.hints] == [["first"], ["last"]]


async def test_of_events_that_no_message_can_take_the_session_is_named(
    database_url: str, kind: str
) -> None:
    async with ear(database_url) as other:
        other.said.say(events=[told("a", 1, "short"), told("a", 2, "ы" * 5_000), told("b", 1, "")])
        await other.until("a")
    assert other.shown == [told("b", 1, "")]


async def test_who_listens_is_woken_by_what_is_said_and_by_nothing_else(
    database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled = list[threading.Thread]()

    class Poll:
        """The kernel's own, which says when somebody was woken."""

        def __init__(self) -> None:
            self._poll = poll()
            self.register = self._poll.register

        def poll(self, *limits: int) -> list[tuple[int, int]]:
            found = self._poll.poll(*limits)
            polled.append(threading.current_thread())
            return found

    poll = select.poll
    monkeypatch.setattr(select, "poll", Poll)
    # One of a test before may be about to end.
    before_it = set(threading.enumerate())
    async with ear(database_url) as other:
        begun = set(threading.enumerate()) - before_it
        [listener] = [each for each in begun if each.name == "gonogo-listener"]
        before = polled.count(listener)
        await other.store.read(lambda tx: tx.execute(text("SELECT pg_sleep(0.5)")))
        assert polled.count(listener) == before
        other.said.say(["last"])
        await other.until("last")
        assert polled.count(listener) > before
    listener.join(LIMIT)
    assert not listener.is_alive()
