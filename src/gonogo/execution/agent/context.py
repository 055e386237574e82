"""Requests to models: built from the record of a conversation, and from nothing else.

The record (messages and calls) is never shortened, but what a model sees of it is: a long result is
cut, an old result of a call that only looked becomes a line, and a text replaces the older part of
a conversation that does not fit. Each of these steps is a message of the conversation itself, so
that the same record always builds the same request. Between two steps a request begins with the
one before it, byte for byte, which is what providers cache. So what was built for a conversation is
kept, and only what is new is added to it.

A message, with the provider's own form of it, and the results of its calls stay together or go
together.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, takewhile

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.records import CallRow
from gonogo.domain.replanning import tokens_of
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import (
    Compacted,
    Instructions,
    Message,
    PlanAccount,
    Reply,
    Shortened,
    Steering,
    ToolAnswer,
    ToolClass,
    ToolSchema,
    UserText,
    accounted,
    continued,
    count_said,
    repaired,
    steered,
    unfinished,
    with_instructions_first,
)
from gonogo.execution.agent import call_log
from gonogo.execution.agent.conversation import Aliases, Thread, names_others
from gonogo.i18n import say
from gonogo.store import Tx
from gonogo.store.calls import calls_since
from gonogo.store.plans import named_ids
from gonogo.store.sessions import conversation_since
from gonogo.tools import excerpt, how_to_read, line_of, text_of

ELIDE_FROM = 0.6
"""The share of the window from which on old results become lines."""
COMPACT_FROM = 0.8
"""The share of the window from which on a text replaces the older part."""
_RECENT = 0.2
"""The share of the window that elision and compaction leave alone at the end."""
_WORTH = 0.1
"""The share of the window that a step must free; otherwise it breaks the cache for nothing."""
_RESULTS = 0.25
"""The share of the window that all results of one reply may have."""
_KEPT = 0.25
"""The share of the window for one message that stays when older ones go."""
_LEAST = 200
"""Tokens that a result may have in any case."""
_SMALL = 60
"""Tokens of a result that is too small to replace by a line."""
_AROUND = 4
"""Tokens that a message takes besides its text."""


class Frame(Struct, frozen=True):
    """What stands before the messages of every request of a thread."""

    system: str
    tools: tuple[ToolSchema, ...]

    @property
    def tokens(self) -> int:
        """An estimate of what it takes."""
        schemas = (json.dumps(tool.model_dump()) for tool in self.tools)
        return estimate(self.system) + sum(map(estimate, schemas))


class Passage(Struct, frozen=True):
    """A message of a conversation; after a reply also the whole results of its calls."""

    message: Message
    answers: tuple[ToolAnswer, ...] = ()


class ThreadRecord(Struct, frozen=True, kw_only=True, dict=True):
    """A conversation as the record has it at one moment."""

    read: "StoredThread"
    """The rows from which it was built."""
    places: Sequence[Passage]
    calls: Mapping[str, CallRow]
    """By their ids."""
    shown: Mapping[str, int]
    """The results that are shortened: how many tokens of each are left."""
    compacted: Compacted | None = None
    marked: int = 0
    """How many messages there were when something was shortened for the last time."""
    refused: int | None = None
    """The smallest number of tokens that a provider refused as too many."""
    accounts: Mapping[str, str]
    """The account of each plan that ended in it."""
    note: str
    """The message to the model after a reply that was cut off."""
    waited: bool = False
    """Its owner waits for a model that did not answer."""
    briefed: bool = True
    """The model is told what instruction files say."""
    begun: str = ""
    """The text so far of an unfinished reply at its end."""
    aliases: Aliases = Aliases()
    """The short names of the ids in it."""
    said: int = 0
    """How many messages in it people said to an agent at work."""

    @property
    def start(self) -> int:
        """The first message that no text has replaced."""
        return self.compacted.before if self.compacted else 0

    @cached_property
    def whole(self) -> tuple[Message, ...]:
        """The whole conversation, as people would read it."""
        found = chain.from_iterable((place.message, *place.answers) for place in self.places)
        return accounted(_as_users(found), self.accounts)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages as the model gets them."""
        found = [*self._head(), *chain.from_iterable(map(self.shown_of, self._rest))]
        return tuple(map(self.aliases.sent, self._told(found)))

    @property
    def _rest(self) -> Sequence[Passage]:
        return self.places[self.start :]

    def may_grow_by(self, said: Sequence[Message]) -> bool:
        """Whether new messages only come after the old ones, and change none of them."""
        # What people said to an agent at work stays at the end until a reply knows of it.
        is_heard = not any(isinstance(place.message, Steering) for place in self.places[-1:])
        is_plain = all(isinstance(each, Reply | UserText) for each in said)
        return is_heard and is_plain and not unfinished(self.read.said)

    @property
    def earlier(self) -> tuple[str, ...]:
        """The models of the replies that a text has replaced."""
        gone = (place.message for place in self.places[: self.start])
        return tuple(message.model for message in gone if isinstance(message, Reply))

    def _told(self, found: Sequence[Message]) -> tuple[Message, ...]:
        if not self.briefed:
            found = [each for each in found if not isinstance(each, Instructions)]
        return continued(accounted(_as_users(found), self.accounts), self.note)

    def _head(self) -> Iterator[Message]:
        if self.compacted is None:
            return
        for at in self.compacted.kept:
            yield _clipped(self.places[at].message, self.compacted.clip)
        yield UserText(content=self.aliases.told(self.compacted.text))

    def shown_of(self, place: Passage) -> tuple[Message, ...]:
        """One place as the model sees it."""
        return (place.message, *map(self._shown_answer, place.answers))

    def _shown_answer(self, answer: ToolAnswer) -> ToolAnswer:
        tokens, call = self.shown.get(answer.call_id), self.calls.get(answer.call_id)
        if tokens is None or call is None:
            return answer
        content = self._line(call) if tokens == 0 else self._part(call, tokens)
        return answer.model_copy(update={"content": content})

    # How shortened results look. These are the rules of version 1: a later version adds others
    # beside them, since records name the version that made them.

    def _line(self, call: CallRow) -> str:
        told = self.aliases.told_arguments(call.tool, call.arguments)
        return line_of(call.tool, told, self.aliases.of_id(call.id), len(self._came_of(call)))

    def _part(self, call: CallRow, tokens: int) -> str:
        how = how_to_read(self.aliases.of_id(call.id), call.tool)
        return excerpt(self._came_of(call), tokens, how)

    def _came_of(self, call: CallRow) -> str:
        return text_of(self.aliases.told_result(call, call_log.came_of(call)))

    def size_of(self, place: Passage) -> int:
        """What one place takes in a request."""
        return sum(map(tokens_in, self._told(self.shown_of(place))))

    def is_worth(self, end: int, window: int) -> bool:
        """Whether it frees enough if a text replaces the messages before `end`."""
        return sum(map(self.size_of, self.places[self.start : end])) >= window * _WORTH

    def tokens(self, frame: Frame) -> int:
        """The size of the next request: the provider's count of the last one, and what came since.

        If nothing was counted since something was shortened, all of it is estimated.
        """
        for at in range(len(self.places) - 1, max(self.start, self.marked) - 1, -1):
            reply = self.places[at].message
            if isinstance(reply, Reply) and reply.usage.input_tokens:
                place = self.places[at]
                since: list[Message] = [*map(self._shown_answer, place.answers)]
                since += chain.from_iterable(map(self.shown_of, self.places[at + 1 :]))
                return reply.taken + sum(map(tokens_in, self._told(since)))
        return frame.tokens + sum(map(tokens_in, self.messages))


_STEP = 5
"""Per cent of a window; followers are told of each such step, up or down."""


def with_filling(reply: Reply, before: Sequence[Message], window: int) -> Reply:
    """A reply with how full the window is, and with the window's size if followers must be told.

    Args:
        before: What the conversation holds already.
        window: The model's, in tokens.
    """
    filled = reply.taken * 100 // window // _STEP * _STEP or None
    last = next((each for each in reversed(before) if isinstance(each, Reply)), None)
    is_news = filled != (last.filled if last else None)
    return reply.model_copy(update={"filled": filled, "window": window if is_news else None})


class RequestPart(Struct, frozen=True):
    """One kind of content in a request."""

    name: str
    tokens: int
    count: int


def parts_of(found: ThreadRecord, frame: Frame) -> list[RequestPart]:
    """What the next request would contain, by kind, estimated."""
    tools = Frame("", frame.tools).tokens
    parts = [
        RequestPart("system", estimate(frame.system), 1),
        RequestPart("tools", tools, len(frame.tools)),
    ]
    sizes: dict[str, list[int]] = {}
    before = found.compacted.text if found.compacted else None
    for message in found.messages:
        kind = _kind_of(message, found.shown, before)
        sizes.setdefault(kind, []).append(tokens_in(message))
    return parts + [RequestPart(kind, sum(each), len(each)) for kind, each in sizes.items()]


def _kind_of(message: Message, shown: Mapping[str, int], before: str | None) -> str:
    match message:
        case ToolAnswer(call_id=call_id) if call_id in shown:
            return "lines" if shown[call_id] == 0 else "excerpts"
        case ToolAnswer():
            return "results"
        case Reply():
            return "replies"
        case UserText(content=content) if content == before:
            return "summary"
        case Instructions():
            return "instructions"
        case _:
            return "texts"


def estimate(text: str) -> int:
    """Tokens of a text: one for every four bytes (letters of other alphabets have more bytes)."""
    return tokens_of(len(text.encode("utf-8", "replace")))


def tokens_in(message: Message) -> int:
    """What a message takes in a request."""
    match message:
        case Reply(usage=usage) if usage.output_tokens:
            return usage.output_tokens // message.asked
        case Reply():
            made = sum(estimate(json.dumps(call.arguments)) for call in message.calls)
            return _AROUND + estimate(message.text) + made
        case _:
            return _AROUND + estimate(getattr(message, "content", ""))


def cache_key(frame: Frame, messages: Sequence[Message]) -> str:
    """The key under which a provider caches a conversation; it stays the same throughout.

    It is made of the first messages, so that the same work has the same key wherever it runs.
    """
    first = takewhile(lambda message: not isinstance(message, Reply), messages)
    told = "\0".join((frame.system, *(getattr(message, "content", "") for message in first)))
    return sha256(told.encode("utf-8", "replace")).hexdigest()[:32]


# From the rows of the database to the conversation.


class StoredThread(Struct, frozen=True, kw_only=True):
    """The rows of a conversation."""

    said: Sequence[Message]
    numbers: Sequence[int] = ()
    """The numbers of the messages; empty if they were not read."""
    calls: Mapping[str, CallRow]
    """By their ids, in their order."""
    named: Sequence[str] | None = None
    """The ids of the session's plans and of comments on them, in their order; None if nothing in
    the conversation can name one."""
    waited: bool = False
    """Its owner waits for a model that did not answer."""

    def since(self, known: "StoredThread") -> "StoredThread | None":
        """What is new; None unless all that is known is unchanged, and comes before it."""
        length = len(known.said)
        calls = {i: call for i, call in self.calls.items() if call is not known.calls.get(i)}
        is_longer = len(known.numbers) == length and known.numbers == self.numbers[:length]
        is_new = calls.keys().isdisjoint(known.calls) and self.named == known.named
        return replace(self, said=self.said[length:], calls=calls) if is_longer and is_new else None


_NOTHING = StoredThread(said=(), calls={})


def read_thread(tx: Tx, thread: Thread, known: StoredThread = _NOTHING) -> StoredThread:
    """The rows of a thread.

    Args:
        known: What was read before; it is not read again.
    """
    place, before = (
        (thread.session_id, thread.name),
        dict(zip(known.numbers, known.said, strict=False)),
    )
    said, calls = conversation_since(tx, *place, before), calls_since(tx, *place, known.calls)
    new = [message for number, message in said.items() if number not in before]
    ended = [call for call in calls.values() if call is not known.calls.get(call.id)]
    named = known.named is not None or names_others(new, ended)
    return StoredThread(
        said=tuple(said.values()), numbers=tuple(said), calls=calls,
        named=named_ids(tx, thread.session_id) if named else None,
        waited=thread.owner.is_waiting(tx),
    )  # fmt: skip


def first_record(tx: Tx, session_id: str, said: Sequence[Message], *, waited: bool) -> StoredThread:
    """The rows of a thread in which nobody has answered yet."""
    named = named_ids(tx, session_id) if names_others(said, ()) else None
    return StoredThread(said=said, calls={}, named=named, waited=waited)


def plans_in(said: Sequence[Message]) -> set[str]:
    """The plans that ended in a conversation."""
    return {message.plan_id for message in said if isinstance(message, PlanAccount)}


def spoken_in(said: Sequence[Message]) -> list[Message]:
    """What was said in a conversation, without the marks of what was shortened."""
    return [message for message in said if not isinstance(message, Shortened | Compacted)]


def record_of_thread(
    stored: StoredThread,
    accounts: Mapping[str, str],
    locale: str,
    *,
    briefed: bool = True,
    end: StoredThread | None = None,
) -> ThreadRecord:
    """Build a conversation from its stored messages and the marks of what was shortened.

    Args:
        end: Build only this part of it.
    """
    part, aliases = end or stored, Aliases.of(stored.calls.values(), stored.named or ())
    spoken: list[Message] = []
    shown: dict[str, int] = {}
    compacted, marked = None, 0
    refused: list[int] = []
    for message in map(aliases.told_message, part.said):
        match message:
            case Shortened():
                shown |= message.results
                marked = len(spoken)
            case Compacted():
                compacted, marked = message, len(spoken)
                refused += [message.window] if message.window else []
            case _:
                spoken.append(message)
    lost = say("model_lost", locale)
    answers = [
        call_log.answer_of(call, locale, aliases)
        for call in part.calls.values()
        if call.retry_of is None
    ]
    return ThreadRecord(
        read=stored, places=_places(repaired([*_in_order(spoken, locale), *answers], lost)),
        calls=part.calls, shown=shown, compacted=compacted, marked=marked,
        refused=min(refused, default=None), waited=stored.waited, briefed=briefed, aliases=aliases,
        accounts={plan_id: aliases.told(text) for plan_id, text in accounts.items()},
        note=say("model_continue", locale), said=count_said(spoken),
        begun="".join(part.text for part in unfinished(spoken)),
    )  # fmt: skip


def grown_record(
    before: ThreadRecord, stored: StoredThread, accounts: Mapping[str, str], locale: str
) -> ThreadRecord | None:
    """The same conversation later, built in a time that depends only on what is new in it.

    None if more has changed: something was shortened, or an old message has another place now.
    """
    new = stored.since(before.read)
    if new is None or not before.may_grow_by(new.said):
        return None
    end = record_of_thread(stored, accounts, locale, briefed=before.briefed, end=new)
    if end.accounts != before.accounts:
        return None
    found = replace(
        before, read=stored, places=(*before.places, *end.places), calls=stored.calls,
        waited=stored.waited, begun=end.begun, aliases=end.aliases,
    )  # fmt: skip
    # A later message does not change how an earlier one is shown.
    vars(found).update(whole=before.whole + end.whole, messages=before.messages + end.messages)
    return found


def _in_order(spoken: Sequence[Message], locale: str) -> tuple[Message, ...]:
    """The messages, with instructions and words of people where a model first got them."""
    told = partial(say, "model_steered", locale)
    return steered(with_instructions_first(spoken), lambda words: told(words=words))


def _as_users(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages, where what people said to an agent at work is a user's message."""
    return tuple(
        UserText(content=each.content) if isinstance(each, Steering) else each for each in messages
    )


def _places(messages: Sequence[Message]) -> tuple[Passage, ...]:
    found: list[tuple[Message, list[ToolAnswer]]] = []
    for message in messages:
        if isinstance(message, ToolAnswer):
            found[-1][1].append(message)
        else:
            found.append((message, []))
    return tuple(Passage(message, tuple(answers)) for message, answers in found)


def _clipped(message: Message, tokens: int) -> Message:
    """A message that stays, cut if it is very long; a pinned one is never cut."""
    if message.pinned or not isinstance(message, UserText) or estimate(message.content) <= tokens:
        return message
    content = excerpt(message.content, tokens, lambda first, last: "The record holds them.")
    return message.model_copy(update={"content": content})


# What to shorten.


def too_long(found: ThreadRecord, window: int, most: int) -> dict[str, int]:
    """The results that are too long to be shown whole, and how many tokens to show of each.

    Args:
        most: Tokens of one result.
    """
    parts: dict[str, int] = {}
    for place in found.places[found.start :]:
        sizes = {a.call_id: tokens_in(a) for a in place.answers if a.call_id in found.calls}
        room = int(window * _RESULTS)
        if sum(min(size, most) for size in sizes.values()) > room:
            room //= len(sizes)
        bound = max(min(most, room), _LEAST)
        parts |= {
            call_id: bound
            for call_id, size in sizes.items()
            if size > bound + _SMALL and call_id not in found.shown
        }
    return parts


def to_elide(found: ThreadRecord, window: int) -> dict[str, int]:
    """The old results of calls that only looked, if it is worth it to leave them out."""
    saved, lines = 0, dict[str, int]()
    for place in found.places[found.start : _end_of_old(found, int(window * _RECENT))]:
        for answer in place.answers:
            call = found.calls.get(answer.call_id)
            if call is None or not _can_be_elided(call) or found.shown.get(call.id) == 0:
                continue
            size = tokens_in(found.shown_of(Passage(place.message, (answer,)))[1])
            if size > _SMALL * 2:
                lines[call.id] = 0
                saved += size - _SMALL
    return lines if saved >= window * _WORTH else {}


def _can_be_elided(call: CallRow) -> bool:
    return call.tool_class is ToolClass.PURE and call.status is CallStatus.COMPLETED


def to_compact(found: ThreadRecord, window: int) -> int:
    """How many of the conversation's messages are old, so that a text may replace them."""
    end = _end_of_old(found, int(window * _RECENT))
    # Parts of one reply stay together.
    while end > found.start and end < len(found.places) and _goes_on(found.places[end - 1]):
        end -= 1
    return end


def _goes_on(place: Passage) -> bool:
    return isinstance(place.message, Reply) and place.message.is_unfinished


def _end_of_old(found: ThreadRecord, room: int) -> int:
    """Where the recent part begins that fits; it has at least the last place."""
    end = len(found.places)
    while end > found.start:
        room -= found.size_of(found.places[end - 1])
        if room < 0 and end < len(found.places):
            break
        end -= 1
        if room < 0:
            break
    return end


def kept_places(found: ThreadRecord, end: int, *, turns: bool) -> tuple[int, ...]:
    """Which of the old messages stay as they are: the task, and those that are pinned.

    Args:
        turns: The task is what the person said last, as in a session's conversation; otherwise it
            is what the conversation began with.
    """
    # Exactly this class: other texts to the model are no task.
    texts = [at for at, place in enumerate(found.places) if type(place.message) is UserText]
    task = [at for at in (texts[-1:] if turns else texts[:1]) if at < end]
    pinned = [at for at in range(end) if _stays(found.places[at].message)]
    return tuple(sorted({*task, *pinned}))


def _stays(message: Message) -> bool:
    """Whether a message is pinned, or says what is left to do."""
    return message.pinned or (isinstance(message, UserText) and message.about is not None)


def room_of_kept(window: int) -> int:
    """Tokens for each of the messages that stay."""
    return int(window * _KEPT)


def transcript(found: ThreadRecord, end: int, tokens: int) -> str:
    """The text for a model to sum up: the old messages, each cut so that all of them fit."""
    shown = list(chain.from_iterable(map(found.shown_of, found.places[found.start : end])))
    each = max(_SMALL, min(_LEAST * 5, tokens // max(len(shown), 1)))
    # If there are too many, only the newest: older ones are in the text that replaced them.
    shown = shown[-(tokens // each) :]
    before = [f"EARLIER: {found.compacted.text}"] if found.compacted else []
    told = [_told_line(message, each * 4) for message in shown]
    return "\n\n".join([*before, *filter(None, told)])


def _told_line(message: Message, most: int) -> str:
    match message:
        case Reply():
            calls = "; ".join(f"{c.name} {json.dumps(c.arguments)}" for c in message.calls)
            said, who = f"{message.text} {calls and f'CALLS: {calls}'}".strip(), "AGENT"
        case ToolAnswer():
            said, who = message.content, f"RESULT of {message.tool_name}"
        case UserText():
            said, who = message.content, "USER"
        case _:
            return ""
    cut = f"{said[: most * 2 // 3]} … {said[-most // 3 :]}" if len(said) > most else said
    return f"{who}: {cut}"
