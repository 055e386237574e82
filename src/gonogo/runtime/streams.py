"""Streams: the events of a session from any place in its log on, without gaps or duplicates.

A message's receipt says which of them are its answer.
"""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from msgspec import Struct
from pydantic import TypeAdapter

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.errors import Busy, InvalidCursor, NotFound, parts_of
from gonogo.domain.identity import Principal
from gonogo.domain.records import Session
from gonogo.domain.views import DecisionAnswer
from gonogo.execution.event_bus import Follower, Onlooker, TextOrder, body_of
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, visible
from gonogo.store import Tx, patiently
from gonogo.store.events import PAGE, events_after
from gonogo.store.hints import TextPart

Body = Mapping[str, Any]
_NEWS: Body = {"type": "news"}
_MOMENT = 0.2
"""Seconds in which all changes in a session count as one piece of news."""
_PLAN_ENDS = frozenset({"plan_completed", "plan_cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An accepted message. Its answer is what follows `after` in the session's log."""

    session_id: str
    after: int
    turn_id: str | None = None
    plan_id: str | None = None
    answers: tuple[DecisionAnswer, ...] = ()
    """One for each id of a batch."""
    told: int = 0
    """The last event that was told when the message was accepted; it belongs to the answer."""
    settled: int = 0
    """Where the last decision of a batch was taken: nothing before it ends the answer."""
    created: bool = False
    """The message made the session."""
    ends: int = 0
    """The last event of an answer that starts nothing, as more people have to agree."""
    approval_id: str = ""
    """The question that was answered, or the one with which an edit replaced it."""
    outcome: Literal["decided", "voted", "asked_again"] | None = None
    """The effect of a decision."""

    def as_json(self) -> dict[str, Any]:
        """The receipt as it is stored for a repeat of its request."""
        return _RECEIPT.dump_python(self, mode="json", exclude_none=True)

    @staticmethod
    def of_json(kept: dict[str, Any]) -> "Receipt":
        """A receipt that was stored."""
        return _RECEIPT.validate_python(kept)

    def covers(self, body: Mapping[str, Any]) -> bool:
        """Whether an event belongs to the answer."""
        if self.turn_id is None and self.plan_id is None:
            return True
        if self.turn_id is not None and body.get("turn_id") == self.turn_id:
            return True
        if self.plan_id is not None and body.get("plan_id") == self.plan_id:
            return True
        return body.get("seq", self.told + 1) <= self.told


_RECEIPT: TypeAdapter[Receipt] = TypeAdapter(Receipt)


class Streams(Struct, frozen=True):
    """The verbs that return event streams."""

    _parts: Parts

    @asynccontextmanager
    async def follow(
        self, principal: Principal, session_id: str, after: int, *, again: bool = False
    ) -> AsyncGenerator[AsyncGenerator[Body]]:
        """All events of a session after a place in its log: first stored ones, then live ones.

        Parts of a text have no `seq`. The stream ends when the runtime closes.

        Args:
            again: The reader had this stream before, and has what was written of a text so far.
                Other readers first get all that was written so far.

        Raises:
            NotFound: there is no such session that the principal may see, or it was deleted; the
                events from before that come first.
            InvalidCursor: the place is in the future, or before the beginning.
        """
        async with self._bodies(session_id, after, again=again) as bodies:
            # If it is deleted from now on, the follower is told.
            session: Session = await self._parts.store.read(visible, principal, session_id)
            if not 0 <= after <= session.last_seq:
                raise InvalidCursor(
                    "The session's log ends at {last_seq}, before {after}; use a smaller `after`",
                    last_seq=session.last_seq, after=after,
                )  # fmt: skip
            yield bodies

    @asynccontextmanager
    async def answer(self, receipt: Receipt) -> AsyncGenerator[AsyncGenerator[Body]]:
        """The events that a message caused, up to the one that ends its answer."""
        async with (
            self._bodies(receipt.session_id, receipt.after) as bodies,
            aclosing(_answer(receipt, bodies)) as answer,
        ):
            yield answer

    @asynccontextmanager
    async def news(self, principal: Principal) -> AsyncGenerator[AsyncGenerator[Body]]:
        """Which sessions change from now on, as far as the principal may know.

        A body is `{type: news, session_id, events}`, with the types of the events about the change.
        Without a `session_id` it is about the list of sessions, or about questions in other
        people's sessions. Changes at nearly the same time are one body.
        """
        with self._parts.hub.look_on() as onlooker:
            async with aclosing(self._news(onlooker, principal)) as bodies:
                yield bodies

    async def _news(self, onlooker: Onlooker, principal: Principal) -> AsyncGenerator[Body]:
        # The first news makes a client that was away look once for what it missed.
        yield _NEWS
        while not self._parts.closing.is_set():
            changed = await onlooker.take()
            with patiently():
                bodies = await self._parts.store.read(_news_of, principal, changed)
            for body in bodies:
                yield body
            await anyio.sleep(_MOMENT)

    @asynccontextmanager
    async def _bodies(
        self, session_id: str, after: int, *, again: bool | None = None
    ) -> AsyncGenerator[AsyncGenerator[Body]]:
        # Follow before the first read, so that no event is lost between reading and pushing.
        follower = self._parts.hub.follow(session_id)
        try:
            async with aclosing(self._flow(follower, session_id, after, again)) as bodies:
                yield bodies
        finally:
            self._parts.hub.leave(session_id, follower)

    async def _flow(
        self, follower: Follower, session_id: str, cursor: int, again: bool | None
    ) -> AsyncGenerator[Body]:
        async for body in self._kept(session_id, cursor):
            cursor = body["seq"]
            yield body
        follower.seen, order = cursor, TextOrder(cursor, again=again is True)
        if again is False:
            follower.begin_texts(self._parts.live.so_far(session_id))
        while not self._parts.closing.is_set():
            await follower.wait()
            async for body in self._pushed(follower, session_id, cursor, order):
                if "seq" in body:
                    cursor = body["seq"]
                    order.told(body)
                yield body
            follower.seen = cursor
            if follower.is_last:
                raise NotFound(
                    "The session {session_id} was deleted; open a new one", session_id=session_id
                )

    async def _pushed(
        self, follower: Follower, session_id: str, cursor: int, order: TextOrder
    ) -> AsyncGenerator[Body]:
        """The items that were pushed to a follower; missing events are read from the log."""
        if follower.is_behind:
            follower.is_behind = False
            async for missed in self._kept(session_id, cursor):
                cursor = missed["seq"]
                yield missed
        while follower.items:
            item = follower.items.popleft()
            bodies = (
                self._written(item, order, cursor)
                if isinstance(item, TextPart)
                else self._told(item, session_id, cursor)
            )
            async for body in bodies:
                cursor = body.get("seq", cursor)
                yield body

    async def _told(self, body: Body, session_id: str, cursor: int) -> AsyncGenerator[Body]:
        seq = body.get("seq", cursor + 1)
        if seq == cursor + 1:
            yield body
        elif seq > cursor:
            async for missed in self._kept(session_id, cursor):
                yield missed

    async def _written(
        self, piece: TextPart, order: TextOrder, cursor: int
    ) -> AsyncGenerator[Body]:
        """A part of a text from another process, after the events from before the text began."""
        if piece.after < order.since:
            with patiently():
                page = await self._parts.store.read(events_after, piece.session_id, piece.after)
            order.recall(piece.after, page)
        if piece.after > cursor:
            async for missed in self._kept(piece.session_id, cursor):
                yield missed
        if text := order.next_of(piece):
            yield body_of(text, piece.place)

    async def _kept(self, session_id: str, cursor: int) -> AsyncGenerator[Body]:
        while True:
            # A follower waits anyway, so the stream stays open while the database is away.
            try:
                with patiently():
                    page = await self._parts.store.read(events_after, session_id, cursor)
            except Busy:
                if self._parts.closing.is_set():
                    return
                raise
            for body in page:
                cursor = body["seq"]
                yield body
            # An event after this read wakes the follower, who reads again.
            if len(page) < PAGE:
                return


def _news_of(tx: Tx, principal: Principal, changed: Mapping[str, Collection[str]]) -> list[Body]:
    bodies: list[Body] = []
    for chain, types in changed.items():
        if chain == SYSTEM:
            bodies.append(_NEWS)
        elif seen(tx, principal, chain) is not None:
            bodies.append({**_NEWS, "session_id": chain, "events": sorted(types)})
        elif asked := sorted(each for each in types if each.startswith("approval_")):
            # Rules of review may let the principal see a question in it; the client has to look.
            bodies.append({**_NEWS, "events": asked})
    return bodies


async def _answer(receipt: Receipt, bodies: AsyncGenerator[Body]) -> AsyncGenerator[Body]:
    refused = [answer for answer in receipt.answers if not answer.ok]
    for answer in refused:
        yield _error(answer)
    if refused and len(refused) == len(receipt.answers):
        return
    events = _only_told(receipt, bodies) if receipt.ends else _set_going(receipt, bodies)
    async with aclosing(events):
        async for body in events:
            yield body


def _error(answer: DecisionAnswer) -> Body:
    said = answer.said
    return {
        "type": "error", "error": said, "content": said, "code": answer.code, **parts_of(said),
        "call_id": answer.id, "is_final": False,
    }  # fmt: skip


async def _only_told(receipt: Receipt, bodies: AsyncGenerator[Body]) -> AsyncGenerator[Body]:
    """The events of a decision that starts nothing."""
    if receipt.ends <= receipt.after:
        return
    async for body in bodies:
        over = body.get("seq", 0) >= receipt.ends
        if over or ("seq" in body and receipt.covers(body)):
            yield {**body, "is_final": over}
        if over:
            return


async def _set_going(receipt: Receipt, bodies: AsyncGenerator[Body]) -> AsyncGenerator[Body]:
    plan_id = receipt.plan_id
    async for body in bodies:
        if receipt.covers(body):
            plan_id = body.get("plan_id", plan_id)
        elif plan_id is None or body.get("plan_id") != plan_id:
            continue
        if not body.get("is_final"):
            yield body
        elif _goes_on(receipt, body):
            yield {**body, "is_final": False}
        else:
            yield body
            return


def _goes_on(receipt: Receipt, body: Body) -> bool:
    """Whether more of this answer follows an event that is final for others.

    Other decisions of the same batch may follow, or the turn that waited for a plan to end.
    """
    turn_goes_on = receipt.turn_id is not None and body["type"] in _PLAN_ENDS
    return body["seq"] <= receipt.settled or turn_goes_on
