"""Conversations: who owns one, who explores for another, and the short names of ids in them."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, cast

import anyio.to_thread
from anyio import create_task_group
from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.base import mapped
from gonogo.domain.errors import InternalFailure, ModelFailed, ToolFailed
from gonogo.domain.events import InstructedFacts, InstructionsLoaded
from gonogo.domain.failures import Classified, is_away, quota_pause
from gonogo.domain.instructions import (
    MOST_CHANGED,
    MOST_TOLD,
    FoundInstructions,
    FoundSkill,
    InstructionText,
    beginning,
    changed_lines,
    quoted,
    skill_index,
)
from gonogo.domain.records import CallRow, Checkpoint, Session
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import (
    InstructionFile,
    Instructions,
    Message,
    PlanAccount,
    Reply,
    ToolAnswer,
    ToolClass,
    ToolRequest,
    ToolSchema,
    UserText,
    unfinished,
)
from gonogo.execution.agent.profiles import EXPLORER, MODEL, Profile, explorer_profile
from gonogo.i18n import say
from gonogo.llm import ModelRole
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import thread_calls
from gonogo.store.checkpoints import attempt_checkpoint
from gonogo.store.plans import lock_plan, named_ids
from gonogo.store.sessions import append_message, conversation, lock_turn, set_session
from gonogo.tools import READ_OUTPUT, READ_SKILL, touched
from gonogo.tools.control import MOST_QUESTIONS
from gonogo.workspace import InstructionReader

# The conversation that a loop drives, and who owns it.

Speak = Callable[[Sequence[CallRow]], Reply]
"""Replies in the place of a model; gets the thread's calls so far, in order."""


class Owner(Protocol):
    """Whose work a conversation is; the loop calls it inside its own transactions."""

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the owner no longer holds its work."""
        ...

    def park(self, tx: Tx) -> None:
        """Let the work rest, as everything left waits for a person."""
        ...

    def is_waiting(self, tx: Tx) -> bool:
        """Whether it waits for a model that does not answer."""
        ...

    def answered(self, tx: Tx) -> None:
        """Stop waiting: the model has answered again, or the disk has accepted a file again."""
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
    """The name by which a scripted model finds the conversation."""
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
    """The profile that the agent has here instead of the one of its name."""
    speak: Speak | None = None
    """Speaks in the place of a model."""
    model: str | None = None
    """The model that is asked for everything; None: the one of the role."""
    role: ModelRole = "work"
    """What the model is asked for."""
    attended: bool = True
    """Somebody can be asked."""
    words: str | None = None
    """The command of a check, if the conversation is only for that check."""
    quiet: bool = False
    """Its replies are no answers to a person, so followers do not get them."""
    max_requests: int | None = None
    """Requests to the model at most; None: as many as the loop allows."""
    limits: Mapping[str, float] | None = None
    """The limits of its whole session, as they were set when it was opened."""

    def hold(self, tx: Tx) -> None:
        """Lock the owner's work: nobody else goes on with it before this transaction ends."""
        if self.subtask_id is not None:
            lock_plan(tx, self.plan_id or "")
        elif self.turn_id is not None:
            lock_turn(tx, self.turn_id)

    def checkpoint(self, tx: Tx) -> Checkpoint | None:
        """The checkpoint before the attempt that this conversation is of; a turn has none."""
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
    """The role of the model for an agent that has no subtask."""
    return _ROLES.get(agent, "work")


def fields_from(session: Session) -> dict[str, Any]:
    """The fields that every conversation takes from its session."""
    return {
        "session_id": session.id, "locale": session.spoken, "workspace": Path(session.workspace),
        "remote": session.tool_host == "client", "model": session.model,
        "attended": not session.unattended, "limits": session.limits,
    }  # fmt: skip


# Explorers: questions of one call, looked into at the same time, each in its own conversation.
#
# An explorer reads and changes nothing; whatever would ask a person is denied to it. Its requests
# count as its agent's, and are limited. Its answer is limited too, and is data like any result of a
# tool. Its conversation is stored, so it goes on after a crash, and gives an answer that it had
# reached once more. It lives as long as the call: whoever ends the call ends it.

MOST_REQUESTS = 20
"""Requests of one explorer to its model."""
MOST_BYTES = 4 * 2_000
"""Bytes of one answer as the agent gets it: some 2,000 tokens."""


class Explorers(Struct, frozen=True):
    """Has explorers answer questions."""

    store: Store
    last_word: Callable[[Thread], Awaitable[Reply | None]]
    """Drives a conversation to its last reply, and stores that; None if there is none."""

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
                # The other explorers still finish, and their answers are stored.
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
        thread, name=_explorer(thread.name, call_id, number), script=f"explore-{number}",
        agent=EXPLORER, profile=explorer_profile(), owner=_Explorer(thread.owner), speak=None,
        attended=False, quiet=True, max_requests=MOST_REQUESTS,
    )  # fmt: skip


def explorers_of(thread: str, call_id: str) -> list[str]:
    """The names of the conversations that a call may have begun."""
    return [_explorer(thread, call_id, number) for number in range(1, MOST_QUESTIONS + 1)]


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


def _explorer(thread: str, call_id: str, number: int) -> str:
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
    """The answer that an explorer had reached before the process ended; None: it goes on."""
    last = messages[-1]
    if not isinstance(last, Reply) or last.calls or last.is_unfinished:
        return None
    return "".join(part.text for part in unfinished(messages[:-1])) + last.text


def _is_its_own(error: InternalFailure) -> bool:
    """Whether an error is the explorer's own; any other one keeps its asker from going on, too."""
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


# What agents are told of instruction files and skills, and when.
#
# Before each request the files are read. What the conversation was not told yet is appended to it
# as one message and stored like any other, so that later requests have the same bytes. Of a file
# that has changed, the conversation gets the difference from what it was told first. The gate uses
# nothing of it: scopes, rules, grants and questions are made without it.

MOST_FILES = 64
"""Files, and changes of files, that one conversation is told of."""
_INDEX = ("skills", "skills")

Block = tuple[InstructionFile, str]
"""One file that is told, and the text about it."""


class Briefings(Struct, frozen=True, kw_only=True):
    """Tells conversations what instruction files say."""

    reader: InstructionReader

    async def news(
        self, thread: Thread, said: Sequence[Message], calls: Sequence[CallRow]
    ) -> Instructions | None:
        """What a conversation was not told yet; None: nothing is new."""
        # A model alone is no agent, and nothing may interrupt a reply that it has begun.
        if not self.reader.on or thread.agent == MODEL or unfinished(said):
            return None
        folder = None if thread.remote else thread.workspace
        paths = touched_paths(calls)
        found = await anyio.to_thread.run_sync(self._look, folder, paths)
        return None if found is None else compose(said, found, thread.locale)

    def _look(self, folder: Path | None, paths: Sequence[str]) -> FoundInstructions | None:
        try:
            return self.reader.look(folder, paths)
        except (OSError, ToolFailed):
            # The workspace is away: whoever works in it will say so.
            return None

    def keep(self, tx: Tx, thread: Thread, said: Sequence[Message], told: Instructions) -> None:
        """Append the message to the conversation, and record its files: paths and digests."""
        thread.owner.check(tx)
        append_message(
            tx, thread.session_id, thread.name, told, turn_id=thread.turn_id, agent=thread.agent,
        )  # fmt: skip
        files = [facts_of(file) for file in told.files]
        names = ", ".join(file.path for file in told.files)
        event = InstructionsLoaded(
            content=say("instructions_loaded", thread.locale, names=names),
            metadata=InstructedFacts(files=files), **thread.place,
        )  # fmt: skip
        log.tell(tx, thread.session_id, event)
        log.note(
            tx, thread.session_id, actor=f"agent:{thread.agent}", action="instructions.loaded",
            subject=thread.name, files=files,
        )  # fmt: skip
        if thread.subtask_id is None:
            # What planners know is shown with their plans.
            known = [file for file in told_of([*said, told]).values() if file.how != "gone"]
            set_session(tx, thread.session_id, instructions=[facts_of(file) for file in known])


def facts_of(file: InstructionFile) -> dict[str, object]:
    """What events, plans and the audit log say about a file: never its contents."""
    known = {} if file.sha256 is None else {"sha256": file.sha256}
    cut = file.how in {"cut", "named", "changed"}
    where = {"path": file.path, "source": file.source}
    return {**where, **known, "bytes": file.size, "how": file.how, "cut": cut}


def told_of(said: Sequence[Message]) -> dict[tuple[str, str], InstructionFile]:
    """What a conversation was told last of each file."""
    return {
        file.key: file
        for message in said
        if isinstance(message, Instructions)
        for file in message.files
    }


def usable(tools: Sequence[ToolSchema], said: Sequence[Message]) -> tuple[ToolSchema, ...]:
    """The tools without `read_skill` where a conversation was told of no skill."""
    listed = told_of(said).get(_INDEX)
    if listed is not None and listed.how != "gone":
        return tuple(tools)
    return tuple(tool for tool in tools if tool.name != READ_SKILL)


def touched_paths(calls: Sequence[CallRow]) -> list[str]:
    """The paths that completed calls have named, each once, in order."""
    found: dict[str, None] = {}
    for call in calls:
        if call.status is not CallStatus.COMPLETED:
            continue
        try:
            access = touched(call.tool, call.arguments)
        except (ToolFailed, KeyError):
            continue
        paths = (*access.reads, *access.writes, *access.deletes, access.cwd)
        found |= {path: None for path in paths if path is not None}
    return list(found)


def compose(said: Sequence[Message], found: FoundInstructions, locale: str) -> Instructions | None:
    """The message about what was found and the conversation does not know yet, if there is any."""
    before = [message for message in said if isinstance(message, Instructions)]
    telling = _Telling(before=before, locale=locale)
    if found.skills:
        telling.index(found.skills)
    for file in found.files:
        telling.tell(file)
    telling.gone({(file.source, file.path) for file in found.files})
    if not telling.blocks:
        return None
    opening = say("model_instructions_more" if before else "model_instructions", locale)
    ending = say("model_instructions_end", locale)
    words = "\n".join(words for _, words in telling.blocks)
    return Instructions(
        content=f"{opening}\n\n{words}\n{ending}", files=tuple(file for file, _ in telling.blocks)
    )


class _Telling(Struct, kw_only=True):
    """A message that is being built, and what the conversation was told before."""

    before: Sequence[Instructions]
    locale: str
    blocks: list[Block] = field(default_factory=list[Block])

    def tell(self, file: InstructionText) -> None:
        """Tell of a file, unless the conversation knows it as it is."""
        last = self._known.get((file.source, file.path))
        named = last is not None and last.how == "offered" and not file.offered
        if self._is_full or (last is not None and last.sha256 == file.sha256 and not named):
            return
        base = self._first_told((file.source, file.path))
        if (other := self._same(file)) is not None:
            self._add(file, "same", other=other)
        elif file.offered:
            self._add(file, "offered", quoted(file.offered))
        elif last is None or named:
            self._whole(file)
        elif base is not None:
            self._change(file, base)
        else:
            self._add(file, "changed")

    def index(self, skills: Sequence[FoundSkill]) -> None:
        """Tell the names of skills, and what each is about."""
        text = skill_index(skills)
        if not text:
            return
        digest = sha256(text.encode()).hexdigest()
        last = self._known.get(_INDEX)
        words = say("model_skills", self.locale) + "\n" + quoted(text)
        known = last is not None and last.sha256 == digest
        if known or self._is_full or len(words.encode()) > self._room:
            return
        file = InstructionFile(
            path="skills", source="skills", sha256=digest, size=len(text.encode()), how="whole"
        )
        self.blocks.append((file, words))

    def gone(self, there: set[tuple[str, str]]) -> None:
        """Tell of what is no longer there."""
        for key, last in self._known.items():
            if key in there or key == _INDEX or last.how == "gone" or self._is_full:
                continue
            file = InstructionFile(path=last.path, source=last.source, how="gone")
            self.blocks.append((file, say("model_instruction_gone", self.locale, path=last.path)))

    @property
    def _known(self) -> Mapping[tuple[str, str], InstructionFile]:
        """What was told last of each file, this message included."""
        return told_of(self.before) | {file.key: file for file, _ in self.blocks}

    @property
    def _is_full(self) -> bool:
        told = sum(len(message.files) for message in self.before)
        return told + len(self.blocks) >= MOST_FILES

    @property
    def _room(self) -> int:
        before = sum(len(message.content.encode()) for message in self.before)
        return MOST_TOLD - before - sum(len(words.encode()) for _, words in self.blocks)

    def _first_told(self, key: tuple[str, str]) -> str | None:
        """The text of a file as it was told first, if the whole file was told."""
        told = (file for message in self.before for file in message.files)
        return next((file.text for file in told if file.key == key and file.how == "whole"), None)

    def _same(self, file: InstructionText) -> str | None:
        """The path of another file that has the same text, and was told already."""
        for key, told in self._known.items():
            other = key != (file.source, file.path) and told.sha256 == file.sha256
            if other and told.how in {"whole", "cut", "diff"}:
                return told.path
        return None

    def _whole(self, file: InstructionText) -> None:
        text = quoted(file.text)
        if len(text.encode()) <= self._room:
            self._add(file, "whole", text)
            return
        kept = beginning(file.text, self._room)
        if kept:
            self._add(file, "cut", quoted(kept))
        else:
            self._add(file, "named")

    def _change(self, file: InstructionText, base: str) -> None:
        text = quoted(changed_lines(base, file.text))
        small = len(text.encode()) <= min(MOST_CHANGED, self._room)
        self._add(file, *(("diff", text) if small else ("changed",)))

    def _add(self, file: InstructionText, how: str, text: str = "", *, other: str = "") -> None:
        head = say(
            f"model_instruction_{how}", self.locale, path=file.path, sha=file.sha256,
            size=file.size, other=other, source=say(f"model_source_{file.source}", self.locale),
        )  # fmt: skip
        told = InstructionFile.model_validate(
            {
                "path": file.path, "source": file.source, "sha256": file.sha256,
                "size": file.size, "how": how, "text": file.text if how == "whole" else "",
            }
        )  # fmt: skip
        self.blocks.append((told, f"{head}\n{text}"))


# Short names for our ids, in what models read and write: `call-3`, `plan-1`, `comment-2`.
#
# Ids differ in each run. A model gets numbers instead: it sees the number of a call in its
# conversation, and of a plan or a comment in its session. So the same work makes the same requests
# wherever it runs, and each name costs two tokens and not twenty. Numbers never change, as calls,
# plans and comments are only added. Names in a model's calls become ids as soon as its reply is
# there; its text is stored word for word. Texts of files, programs and servers do not change
# either: a model has to know the exact bytes of what it edits.

_ID = re.compile(r"(?:call|plan|comment)_[0-9a-f]{24,32}")
_OTHER = re.compile(r"(?:plan|comment)_[0-9a-f]{24}")
_NAMING = {"execute_plan": "plan_id", READ_OUTPUT: "id"}
"""The arguments of tools that take an id."""


class Aliases(Struct, frozen=True):
    """The short names of one conversation."""

    names: Mapping[str, str] = {}
    """The name of each id."""

    @classmethod
    def of(cls, calls: Iterable[CallRow], others: Iterable[str]) -> "Aliases":
        """The names of a conversation's calls, and of the plans and comments of its session.

        Args:
            calls: In their order.
            others: Ids, in the order in which they were made.
        """
        found, counts = dict[str, str](), dict[str, int]()
        # A call that replaces another one is shown under the other one's id.
        own = (call.id for call in calls if call.retry_of is None)
        for each in filter(_ID.fullmatch, (*own, *others)):
            word = each.partition("_")[0]
            counts[word] = counts.get(word, 0) + 1
            found[each] = f"{word}-{counts[word]}"
        return cls(found)

    def told(self, text: str) -> str:
        """A text with names in the place of ids."""
        return _ID.sub(lambda found: self.of_id(found[0]), text)

    def told_value(self, value: object) -> Any:  # noqa: ANN401 - any JSON value
        """A JSON value with names in the place of ids in all its texts."""
        return mapped(value, self.told)

    def of_id(self, each: str) -> str:
        """The name of an id; the id itself where it is not known here."""
        return self.names.get(each, each)

    def told_arguments(self, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments, with names in the place of ids."""
        return _renamed(tool, given, self.names)

    def told_result(self, call: CallRow, value: object) -> Any:  # noqa: ANN401 - any JSON value
        """A call's result with names in the place of ids, as far as gonogo wrote the text."""
        if call.error is not None or call.tool_class is ToolClass.CONTROL:
            return self.told_value(value)
        if call.tool == READ_OUTPUT and isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {**fields, "id": _name(fields.get("id"), self.names)}
        return value

    def told_message(self, message: Message) -> Message:
        """A message with names in the place of ids in its texts; the ids of its calls stay."""
        if isinstance(message, Reply):
            calls = (*(_with(call, self.names) for call in message.calls),)
            return message.model_copy(update={"text": self.told(message.text), "calls": calls})
        content = getattr(message, "content", "")
        told = self.told(content)
        return message if told == content else message.model_copy(update={"content": told})

    def sent(self, message: Message) -> Message:
        """A message as it is sent to a model: its calls have names, too."""
        if isinstance(message, ToolAnswer):
            return message.model_copy(update={"call_id": self.of_id(message.call_id)})
        if not isinstance(message, Reply) or not message.calls:
            return message
        calls = (c.model_copy(update={"id": self.of_id(c.id)}) for c in message.calls)
        # Only texts that are just an id change: a provider signs a model's thoughts word for word.
        raw = mapped(message.raw, self.of_id)
        return message.model_copy(update={"calls": (*calls,), "raw": raw})

    def read(self, reply: Reply) -> Reply:
        """A model's reply, with ids in the place of names in its calls."""
        ids = {name: each for each, name in self.names.items()}
        calls = tuple(_with(call, ids) for call in reply.calls)
        return reply if calls == reply.calls else reply.model_copy(update={"calls": calls})


def aliases_of(tx: Tx, thread: Thread) -> Aliases:
    """The short names of a conversation."""
    calls = thread_calls(tx, thread.session_id, thread.name)
    return Aliases.of(calls, named_ids(tx, thread.session_id))


def names_others(said: Sequence[Message], calls: Iterable[CallRow]) -> bool:
    """Whether a conversation may name a plan or a comment; most never do."""
    texts = (
        str((getattr(each, "content", ""), getattr(each, "text", ""), getattr(each, "calls", ())))
        for each in said
    )
    results = (f"{call.result} {call.error}" for call in calls)
    return any(map(_OTHER.search, chain(texts, results))) or any(
        isinstance(each, PlanAccount) for each in said
    )


def _with(call: ToolRequest, names: Mapping[str, str]) -> ToolRequest:
    given = call.arguments
    told = None if given is None else _renamed(call.name, given, names)
    return call if told == given else call.model_copy(update={"arguments": told})


def _renamed(tool: str, given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Arguments in which ids or names are replaced according to a mapping."""
    told = dict(given)
    if (field := _NAMING.get(tool)) in told:
        told[field] = _name(told[field], names)
    if tool == "create_plan" and isinstance(given.get("answers"), list):
        told["answers"] = [_answer(each, names) for each in given["answers"]]
    return told


def _answer(answer: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - as a model wrote it
    if not isinstance(answer, dict):
        return answer
    fields = cast("dict[str, Any]", answer)
    return {name: _name(it, names) if name == "comment_id" else it for name, it in fields.items()}


def _name(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - as a model wrote it
    return names.get(value, value) if isinstance(value, str) else value
