"""Short names for our ids, in what models read and write: `call-3`, `plan-1`, `comment-2`.

An id names a row and is another one in each run. A model is shown the number of what it names: of
a call in its conversation, of a plan or a comment in its session. So the same work makes the same
requests wherever it runs, and each name costs a model two tokens and not twenty. Numbers never
change, for what they count is only added to. Names in a model's calls become ids as soon as its
reply is there; what it says is kept word for word. So is what files, programs and servers say: a
model has to know the very bytes of what it edits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.base import mapped
from gonogo.domain.records import CallRow
from gonogo.domain.tool_calls import (
    Message,
    PlanAccount,
    Reply,
    ToolAnswer,
    ToolClass,
    ToolRequest,
)
from gonogo.execution.agent.conversation import Thread
from gonogo.store import Tx
from gonogo.store.calls import thread_calls
from gonogo.store.plans import named_ids
from gonogo.tools import READ_OUTPUT

_ID = re.compile(r"(?:call|plan|comment)_[0-9a-f]{24,32}")
_OTHER = re.compile(r"(?:plan|comment)_[0-9a-f]{24}")
_NAMING = {"execute_plan": "plan_id", READ_OUTPUT: "id"}
"""The arguments of tools that take an id."""


class Aliases(Struct, frozen=True):
    """The short names of one conversation."""

    names: Mapping[str, str] = {}
    """By id."""

    @classmethod
    def of(cls, calls: Iterable[CallRow], others: Iterable[str]) -> "Aliases":
        """The names of a conversation's calls, and of the plans and comments of its session.

        Args:
            calls: In their order.
            others: Ids, in the order in which they were made.
        """
        found, counts = dict[str, str](), dict[str, int]()
        # A call in the place of another one is told under the id of that.
        own = (call.id for call in calls if call.retry_of is None)
        for each in filter(_ID.fullmatch, (*own, *others)):
            word = each.partition("_")[0]
            counts[word] = counts.get(word, 0) + 1
            found[each] = f"{word}-{counts[word]}"
        return cls(found)

    def told(self, text: str) -> str:
        """A text with names for ids."""
        return _ID.sub(lambda found: self.of_id(found[0]), text)

    def told_value(self, value: object) -> Any:  # noqa: ANN401 - any JSON value
        """A JSON value with names for ids in all its texts."""
        return mapped(value, self.told)

    def of_id(self, each: str) -> str:
        """The name of an id; the id itself where it is not known here."""
        return self.names.get(each, each)

    def told_arguments(self, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments, of which those that take an id have its name."""
        return _renamed(tool, given, self.names)

    def told_result(self, call: CallRow, value: object) -> Any:  # noqa: ANN401 - any JSON value
        """What came of a call with names for ids, as far as the words are ours."""
        if call.error is not None or call.tool_class is ToolClass.CONTROL:
            return self.told_value(value)
        if call.tool == READ_OUTPUT and isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {**fields, "id": _name(fields.get("id"), self.names)}
        return value

    def told_message(self, message: Message) -> Message:
        """A message whose texts have names for ids; those of its calls stay as they are."""
        if isinstance(message, Reply):
            calls = (*(_with(call, self.names) for call in message.calls),)
            return message.model_copy(update={"text": self.told(message.text), "calls": calls})
        content = getattr(message, "content", "")
        told = self.told(content)
        return message if told == content else message.model_copy(update={"content": told})

    def sent(self, message: Message) -> Message:
        """A message as a model is sent it: its calls have their names too."""
        if isinstance(message, ToolAnswer):
            return message.model_copy(update={"call_id": self.of_id(message.call_id)})
        if not isinstance(message, Reply) or not message.calls:
            return message
        calls = (c.model_copy(update={"id": self.of_id(c.id)}) for c in message.calls)
        # Whole texts alone: a provider signs what a model thought, word for word.
        raw = mapped(message.raw, self.of_id)
        return message.model_copy(update={"calls": (*calls,), "raw": raw})

    def read(self, reply: Reply) -> Reply:
        """A model's reply whose calls have ids where they name something."""
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
    """Arguments in which what names something is called otherwise."""
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
