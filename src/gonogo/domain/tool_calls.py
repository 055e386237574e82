"""Tool calls: what the gate is asked and answers, foreign tools, and what a model has said."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gonogo.domain.base import Frozen, digest
from gonogo.domain.errors import Said, because
from gonogo.domain.network import Network
from gonogo.domain.plan import Scope
from gonogo.domain.text_safety import is_blank

RUNTIME = "gonogo"
"""Who did what nobody asked for, and the agent of calls that the runtime itself makes."""


class ToolClass(StrEnum):
    """What running a tool twice, or not at all, would mean."""

    PURE = "pure"
    """Changes nothing: may run again, and needs no question."""
    IDEMPOTENT = "idempotent"
    """Running it again gives the same state."""
    OTHER = "other"
    """Starts at most once."""
    IRREVERSIBLE = "irreversible"
    """Starts at most once, and no checkpoint brings back what it did."""
    CONTROL = "control"
    """Speaks to the runtime itself: plans, switches, questions, completion."""


class Access(Frozen):
    """What a call touches, found from its final arguments before anything runs.

    Paths are relative to the workspace, normalised, with `/`.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    command: str | None = None
    cwd: str | None = None
    """Where the command runs, relative to the workspace; None is the workspace itself."""
    network: tuple[str, ...] = ()
    """The hosts that the command asks to reach."""
    own_programs: tuple[str, ...] = ()
    """Programs of the workspace itself that the command would run."""
    unlooked: tuple[str, ...] = ()
    """Folders of which nobody can say what the command must not change, for they are too many."""


A_FOLDER = "folder"
"""What stands in the place of a content hash where a folder is."""


class FileEffect(Frozen):
    """What a file tool will do at one path, as content hashes; None is nothing there."""

    path: str
    before: str | None
    after: str | None


class Call(Frozen):
    """A tool call as the gate sees it: final arguments, and what they touch."""

    tool: str
    tool_class: ToolClass
    agent: str
    arguments: dict[str, Any]
    access: Access = Access()
    base_hashes: dict[str, str | None] = {}
    """Content hashes of the files that the call would change, when it was proposed."""
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    definition: str | None = None
    """Digest of what a foreign server said of the tool when the call was judged."""

    def digest(self, policy_version: str) -> str:
        """What an approval of this call binds: everything that decides what will run."""
        shown = self.model_dump(
            mode="json",
            include={
                "tool", "arguments", "access", "base_hashes", "plan_id", "revision", "subtask_id",
            },
        )  # fmt: skip
        # What is there only now and then is no part of the digests of what lacks it.
        rare = {"own_programs", "unlooked"}
        shown["access"] = {
            name: value for name, value in shown["access"].items() if value or name not in rare
        }
        foreign = {} if self.definition is None else {"definition": self.definition}
        return digest({**shown, **foreign, "policy_version": policy_version})


class Verdict(Frozen):
    """The gate's answer, with what made it."""

    decision: Literal["allow", "ask", "deny"]
    reason: Said
    rule: str
    """The rule, grant or default that decided: `builtin:protected-path`, `user:3`,
    `grant:<plan>#<subtask>`, `default:pure`."""
    source: Literal["rule", "grant"] = "rule"
    run_as: str | None = None
    """For a command that no person looks at: the parsed form, each word quoted, that is run
    instead of the text that was written."""
    git_as: str | None = None
    """For a command that writes in the workspace's repository, whoever allows it: the form that is
    run where git can write there, and obeys nothing of it."""
    network: Network = False
    """What the command may reach when no person looks at it."""
    read_only: bool = False
    """The command is allowed only where it can write nothing and reach nothing."""
    expects: tuple[str, ...] = ()
    """Globs of the guarded names that a command makes or changes, as whoever allowed it knows."""
    definition: str | None = None
    """As the call's."""


class Grant(Frozen):
    """What approving a plan allows one of its subtasks without further questions."""

    grant_id: str
    plan_id: str
    revision: int
    subtask_id: str
    scope: Scope = Scope()
    words: str | None = None
    """The command by which the subtask is checked, where the call is that check: it is allowed
    just as it is written, and runs where it changes nothing."""

    @property
    def name(self) -> str:
        """How verdicts name it."""
        return f"grant:{self.plan_id}#{self.subtask_id}"


# Tools of foreign servers: their names here, and what was seen of them over time.
#
# What people allowed was allowed for a tool as it was then. Each time that a server describes a
# tool in other words than before is written down; what was allowed earlier counts no more, until an
# operator accepts the new words.

PREFIX = "mcp__"
MOST_NAME = 64
"""Characters of a whole name; models' providers take no more."""
MOST_CHANGES = 20
"""Changes of one tool within a day that nobody has accepted."""
MOST_SEEN = 1_000
"""Tools of one server that were ever seen."""
_DAY = timedelta(days=1)
_SERVER = re.compile(r"[a-z0-9](?:[a-z0-9-]|_(?!_)){0,30}")
_TOOL = re.compile(r"[a-z0-9_-]+")


def server_problem(name: str) -> str | None:
    """Why a server cannot have a name, if it cannot."""
    if _SERVER.fullmatch(name) and not name.endswith("_"):
        return None
    return because(
        "a server's name has small letters, digits, - and single _, up to 31, no _ at its ends"
    )


def tool_problem(server: str, tool: str) -> str | None:
    """Why a server's tool cannot have a name here, if it cannot."""
    if not _TOOL.fullmatch(tool):
        return because("a tool's name has small letters, digits, - and _, and nothing else")
    if len(foreign_name(server, tool)) > MOST_NAME:
        return because(
            "{prefix}{server}__ and the tool's name are longer than {most} together",
            prefix=PREFIX,
            server=server,
            most=MOST_NAME,
        )
    return None


def foreign_name(server: str, tool: str) -> str:
    """A server's tool as agents, plans and rules call it."""
    return f"{PREFIX}{server}__{tool}"


def server_of(name: str) -> str | None:
    """The server that a tool's name speaks of; None: it is one of ours."""
    if not name.startswith(PREFIX):
        return None
    server, between, tool = name.removeprefix(PREFIX).partition("__")
    return server if between and tool else None


class Sighting(Struct, frozen=True, kw_only=True):
    """A tool as its server described it from a moment on."""

    name: str
    position: int
    digest: str
    """Of the definition; part of what an approval of a call binds."""
    definition: dict[str, Any]
    """`{name, description, parameters}`; empty where a later one took its place."""
    seen_at: datetime
    accepted_at: datetime | None
    accepted_by: str | None


class ToolHistory(Struct, frozen=True):
    """What was seen of one tool, oldest first; at least once."""

    sightings: Sequence[Sighting]

    @property
    def now(self) -> Sighting:
        """The tool as it is."""
        return self.sightings[-1]

    @property
    def accepted(self) -> bool:
        """Whether the tool as it is was accepted: at first sight, or by an operator."""
        return any(s.accepted_at and s.digest == self.now.digest for s in self.sightings)

    @property
    def as_accepted(self) -> Sighting | None:
        """The tool as it was accepted last."""
        return next((seen for seen in reversed(self.sightings) if seen.accepted_at), None)

    def covers(self, made_at: datetime) -> bool:
        """Whether what was allowed at a moment was allowed for the tool as it is."""
        before = [s for s in self.sightings if s.seen_at <= made_at]
        return self.accepted or bool(before and before[-1].digest == self.now.digest)

    def is_restless(self, now: datetime) -> bool:
        """Whether it has changed so often that nobody can say what they allow."""
        unread = takewhile(lambda seen: not seen.accepted_at, reversed(self.sightings))
        return sum(now - seen.seen_at < _DAY for seen in unread) >= MOST_CHANGES

    @property
    def changed(self) -> tuple[str, ...]:
        """What is not as it was accepted: `description`, `parameters`, or both."""
        if self.accepted:
            return ()
        last = self.as_accepted
        old, new = last.definition if last else {}, self.now.definition
        return tuple(part for part in ("description", "parameters") if old.get(part) != new[part])


# What is said between an agent and a model, in our own words.
#
# These values are stored, so a conversation outlives the provider that held it. The provider's own
# form of a reply is kept beside it (`Reply.raw`) and sent back to the same provider unchanged.

_THOUGHTS = re.compile(r"<(think|thinking|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)


class Stored(BaseModel):
    """A stored value: immutable; fields that later versions add are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    pinned: ClassVar[bool] = False
    """Whether a message stands whole in every request, also when what is around it no longer
    does."""


class Usage(Stored):
    """What one request to a model took, and cost."""

    input_tokens: int = 0
    """All that was sent, whatever its price."""
    cached_tokens: int = 0
    """How many of the input the provider had in its cache."""
    cache_write_tokens: int = 0
    """How many of the input it put into its cache, where it says so."""
    output_tokens: int = 0
    """All that came back."""
    reasoning_tokens: int = 0
    """How many of the output the model thought with, where the provider says so."""
    cost: float | None = None
    """US dollars, each class of tokens at its own price; None when the price is not known."""
    duration_ms: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        """What both took. A price that is not known counts as nothing, unless neither is."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in TOKENS},
            cost=sum(costs) if costs else None,
            duration_ms=self.duration_ms + other.duration_ms,
        )


TOKENS = (
    "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
)  # fmt: skip
"""The classes of tokens; the second and third are part of the first, the last of the fourth."""


class ToolRequest(Stored):
    """One use of a tool that a model asks for. The id is ours, never the provider's."""

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    """None when what the model wrote is not a JSON object; `problem` then says why."""
    problem: str | None = None


class UserText(Stored):
    """What the model is told as the user."""

    role: Literal["user"] = "user"
    content: str
    about: str | None = None
    """What it is about, where the runtime has to know: `checks` that did not hold."""


class Reply(Stored):
    """What the model answered: text, requests for tools, or both."""

    role: Literal["assistant"] = "assistant"
    text: str = ""
    calls: tuple[ToolRequest, ...] = ()
    cut: bool = False
    """It ended because it had reached its limit of length, not because it was over."""
    refused: bool = False
    """The model, or its provider, would not answer; the text may say why, or be what it began."""
    begun: Annotated[str, Field(exclude=True)] = ""
    """What the replies before it said that were cut off, and that it goes on with."""
    model: str = ""
    raw: Any = None
    """The provider's own form, as the adapter of `model` stored it."""
    usage: Usage = Usage()
    request_id: str | None = None
    """The row that keeps what the request took."""
    asked: int = 1
    """How often the model was asked for it: an empty reply is asked for once more."""
    passed: Annotated[Said, Field(exclude=True)] = ""
    """What was wrong with the model that should have answered, where another one did."""
    heard: int | None = None
    """How many words of people the conversation had when the model was asked; None: none."""
    filled: Annotated[int | None, Field(repr=False)] = None
    """Per cent of the model's window that it left taken, in steps of five; None: not one."""
    window: Annotated[int | None, Field(exclude=True, repr=False)] = None
    """Of the model that was asked, where people are to be told how full it is now."""

    @property
    def said(self) -> str:
        """All that it says, together with what it goes on with."""
        return self.begun + self.text

    @property
    def taken(self) -> int:
        """The tokens of the request and of itself, as the provider counted them; 0: it did not."""
        return (self.usage.input_tokens + self.usage.output_tokens) // self.asked

    @property
    def is_empty(self) -> bool:
        """Whether it neither says nor asks for anything; thinking aloud is saying nothing."""
        return not self.calls and says_nothing(self.text)

    @property
    def is_unfinished(self) -> bool:
        """Whether it is no answer yet: the model has to say more."""
        return not self.calls and (self.cut or says_nothing(self.text))


class ToolAnswer(Stored):
    """The one result of a tool call, as the model is told."""

    role: Literal["tool"] = "tool"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False


class Steering(Stored):
    """What a person says to an agent that is at work.

    It is kept when it is said, perhaps while a reply is under way that does not know of it. A model
    is told it after that reply, and before the first one that knows of it.
    """

    pinned = True
    role: Literal["steer"] = "steer"
    content: str


class PlanAccount(Stored):
    """The place in a conversation where a plan has ended; what came of it stands with the plan."""

    role: Literal["account"] = "account"
    plan_id: str


class Shortened(Stored):
    """From here on the model is shown less of some results. The record keeps them whole."""

    role: Literal["shortened"] = "shortened"
    version: int = 1
    """Of the rules by which it is shown."""
    results: dict[str, int]
    """By the id of the call: the tokens that are left of its result; 0 is a line in its place."""


class Compacted(Stored):
    """From here on a text stands in the place of the older part of the conversation."""

    role: Literal["compacted"] = "compacted"
    version: int = 1
    """Of the rules by which it is shown."""
    before: int
    """How many of the conversation's messages it stands for, from the first one on."""
    text: str
    """The facts as the database had them, and a summary by a model where there is one."""
    kept: tuple[int, ...] = ()
    """Those of them that stay before the text: the task, and what is pinned."""
    clip: int
    """The tokens that each of these may have."""
    window: int | None = None
    """The tokens that the provider refused as too many, if that was the reason."""


class InstructionFile(Stored):
    """What was told of one instruction file, or of the list of skills."""

    path: str
    source: Literal["user", "repository", "skills"]
    sha256: str | None = None
    """Of the whole file; None: it is no longer there."""
    size: int = 0
    """Bytes of the whole file."""
    how: Literal["whole", "cut", "named", "same", "offered", "diff", "changed", "gone"]
    text: str = ""
    """The file as it was told, where that was the whole of it."""

    @property
    def key(self) -> tuple[str, str]:
        """Which file it is."""
        return self.source, self.path


class Instructions(Stored):
    """What instruction files say, told as the user but not said by one: they are data."""

    pinned: ClassVar[bool] = True
    role: Literal["instructions"] = "instructions"
    content: str
    """The block as the model is told it."""
    files: tuple[InstructionFile, ...]


Message = Annotated[
    UserText | Reply | ToolAnswer | PlanAccount | Shortened | Compacted | Instructions | Steering,
    Field(discriminator="role"),
]
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message, config=ConfigDict(defer_build=True))


class ToolSchema(Stored):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""


class ModelRequest(Stored):
    """All that one request to a model is made of."""

    agent: str
    thread: str
    """`main` for a session's conversation, else the subtask's id; models ignore it, scripts
    are looked up by it."""
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    session: str = ""
    """Whose request it is; models are not told."""
    cache_key: str = ""
    """The same in all requests of a thread: where providers look for what they have cached."""
    earlier: tuple[str, ...] = ()
    """The models of the replies that are no longer among the messages; scripts count them."""


def says_nothing(text: str) -> bool:
    """Whether nobody can read anything in a text: it is blank, or thoughts that are marked so."""
    return is_blank(_THOUGHTS.sub("", text))


def unfinished(messages: Sequence[Message]) -> list[Reply]:
    """The replies at the end of a conversation that are no answer yet, oldest first.

    What a person says between them does not end what was begun.
    """
    found: list[Reply] = []
    for message in reversed(messages):
        if isinstance(message, Shortened | Compacted | Steering):
            continue
        if not isinstance(message, Reply) or not message.is_unfinished:
            break
        found.append(message)
    return found[::-1]


def answered_by(messages: Sequence[Message]) -> str | None:
    """The model that gave the last reply of a conversation."""
    return next((m.model for m in reversed(messages) if isinstance(m, Reply)), None)


def continued(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    """The conversation in which the model is told, after each reply that was cut off, to go on."""
    told = UserText(content=note)
    return tuple(
        each
        for message in messages
        for each in ((message, told) if _is_begun(message) else (message,))
    )


def accounted(messages: Sequence[Message], accounts: Mapping[str, str]) -> tuple[Message, ...]:
    """The conversation with the account of each plan where that ended; the last time, if twice.

    Args:
        accounts: By plan id; none of a plan that ended is missing.
    """
    told = set[str]()
    found: list[Message] = []
    for message in reversed(messages):
        if not isinstance(message, PlanAccount):
            found.append(message)
        elif message.plan_id not in told:
            told.add(message.plan_id)
            found.append(UserText(content=accounts[message.plan_id]))
    return tuple(reversed(found))


def with_instructions_first(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation in which what instruction files said before the first reply is told first.

    It was read when the conversation had begun; no request went out before it.
    """
    begun = next((n for n, each in enumerate(messages) if isinstance(each, Reply)), len(messages))
    opening = messages[:begun]
    first = [each for each in opening if isinstance(each, Instructions)]
    rest = [each for each in opening if not isinstance(each, Instructions)]
    return (*first, *rest, *messages[begun:])


def steered(messages: Sequence[Message], told: Callable[[str], str]) -> tuple[Message, ...]:
    """The conversation with the words of people where a model was told them first.

    Args:
        told: How a model is told the words of a person.
    """
    found: list[Message] = []
    waiting, heard = deque[Steering](), 0
    for message in messages:
        if isinstance(message, Steering):
            waiting.append(message.model_copy(update={"content": told(message.content)}))
            continue
        while isinstance(message, Reply) and waiting and heard < (message.heard or 0):
            found.append(waiting.popleft())
            heard += 1
        found.append(message)
    return (*found, *waiting)


def count_said(messages: Sequence[Message]) -> int:
    """How many words of people there are in a conversation."""
    return sum(isinstance(message, Steering) for message in messages)


def count_unheard(messages: Sequence[Message], heard: int = 0) -> int:
    """How many of them no reply knows of.

    Args:
        heard: How many a reply knows of that is not in the conversation yet.
    """
    known = (message.heard or 0 for message in messages if isinstance(message, Reply))
    return count_said(messages) - max(heard, *known, 0)


def _is_begun(message: Message) -> bool:
    return isinstance(message, Reply) and message.is_unfinished and not message.is_empty


def repaired(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    """Make a conversation well-formed: each requested call is followed by exactly one answer.

    A call without an answer gets `note` as its error; an answer to no call, and a second answer,
    are left out; answers come in the order of the calls, before anything else is said.
    """
    answers: dict[str, ToolAnswer] = {}
    for message in messages:
        if isinstance(message, ToolAnswer):
            answers.setdefault(message.call_id, message)
    return tuple(_woven(messages, answers, note))


def _woven(
    messages: Sequence[Message], answers: dict[str, ToolAnswer], note: str
) -> Iterable[Message]:
    seen: set[str] = set()
    for message in messages:
        if isinstance(message, ToolAnswer):
            continue
        if not isinstance(message, Reply):
            yield message
            continue
        calls = _fresh(message.calls, seen)
        is_whole = len(calls) == len(message.calls)
        yield message if is_whole else message.model_copy(update={"calls": tuple(calls)})
        for call in calls:
            yield answers.get(call.id) or ToolAnswer(
                call_id=call.id, tool_name=call.name, content=note, is_error=True
            )


def _fresh(calls: Iterable[ToolRequest], seen: set[str]) -> list[ToolRequest]:
    """The calls that were not seen before; now they are."""
    fresh: list[ToolRequest] = []
    for call in calls:
        if call.id not in seen:
            seen.add(call.id)
            fresh.append(call)
    return fresh
