"""What is said between an agent and a model, in our own words.

These values are stored, so a conversation outlives the provider that held it. The provider's own
form of a reply is kept beside it (`Reply.raw`) and sent back to the same provider unchanged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gonogo.domain.visible import undrawn

_THOUGHTS = re.compile(r"<(think|thinking|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)


class Stored(BaseModel):
    """A stored value: immutable; fields that later versions add are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Usage(Stored):
    """What one request to a model cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None when the price is not known."""
    duration_ms: float = 0.0


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

    @property
    def said(self) -> str:
        """All that it says, together with what it goes on with."""
        return self.begun + self.text

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


class PlanAccount(Stored):
    """The place in a conversation where a plan has ended; what came of it stands with the plan."""

    role: Literal["account"] = "account"
    plan_id: str


Message = Annotated[UserText | Reply | ToolAnswer | PlanAccount, Field(discriminator="role")]
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


def says_nothing(text: str) -> bool:
    """Whether nobody can read anything in a text: it is blank, or thoughts that are marked so."""
    told = _THOUGHTS.sub("", text)
    return not any(c.isprintable() and not c.isspace() and not undrawn(c) for c in told)


def unfinished(messages: Sequence[Message]) -> list[Reply]:
    """The replies at the end of a conversation that are no answer yet, oldest first."""
    found: list[Reply] = []
    for message in reversed(messages):
        if not isinstance(message, Reply) or not message.is_unfinished:
            break
        found.append(message)
    return found[::-1]


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
        yield message.model_copy(update={"calls": tuple(calls)})
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
