"""What clients send: the messages of docs/reference/protocol.md §2, and their older spellings.

Requests are strict: an unknown field or a value of another type is refused. So is a null, but in a
message or a decision, where clients of older kinds send one for each field that they leave out.
Older names are translated before the check, so the rest of gonogo knows one name for each thing.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from gonogo.domain.base import ID, Id, LenientRequest, Text
from gonogo.domain.errors import InvalidMessage, NotFound, UnknownType, because, defect_of
from gonogo.domain.states import DecisionWord

PLAN_REQUEST = "plan-approval-"
"""A plan's approval is also known by this prefix and the plan's id."""
MAX_REVISION = 2**31 - 1
REJECTED_TEXTS = ("User rejected", "Операция отклонена")
"""How older clients said no: as the error of a `tool_result`."""

_TITLE = 80
"""Characters of a session's title that is taken from a message."""

T = TypeVar("T", bound=BaseModel)
Why = Annotated[str, StringConstraints(min_length=1, max_length=4_000, strict=True)]
"""A person's reason for something."""
Revision = Annotated[int, Field(ge=1, le=MAX_REVISION)]


def title_of(said: str) -> str:
    """The title of a session in which this was said first: its first line, cut between words."""
    line = said.strip().partition("\n")[0].rstrip()
    if len(line) <= _TITLE:
        return line
    # One word that is too long is cut where it is.
    words = line[:_TITLE].rpartition(" ")[0] or line[: _TITLE - 1]
    return words.rstrip() + "…"


def possible(name: str) -> str:
    """An id as somebody gave it.

    Raises:
        NotFound: nothing can have it.
    """
    if not re.fullmatch(ID, name):
        raise NotFound("{name!r} cannot be an id; copy the id from a list", name=name[:_TITLE])
    return name


class UserMessage(LenientRequest):
    """What the user says. `agent_type` picks the agent for this one turn."""

    type: Literal["user_message"]
    content: Annotated[str, StringConstraints(min_length=1, strict=True)]
    role: Literal["user"] = "user"
    agent_type: Text | None = None


class SwitchAgent(LenientRequest):
    """Another agent answers from now on; with `content`, at once."""

    type: Literal["switch_agent"]
    agent_type: Text
    content: Text | None = None
    reason: Text | None = None
    confidence: float | str | None = None


class PlanDecision(LenientRequest):
    """The answer to a plan."""

    type: Literal["plan_decision"] = "plan_decision"
    plan_id: Id
    decision: Text
    revision: Revision | None = None
    digest: Text | None = None
    modified_subtasks: list[Any] | None = None
    feedback: Text | None = None
    start: bool = True
    auto_approve_tools: bool = True

    @property
    def word(self) -> DecisionWord:
        """The decision as one of the known words.

        Raises:
            InvalidMessage: it is none of them.
        """
        return decision_word(self.decision, "plan", set(DecisionWord))


class HitlDecision(LenientRequest):
    """The answer to one or more tool calls, or to one approval of any kind."""

    type: Literal["hitl_decision"] = "hitl_decision"
    call_id: Id | None = None
    call_ids: Annotated[list[Id], Field(min_length=1, max_length=256)] | None = None
    approval_id: Id | None = None
    decision: Text
    digest: Text | None = None
    modified_arguments: dict[str, Any] | None = None
    feedback: Text | None = None
    for_session: bool = False
    """With approve: a rule allows just this call for the rest of the session."""
    for_plan: bool = False
    """With approve: a rule allows just this call for the rest of its plan."""

    @model_validator(mode="after")
    def _names_one_subject(self) -> Self:
        named = [self.call_id, self.call_ids, self.approval_id]
        if sum(name is not None for name in named) != 1:
            raise ValueError(because("give exactly one of call_id, call_ids and approval_id"))
        return self

    @property
    def word(self) -> DecisionWord:
        """The decision as one of the known words.

        Raises:
            InvalidMessage: it is none of them.
        """
        return decision_word(self.decision, "tool", set(DecisionWord) - {DecisionWord.HOLD})


class ToolResultMessage(LenientRequest):
    """What a client that hosts the tools says of a call that it ran."""

    nulls = frozenset({"result"})
    type: Literal["tool_result"]
    call_id: Id
    result: Any = None
    error: Text | None = None

    @model_validator(mode="after")
    def _is_result_or_error(self) -> Self:
        failed = self.error is not None
        # Beside an error a null result was left out; by itself it is a value.
        succeeded = "result" in self.model_fields_set and not (failed and self.result is None)
        if failed == succeeded:
            raise ValueError(because("give exactly one of result and error"))
        return self

    @property
    def is_legacy_rejection(self) -> bool:
        """Whether the error is the text by which older clients rejected a call."""
        return self.error is not None and self.error.startswith(REJECTED_TEXTS)


class Cancel(LenientRequest):
    """Stop a turn; without an id, the one that runs."""

    type: Literal["cancel"]
    turn_id: Id | None = None
    reason: Why | None = None


Words = Annotated[str, StringConstraints(min_length=1, max_length=4_000, strict=True)]
"""What a person says to an agent at work."""


class Steer(LenientRequest):
    """Say something to an agent at work: of a subtask, or of the turn that runs."""

    type: Literal["steer"]
    content: Words
    turn_id: Id | None = None
    plan_id: Id | None = None
    subtask_id: Id | None = None

    @model_validator(mode="after")
    def _names_one_agent(self) -> Self:
        if (self.plan_id is None) != (self.subtask_id is None):
            raise ValueError(because("give plan_id and subtask_id together"))
        if self.plan_id is not None and self.turn_id is not None:
            raise ValueError(because("give either a turn or a subtask"))
        return self


ClientMessage = (
    UserMessage | SwitchAgent | PlanDecision | HitlDecision | ToolResultMessage | Cancel | Steer
)

_MODELS: Mapping[str, type[ClientMessage]] = {
    "user_message": UserMessage,
    "switch_agent": SwitchAgent,
    "plan_decision": PlanDecision,
    "hitl_decision": HitlDecision,
    "tool_result": ToolResultMessage,
    "cancel": Cancel,
    "steer": Steer,
}
_OLD_TYPES = {"plan_approval": "plan_decision", "hitl_response": "hitl_decision"}
_OLD_FIELDS = {
    "user_message": {"agent": "agent_type"},
    "switch_agent": {"agent": "agent_type"},
    "plan_decision": {"approval_request_id": "plan_id"},
    "hitl_decision": {"action": "decision", "edited_arguments": "modified_arguments"},
}


def parse_message(raw: Any) -> ClientMessage:  # noqa: ANN401 - as a stranger wrote it
    """Read one client message, whichever spelling it uses.

    Raises:
        UnknownType: clients cannot send this type.
        InvalidMessage: the shape is wrong; the text names the field.
    """
    if not isinstance(raw, dict):
        raise InvalidMessage("A message must be a JSON object")
    given = cast("dict[str, Any]", raw)
    kind = given.get("type")
    if not isinstance(kind, str):
        raise InvalidMessage("type: a message needs a type")
    kind = _OLD_TYPES.get(kind, kind)
    if kind not in _MODELS:
        raise UnknownType(
            "Clients cannot send a message of type {kind!r}; see the message types in "
            "docs/reference/protocol.md",
            kind=kind[:80],
        )
    return validated(_MODELS[kind], _renamed(given, kind))


def validated(model: type[T], fields: Any) -> T:  # noqa: ANN401 - as a stranger wrote it
    """Read a request body strictly.

    Raises:
        InvalidMessage: naming the first field that is wrong.
    """
    if not isinstance(fields, dict):
        raise InvalidMessage("The body must be a JSON object")
    if not issubclass(model, LenientRequest):
        refuse_nulls(cast("dict[str, Any]", fields), getattr(model, "nulls", ()))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise InvalidMessage(defect_of(error)) from None


def refuse_nulls(fields: Mapping[str, Any], values: Collection[str] = (), place: str = "") -> None:
    """Check that no field is null.

    Args:
        values: The fields of which null is a value.
        place: What stands before their names.

    Raises:
        InvalidMessage: one is.
    """
    for name, value in fields.items():
        if value is None and name not in values:
            raise InvalidMessage(
                "{name}: leave the field out instead of sending null", name=f"{place}{name}"
            )


def decision_word(text: str, subject: str, allowed: set[DecisionWord]) -> DecisionWord:
    """The decision a text names; `modify` is an older name of `edit`.

    Raises:
        InvalidMessage: `Invalid plan decision: X`, or the same of a tool.
    """
    word = "edit" if text == "modify" else text
    if word not in set(allowed):
        raise InvalidMessage("Invalid {subject} decision: {text}", subject=subject, text=text[:80])
    return DecisionWord(word)


def _renamed(raw: Mapping[str, Any], kind: str) -> dict[str, Any]:
    fields = {**raw, "type": kind}
    for old, new in _OLD_FIELDS.get(kind, {}).items():
        said = fields.pop(old, None)
        if said is None:
            continue
        if fields.get(new) is not None:
            raise InvalidMessage("{old}: {new} says the same; give one of them", old=old, new=new)
        fields[new] = said
    plan_id = fields.get("plan_id")
    if isinstance(plan_id, str) and raw.get("approval_request_id") is not None:
        fields["plan_id"] = plan_id.removeprefix(PLAN_REQUEST)
    return fields
