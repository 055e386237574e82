"""Explorers: questions of one call, looked into at the same time, each in its own conversation.

An explorer reads and changes nothing; whatever would ask a person is denied to it. Its requests are
counted as its agent's, and bounded. What it answers is bounded too, and is data like any result of
a tool. Its conversation is kept, so after a crash it goes on, and one that had its answer gives it
again. It lives as long as the call: whoever ends that ends it.
"""

import json
from collections.abc import Awaitable, Callable, Sequence

from anyio import create_task_group
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import InternalFailure, ModelFailed
from gonogo.domain.failures import Classified, is_away, quota_pause
from gonogo.domain.tool_calls import Message, Reply, UserText, unfinished
from gonogo.execution.agent.conversation import Owner, Thread
from gonogo.execution.agent.profiles import EXPLORER, explorer_profile
from gonogo.i18n import say
from gonogo.store import Store, Tx
from gonogo.store.sessions import append_message, conversation
from gonogo.tools.control import MOST_QUESTIONS

MOST_REQUESTS = 20
"""Requests of one explorer to its model."""
MOST_BYTES = 4 * 2_000
"""Of one answer, as it is told: some 2,000 tokens."""


class Explorers(Struct, frozen=True):
    """Has questions looked into."""

    store: Store
    last_word: Callable[[Thread], Awaitable[Reply | None]]
    """Drives a conversation to its last word, and keeps that; None where it comes to none."""

    async def answers(
        self, thread: Thread, call_id: str, questions: Sequence[str]
    ) -> list[dict[str, str]]:
        """The answer to each question, or why there is none, in their order.

        Raises:
            Superseded: somebody else holds the work of the conversation that asks.
            ModelFailed: the model is away, or its quota is used up.
            BudgetSpent: the budget allows no more.
        """
        found: dict[int, dict[str, str] | Exception] = {}

        async def one(number: int, question: str) -> None:
            explorer = explorer_of(thread, call_id, number)
            try:
                found[number] = {"question": question, **await self._explored(explorer, question)}
            except Exception as error:
                # The others come to their ends, which are kept.
                found[number] = error

        async with create_task_group() as group:
            for number, question in enumerate(questions, start=1):
                group.start_soon(one, number, question)
        return [_given(found[number]) for number in sorted(found)]

    async def _explored(self, explorer: Thread, question: str) -> dict[str, str]:
        said = _last_word(await self.store.write(_begin, explorer, question))
        if said is None:
            try:
                reply = await self.last_word(explorer)
            except InternalFailure as error:
                if not _is_its_own(error):
                    raise
                return {"error": bounded(str(error), explorer.locale)}
            if reply is None:
                return {"error": say("model_explored_nothing", explorer.locale)}
            said = reply.said
        return {"answer": bounded(said, explorer.locale)}


def explorer_of(thread: Thread, call_id: str, number: int) -> Thread:
    """The conversation that looks into one question of a call."""
    return replace(
        thread, name=_name(thread.name, call_id, number), script=f"explore-{number}",
        agent=EXPLORER, profile=explorer_profile(), owner=_Explorer(thread.owner), speak=None,
        attended=False, quiet=True, max_requests=MOST_REQUESTS,
    )  # fmt: skip


def explorers_of(thread: str, call_id: str) -> list[str]:
    """The names of the conversations that a call may have begun."""
    return [_name(thread, call_id, number) for number in range(1, MOST_QUESTIONS + 1)]


def bounded(text: str, locale: str) -> str:
    """A text of bounded length that says how much of it was left out."""
    if _size(text) <= MOST_BYTES:
        return text
    kept = text[:MOST_BYTES]
    while _size(cut := kept + say("model_truncated", locale, count=len(text) - len(kept))) > (
        MOST_BYTES
    ):
        kept = kept[: min(len(kept) - 1, len(kept) * MOST_BYTES // _size(cut))]
    return cut


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def _name(thread: str, call_id: str, number: int) -> str:
    return f"{thread}#{call_id}.{number}"


def _begin(tx: Tx, explorer: Thread, question: str) -> list[Message]:
    """The conversation so far; a new one gets its question."""
    explorer.owner.check(tx)
    found = conversation(tx, explorer.session_id, explorer.name)
    if found:
        return found
    told = say("model_explore", explorer.locale, question=question, count=MOST_REQUESTS)
    first = UserText(content=told)
    append_message(
        tx, explorer.session_id, explorer.name, first, turn_id=explorer.turn_id, agent=EXPLORER
    )
    return [first]


def _last_word(messages: Sequence[Message]) -> str | None:
    """What an explorer had come to before the process ended; None: it goes on."""
    last = messages[-1]
    if not isinstance(last, Reply) or last.calls or last.is_unfinished:
        return None
    return "".join(part.text for part in unfinished(messages[:-1])) + last.text


def _is_its_own(error: InternalFailure) -> bool:
    """Whether an explorer came to no answer by itself; all else keeps its asker from going on."""
    if isinstance(error, ModelFailed):
        return not is_away(error) and quota_pause(error) is None
    return isinstance(error, Classified) or type(error) is InternalFailure


def _given(found: dict[str, str] | Exception) -> dict[str, str]:
    if isinstance(found, Exception):
        raise found
    return found


class _Explorer(Struct, frozen=True):
    """Explorers are their asker's work; they wait for nobody."""

    asker: Owner

    def check(self, tx: Tx) -> None:
        self.asker.check(tx)

    def park(self, tx: Tx) -> None: ...

    def is_waiting(self, tx: Tx) -> bool:
        return self.asker.is_waiting(tx)

    def answered(self, tx: Tx) -> None:
        self.asker.answered(tx)
