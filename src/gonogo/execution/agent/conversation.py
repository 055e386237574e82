"""Conversations: who owns one, what is said to it at work, and those that explore for another."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from anyio import create_task_group
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import InternalFailure, ModelFailed, RateLimited
from gonogo.domain.events import Steered, SteeringFacts
from gonogo.domain.failures import Classified, is_away, quota_pause
from gonogo.domain.identity import Principal
from gonogo.domain.records import CallRow, Checkpoint, Session
from gonogo.domain.reviews import checked_content
from gonogo.domain.tool_calls import Message, Reply, Steering, UserText, count_unheard, unfinished
from gonogo.execution.agent.profiles import EXPLORER, Profile, explorer_profile
from gonogo.i18n import say
from gonogo.llm import ModelRole
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.checkpoints import attempt_checkpoint
from gonogo.store.plans import lock_plan
from gonogo.store.sessions import append_message, conversation, lock_turn, spoken_in
from gonogo.tools.control import MOST_QUESTIONS

# The conversation that a loop drives, and who owns it.

Speak = Callable[[Sequence[CallRow]], Reply]
"""Says what a model would: told the thread's calls so far, in order."""


class Owner(Protocol):
    """Whose work a conversation is. It is told of the work inside the loop's own transactions."""

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the owner no longer holds its work."""
        ...

    def park(self, tx: Tx) -> None:
        """Let go of its place: everything left waits for a person."""
        ...

    def is_waiting(self, tx: Tx) -> bool:
        """Whether it waits for a model that does not answer."""
        ...

    def answered(self, tx: Tx) -> None:
        """Wait no longer: the model answered what was asked meanwhile."""
        ...


class _Nobody:
    """The owner of a conversation in which a single call is judged."""

    def check(self, tx: Tx) -> None: ...

    def park(self, tx: Tx) -> None: ...

    def is_waiting(self, tx: Tx) -> bool:
        del tx
        return False

    def answered(self, tx: Tx) -> None: ...


NOBODYS: Owner = _Nobody()
_ROLES: dict[str, ModelRole] = {"orchestrator": "route", "architect": "plan"}


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation between an agent and a model, in one workspace.

    Its owner is a turn, a subtask or a search; an explorer's is its asker's.
    """

    session_id: str
    name: str
    """`main`, or the subtask's key and attempt; of an explorer also the call that asks."""
    script: str
    """What a scripted model looks the conversation up by."""
    agent: str
    locale: str
    workspace: Path
    remote: bool
    """The client carries out the workspace tools."""
    owner: "Owner"
    turn_id: str | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    auto_approve: bool = True
    profile: Profile | None = None
    """What the agent may use here, in the place of what its name stands for."""
    speak: Speak | None = None
    """Speaks in the place of a model."""
    model: str | None = None
    """The model that is asked for everything; None: the one of the role."""
    role: ModelRole = "work"
    """What the model is asked for."""
    attended: bool = True
    """Somebody can be asked."""
    words: str | None = None
    """The command by which its subtask is checked, if that is all that it is for."""
    quiet: bool = False
    """What is said in it is no answer to a person, and not told."""
    max_requests: int | None = None
    """Requests to the model at most; None: as many as the loop allows."""
    limits: Mapping[str, float] | None = None
    """What its session may take in all, as it was opened."""

    def hold(self, tx: Tx) -> None:
        """Have whoever goes on with the owner's work wait until this transaction ends."""
        if self.subtask_id is not None:
            lock_plan(tx, self.plan_id or "")
        elif self.turn_id is not None:
            lock_turn(tx, self.turn_id)

    def checkpoint(self, tx: Tx) -> Checkpoint | None:
        """What was taken before the attempt that it is of; a turn has none."""
        if self.plan_id is None or self.revision is None or self.subtask_id is None:
            return None
        return attempt_checkpoint(tx, self.plan_id, self.revision, self.subtask_id)

    @property
    def place(self) -> dict[str, Any]:
        """The fields by which events name where they happened."""
        named = {
            "turn_id": self.turn_id,
            "plan_id": self.plan_id,
            "subtask_id": self.subtask_id,
            "agent": self.agent,
        }
        return {name: value for name, value in named.items() if value is not None}


def role_of(agent: str) -> ModelRole:
    """What a model is asked for by an agent that has no subtask."""
    return _ROLES.get(agent, "work")


def fields_from(session: Session) -> dict[str, Any]:
    """What every conversation of a session has from it."""
    return {
        "session_id": session.id, "locale": session.spoken, "workspace": Path(session.workspace),
        "remote": session.tool_host == "client", "model": session.model,
        "attended": not session.unattended, "limits": session.limits,
    }  # fmt: skip


# Steering: a person says something to an agent that is at work.
#
# The words become a message of the conversation in the transaction that tells the event and writes
# the audit entry. They come before the conversation's next request to a model, each once, in order;
# nothing else changes: no scope, no grant, no question, no digest.
#
# A conversation does not end with words that its agent has not heard: whoever ends it asks
# `is_unheard` in the transaction that would, and has it go on instead.

MOST_UNHEARD = 100
"""Words to one conversation that its agent has not heard yet."""


def steer(
    tx: Tx,
    session_id: str,
    thread: str,
    content: str,
    by: Principal,
    *,
    agent: str,
    **place: Any,  # noqa: ANN401 - fields of events
) -> None:
    """Keep what a person says to who is at work in a conversation, and tell it.

    Args:
        agent: Who is at work.
        place: The other fields by which events name where it happened.

    Raises:
        InvalidMessage: nothing is said, or too much.
        RateLimited: too much of what was said has not been heard yet.
    """
    words = checked_content(content)
    if count_unheard(conversation(tx, session_id, thread)) >= MOST_UNHEARD:
        raise RateLimited(
            "The agent has {most} messages to read, and no more are possible; wait until it has "
            "read some",
            most=MOST_UNHEARD,
        )
    said = Steering(content=words)
    append_message(tx, session_id, thread, said, turn_id=place.get("turn_id"), agent=agent)
    told = say("steered", spoken_in(tx, session_id), author=by.name, agent=agent, content=words)
    facts = SteeringFacts(author=by.name, content=words)
    log.tell(tx, session_id, Steered(content=told, metadata=facts, agent=agent, **place))
    log.note(
        tx, session_id, actor=by.id, action="agent.steered", subject=agent, content=words, **place
    )


def is_unheard(tx: Tx, session_id: str, thread: str, heard: int = 0) -> bool:
    """Whether people have said something in a conversation that its agent has not heard.

    Args:
        heard: How many words the agent knew of when it gave a reply that is not kept yet.
    """
    return count_unheard(conversation(tx, session_id, thread), heard) > 0


# Explorers: questions of one call, looked into at the same time, each in its own conversation.
#
# An explorer reads and changes nothing; whatever would ask a person is denied to it. Its requests
# are counted as its agent's, and bounded. What it answers is bounded too, and is data like any
# result of a tool. Its conversation is kept, so after a crash it goes on, and one that had its
# answer gives it again. It lives as long as the call: whoever ends that ends it.

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
