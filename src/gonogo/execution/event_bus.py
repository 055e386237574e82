"""The hub: hands what happened in a session to those who follow it now.

A follower has a bounded buffer. When it is full, the oldest items are dropped: durable events are
read from the database later; live text (as a model writes it) is lost to that follower alone.
"""

import logging
from collections import defaultdict, deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import monotonic
from typing import Any

import anyio
from msgspec import Struct, field

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.base import WrittenEvent
from gonogo.domain.events import AssistantMessage
from gonogo.store import Hold, Store, new_id, patiently
from gonogo.store.events import last_seqs
from gonogo.store.hints import Hint, TextPart
from gonogo.store.transaction import held

_LOG = logging.getLogger(__name__)
Body = Mapping[str, Any]
_BUFFER = 1_000


class Follower:
    """One reader's place in a session's stream."""

    def __init__(self) -> None:
        self.items: deque[Body | TextPart] = deque(maxlen=_BUFFER)
        self.seen = 0
        """The place in the log up to which the reader has got the events."""
        self.is_last = False
        """Whether nothing follows what is in `items`: the session is gone."""
        self.is_behind = False
        """Whether the log may have events that were never pushed here."""
        self._grew = anyio.Event()

    def push(self, item: Body | TextPart) -> None:
        """Add something, and wake the reader."""
        self.items.append(item)
        self._grew.set()

    def begin_texts(self, so_far: Sequence[Body]) -> None:
        """Replace pushed parts of unfinished texts by all that was written of them so far."""
        told = [item for item in self.items if isinstance(item, TextPart) or "seq" in item]
        self.items.clear()
        for item in (*told, *so_far):
            self.push(item)

    def wake(self) -> None:
        """Have the reader look again."""
        self._grew.set()

    async def wait(self) -> None:
        """Return at once if something was pushed since the last wait, else when it is."""
        await self._grew.wait()
        self._grew = anyio.Event()


class Onlooker:
    """One reader of the news: which sessions changed since the last look, and by which events."""

    def __init__(self) -> None:
        self._changed: dict[str, set[str]] = {}
        self._grew = anyio.Event()

    def push(self, changed: Mapping[str, Collection[str]]) -> None:
        """Add what changed, and wake the reader."""
        for chain, types in changed.items():
            self._changed.setdefault(chain, set()).update(types)
        self._grew.set()

    async def take(self) -> dict[str, set[str]]:
        """Wait until something has changed since the last call, and return it by session."""
        await self._grew.wait()
        self._grew, changed, self._changed = anyio.Event(), self._changed, {}
        return changed


class Hub:
    """Who follows which session in this process, and who looks at all of them."""

    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = defaultdict(set)
        self._onlookers: set[Onlooker] = set()
        self._watchers: list[Callable[[Body], None]] = []
        self.on_follow: Callable[[str], None] = _nobody_else
        """Called when somebody begins to follow a session."""

    def follow(self, session_id: str) -> Follower:
        """Begin to follow a session; what is told from now on is pushed."""
        follower = Follower()
        self._followers[session_id].add(follower)
        self.on_follow(session_id)
        return follower

    def leave(self, session_id: str, follower: Follower) -> None:
        """Follow no longer."""
        followers = self._followers[session_id]
        followers.discard(follower)
        if not followers:
            del self._followers[session_id]

    @contextmanager
    def look_on(self) -> Generator[Onlooker]:
        """Be told for a while which sessions change."""
        onlooker = Onlooker()
        self._onlookers.add(onlooker)
        try:
            yield onlooker
        finally:
            self._onlookers.discard(onlooker)

    def tell_news(self, changed: Mapping[str, Collection[str]]) -> None:
        """Tell onlookers which sessions changed, and the types of the events that tell of it."""
        for onlooker in self._onlookers:
            onlooker.push(changed)

    def watch(self, *watchers: Callable[[Body], None]) -> None:
        """Call functions with every durable event of every session, in this process."""
        self._watchers.extend(watchers)

    def tell(self, session_id: str, body: Body) -> None:
        """Push something to everybody who follows the session."""
        followers = self._followers.get(session_id)
        if followers:
            told = body if isinstance(body, WrittenEvent) else WrittenEvent({**body})
            for follower in followers:
                follower.push(told)

    def show(self, shown: TextPart | Body) -> None:
        """Push an event of another process, or a part of a text that is being written there."""
        if isinstance(shown, TextPart):
            for follower in self._followers.get(shown.session_id, ()):
                follower.push(shown)
            return
        self.tell_news({SYSTEM: ()})
        self.tell(shown["session_id"], shown)

    def tell_event(self, body: Body) -> None:
        """Push a durable event, to the watchers too."""
        self.tell(body["session_id"], body)
        for watcher in self._watchers:
            try:
                watcher(body)
            except Exception:
                # A watcher that only counts events must not keep them from those who wait for them.
                _LOG.exception("a watcher of events failed")

    @property
    def followed(self) -> list[str]:
        """The sessions that somebody follows here."""
        return list(self._followers)

    def told_elsewhere(self, session_id: str, seq: int | None = None) -> None:
        """Have those who follow a session look into its log: another process has written there.

        Args:
            seq: Where the log ends; a follower that has read that far is left alone.
        """
        if seq is None:
            # Nobody says here what it wrote, so onlookers have to look.
            self.tell_news({SYSTEM: ()})
        for follower in self._followers.get(session_id, ()):
            if seq is None or follower.seen < seq:
                follower.is_behind = True
                follower.wake()

    def end(self, session_id: str) -> None:
        """Have those who follow a session know that it is gone."""
        for follower in self._followers.get(session_id, ()):
            follower.is_last = True
            follower.wake()

    def refresh(self) -> None:
        """Have every reader look into the log: another process may have written there."""
        self.tell_news({SYSTEM: ()})
        for session_id in self._followers:
            self.told_elsewhere(session_id)

    def wake_all(self) -> None:
        """Have every reader look again: the process is about to end."""
        self.tell_news({})
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()


def _nobody_else(session_id: str) -> None:
    """Do nothing: where one process does all the work, it knows its followers."""


# Text while a model writes it, for those who follow the session: here, or on any server.
#
# Nothing stores it, so it may be lost. It is never wrong: a reader sees a text from its beginning,
# without a hole, and nothing of it after the event that ended it, no matter how and how late its
# parts come.

_EVERY = 0.1
"""Seconds between two sends; what is written in between goes out together."""
_PART, _AT_ONCE = 1_000, 50
"""Characters of one piece; pieces that go out together."""
_AGAIN = 50_000
"""Characters up to which a text is shown from its start to a reader who comes later."""
_WANTED = 15.0
"""Seconds for which a session's texts are sent after a server said that somebody follows it."""


class _Answer(Struct, eq=False, kw_only=True):
    """A text that is being written in a place of ours."""

    id: str
    session_id: str
    place: Mapping[str, Any]
    hold: Hold
    after: int | None = None
    """Where the session's log ended while it was being written; read once somebody follows it."""
    text: str = ""
    sent: int = 0
    """How many of its characters were sent."""
    reached: int = 0
    """How many others had already got when sending began again for the last new reader."""
    new: list[str] = field(default_factory=list[str])

    @property
    def is_due(self) -> bool:
        return bool(self.new) or self.sent < len(self.text)

    def begin_anew(self) -> None:
        """Send the text again from its beginning, for a new reader."""
        self.reached, self.sent = max(self.reached, self.sent), 0

    def take_back(self, at: int) -> None:
        """Send the text again from a position on: what follows it may have reached nobody."""
        self.reached, self.sent = min(self.reached, at), min(self.sent, at)

    def pieces(self, most: int) -> Iterable[TextPart]:
        """The next pieces to send: so many at most."""
        if self.after is None:
            return
        self.text += "".join(self.new)
        self.new.clear()
        last = min(len(self.text), self.sent + most * _PART)
        for at in range(self.sent, last, _PART):
            yield TextPart(
                session_id=self.session_id, answer=self.id, fence=self.hold.fence,
                after=self.after, at=at, text=self.text[at : min(at + _PART, last)],
                place={**self.place}, reached=self.reached,
            )  # fmt: skip
        self.sent = last


class _Here(Struct, eq=False, frozen=True):
    """A text that is being written where one process does all the work."""

    session_id: str
    place: Mapping[str, Any]
    text: list[str]


class LiveText:
    """Shows what models write in this process."""

    def __init__(self, store: Store, hub: Hub) -> None:
        """Show texts to followers in this process, until a hint names others."""
        self._store, self._hub = store, hub
        self._answers: dict[str, _Answer] = {}
        self._here: list[_Here] = []
        self._wanted: dict[str, float] = {}
        """Until when the texts of a session are sent."""
        self._news = anyio.Event()

    @asynccontextmanager
    async def answer(
        self, session_id: str, place: Mapping[str, Any]
    ) -> AsyncGenerator[Callable[[str], None]]:
        """Provide a function that takes a text part by part, for as long as a model writes it.

        Args:
            place: The turn or subtask, as events name it.
        """
        hold = held()
        if hold is None:
            here = _Here(session_id, place, [])
            self._here.append(here)
            try:
                yield partial(self._tell, here)
            finally:
                self._here.remove(here)
            return
        answer = _Answer(id=new_id("text"), session_id=session_id, place=place, hold=hold)
        self._answers[answer.id] = answer
        try:
            yield partial(self._add, answer)
        finally:
            # The event that ends the text contains what was not sent.
            del self._answers[answer.id]

    def so_far(self, session_id: str) -> list[dict[str, Any]]:
        """What this process has written so far of a session's unfinished texts."""
        return [
            body_of("".join(here.text), here.place)
            for here in self._here
            if here.session_id == session_id and here.text
        ]

    def follow(self, hint: Hint) -> None:
        """Send texts of the sessions that are followed elsewhere."""
        now = monotonic()
        until = now + _WANTED
        self._wanted = {each: until for each, until in self._wanted.items() if until > now}
        self._wanted.update(dict.fromkeys((*hint.followed, *hint.joined), until))
        joined = set(hint.joined)
        for answer in self._answers.values():
            if answer.session_id in joined and answer.sent <= _AGAIN:
                answer.begin_anew()
        if hint.followed or joined:
            self._news.set()

    async def serve(self) -> None:
        """Send what is written, for as long as somebody follows it elsewhere."""
        while True:
            await self._news.wait()
            await anyio.sleep(_EVERY)
            self._news = anyio.Event()
            await self._place_new()
            pieces = self._pieces()
            if pieces and not await self._show(pieces):
                self._take_back(pieces)

    def is_followed(self, session_id: str) -> bool:
        """Whether somebody follows a session in another process."""
        return self._wanted.get(session_id, 0.0) > monotonic()

    async def _place_new(self) -> None:
        """Find the place in the log for each new text that somebody follows.

        A text that ends before its place is known is not shown any more. So the event that ends
        a shown text always comes after its place.
        """
        new = [
            each
            for each in self._answers.values()
            if each.after is None and self.is_followed(each.session_id)
        ]
        if new:
            with patiently():
                found = await self._store.read(last_seqs, [each.session_id for each in new])
            for each in new:
                each.after = found.get(each.session_id)

    def _tell(self, here: _Here, token: str) -> None:
        here.text.append(token)
        self._hub.tell(here.session_id, body_of(token, here.place))

    def _add(self, answer: _Answer, token: str) -> None:
        answer.new.append(token)
        self._news.set()

    def _pieces(self) -> list[TextPart]:
        pieces: list[TextPart] = []
        for answer in self._answers.values():
            if self.is_followed(answer.session_id) and answer.hold.is_safe():
                pieces.extend(answer.pieces(_AT_ONCE - len(pieces)))
                if answer.is_due and answer.after is not None:
                    self._news.set()
        return pieces

    async def _show(self, pieces: list[TextPart]) -> bool:
        assert self._store.hints is not None  # noqa: S101 - as the place has a hold
        return await self._store.hints.show(pieces)

    def _take_back(self, pieces: list[TextPart]) -> None:
        """Send pieces again that may have reached nobody; readers know by `at` what they have."""
        for piece in pieces:
            if (answer := self._answers.get(piece.answer)) is not None:
                answer.take_back(piece.at)
        self._news.set()


def body_of(text: str, place: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a text as followers get it."""
    return AssistantMessage(content=text, token=text, is_final=False, **place).body()


_TEXTS, _PLACES = 50, 200
"""How many texts, and how many turns and subtasks, a reader remembers."""


class TextOrder:
    """Decides which parts of texts from another process a reader may see."""

    def __init__(self, since: int = 0, *, again: bool = False) -> None:
        """Begin at a place in the log, without knowing what was told before.

        Args:
            again: The reader had this stream before, and has what was sent of its texts.
        """
        self._had = since if again else -1
        """The reader has what was sent of texts that began up to this place in the log."""
        self.since = since
        """The place in the log after which all events are known."""
        self._fence = 0
        self._shown: dict[str, int] = {}
        """How many characters of each text the reader has."""
        self._told: dict[str, int] = {}
        """Where in the log the last event is, by turn or subtask."""
        self._floor = 0
        """Texts that were begun before this place in the log are over, or may be."""

    def told(self, body: Mapping[str, Any]) -> None:
        """Note an event that the reader got: it ends the text of its turn or subtask."""
        if body["type"] == "owner_changed":
            self._floor = max(self._floor, body["seq"])
        elif body["type"] != "steered":
            place, seq = _place_of(body), body["seq"]
            self._told[place] = max(seq, self._told.pop(place, 0))
            if len(self._told) > _PLACES:
                self._floor = max(self._floor, self._told.pop(next(iter(self._told))))

    def recall(self, after: int, page: Sequence[Mapping[str, Any]]) -> None:
        """Learn also the earlier events, if they are not too many.

        Args:
            after: A place in the log.
            page: The events that follow it.
        """
        if page and page[-1]["seq"] < self.since:
            self._floor, self.since = max(self._floor, self.since), 0
            return
        for body in page:
            self.told(body)
        self.since = after

    def next_of(self, piece: TextPart) -> str:
        """What the reader may see of a piece now; nothing, if it came too late or too soon.

        The reader has read the log at least up to the place where the text began.
        """
        # From a worker that counted as lost, and did not know it.
        is_stale, self._fence = piece.fence < self._fence, max(self._fence, piece.fence)
        ended = max(self._floor, self._told.get(_place_of(piece.place), 0))
        begins = max(piece.at, piece.reached) if piece.after <= self._had else 0
        has = self._shown.get(piece.answer, begins)
        if is_stale or ended > piece.after or piece.after < self.since or piece.at > has:
            return ""
        text = piece.text[has - piece.at :]
        self._shown[piece.answer] = has + len(text)
        if len(self._shown) > _TEXTS:
            del self._shown[next(iter(self._shown))]
        return text


def _place_of(body: Mapping[str, Any]) -> str:
    if "subtask_id" in body:
        return f"{body.get('plan_id')}/{body['subtask_id']}"
    return body.get("turn_id") or body.get("plan_id") or ""
