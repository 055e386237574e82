"""The bodies of REST requests, read as strictly as client messages.

The messages themselves are in `gonogo.domain.messages`, what is shown in `gonogo.domain.views`
and its neighbours.
"""

from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, StringConstraints, WithJsonSchema, model_validator

from gonogo.domain.base import LenientRequest, Request
from gonogo.domain.errors import because
from gonogo.domain.identity import RoleWord
from gonogo.domain.messages import (
    Cancel,
    HitlDecision,
    Id,
    PlanDecision,
    Revision,
    Steer,
    SwitchAgent,
    Text,
    ToolResultMessage,
    UserMessage,
    Why,
    Words,
    refuse_nulls,
)
from gonogo.domain.plan import MAX_GOAL
from gonogo.server.requests import LANGUAGE, Language, Moment

_MESSAGES = (
    UserMessage, SwitchAgent, PlanDecision, HitlDecision, ToolResultMessage, Cancel, Steer,
)  # fmt: skip
_SCHEMA = {"oneOf": [{"$ref": f"#/components/schemas/{m.__name__}"} for m in _MESSAGES]}


class Sent(Request):
    """One client message, and the session that it is for."""

    session_id: Id | None = None
    message: Annotated[Any, WithJsonSchema(_SCHEMA)]
    """Read by `parse_message`, which also knows the older spellings."""


class SessionLimits(Request):
    """What a session may take in all."""

    cost: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """US dollars, as far as prices are known."""
    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = None
    requests: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """To models."""
    seconds: Annotated[float, Field(gt=0, le=10**8)] | None = None
    """From when it is opened; then whatever works in it is stopped."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_null(cls, fields: Any) -> Any:  # noqa: ANN401 - as a stranger wrote it
        # A limit that is lost on the way would be no limit at all.
        if not isinstance(fields, dict):
            return fields
        given = cast("dict[str, Any]", fields)
        refuse_nulls(given, place="limits.")
        return given


class NewSession(Request):
    """What a session is opened with."""

    session_id: Id | None = None
    workspace: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    title: Annotated[str, StringConstraints(max_length=200)] | None = None
    locale: Language = None
    tool_host: Literal["server", "client"] | None = None
    model: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")] | None = None
    unattended: bool | None = None
    limits: SessionLimits | None = None


class SessionChange(Request):
    """What may change about a session."""

    nulls = frozenset({"locale"})
    title: Annotated[str, StringConstraints(max_length=200)] | None = None
    locale: Annotated[
        Language, WithJsonSchema({"type": ["string", "null"], "pattern": LANGUAGE})
    ] = None
    """null: the session has none of its own from now on."""


class Nothing(Request):
    """A request whose path says it all."""


class VacuumOrder(Request):
    """Whether room is given back, or only what would come of it is said."""

    dry_run: bool = False


class RollbackOrder(Request):
    """What is undone: all since a checkpoint, by default the latest, one subtask, or all."""

    checkpoint_id: Id | None = None
    subtask_id: Id | None = None
    whole: bool = False
    dry_run: bool = False
    include_shared: bool = False


class NewCheckpoint(Request):
    """A checkpoint that is wanted now: of a plan, or of the latest one of a session."""

    plan_id: Id | None = None
    session_id: Id | None = None
    note: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None


class PlanAnswer(LenientRequest):
    """The answer to a plan; the path names it."""

    decision: Text
    revision: Revision | None = None
    digest: Text | None = None
    modified_subtasks: list[Any] | None = None
    feedback: Text | None = None
    start: bool = True
    auto_approve_tools: bool = True


class PlanDraft(Request):
    """The subtasks of a plan while a person writes them."""

    modified_subtasks: list[Any]


class WrittenPlan(Request):
    """A plan that a person writes, as a plan file has it."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=MAX_GOAL)]
    subtasks: list[Any]


class NewPlan(WrittenPlan):
    """A plan that a person wrote, and the session that it is for."""

    session_id: Id


class NewPlanDraft(WrittenPlan):
    """A plan while a person writes it, and whether nobody would be asked in its session."""

    unattended: bool = False


class ReplanReason(Request):
    """Why a plan is to be changed; whoever plans anew is told."""

    reason: Why


class WordsToSubtask(Request):
    """What a person says to the agent of a subtask; the path names it."""

    content: Words


class WordsToTurn(Request):
    """What a person says to the agent that answers in a session."""

    content: Words
    turn_id: Id | None = None
    """By default the turn that is under way."""


class CancelReason(Request):
    """Why something is stopped, if anybody says so."""

    reason: Why | None = None


class Tried(Request):
    """A call that the rules are tried with: a command, or a tool with its arguments."""

    command: Annotated[str, StringConstraints(min_length=1, max_length=8_192)] | None = None
    tool: Text | None = None
    arguments: dict[str, Any] = {}
    agent: Text = "coder"

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.command is None) == (self.tool is None):
            raise ValueError(because("give either a command or a tool"))
        return self


class NewComment(Request):
    """What a person says of a plan, or of one of its subtasks."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
    subtask_id: Id | None = None
    revision: Revision | None = None


class ApprovalAnswer(LenientRequest):
    """The answer to an approval; the path names it."""

    decision: Text
    digest: Text | None = None
    modified_arguments: dict[str, Any] | None = None
    feedback: Text | None = None
    for_session: bool = False
    for_plan: bool = False


class NamedAnswer(ApprovalAnswer):
    """The answer to one approval among several."""

    approval_id: Id


class Answers(LenientRequest):
    """Answers to several approvals, each taken by itself; or one to all identical ones."""

    decisions: Annotated[list[NamedAnswer], Field(min_length=1, max_length=256)] | None = None
    group: Id | None = None
    decision: Text | None = None
    modified_arguments: dict[str, Any] | None = None
    feedback: Text | None = None

    @model_validator(mode="after")
    def _names_what_is_answered(self) -> Self:
        if self.decisions is None and (self.group is None or self.decision is None):
            raise ValueError(because("give decisions, or group and decision"))
        if self.decisions is not None and self.model_fields_set != {"decisions"}:
            raise ValueError(because("with decisions, leave out the other fields"))
        return self


class NewRule(Request):
    """A rule for a session, as a rules file would have it."""

    rule: dict[str, Any]


class Accepted(Request):
    """A server's tool that is to count as it was seen last."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class NewLink(Request):
    """Whose decision a link will be: a name or an id; without it, the sender's."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class Entry(Request):
    """What lets a browser in: the code of the link that `gonogo serve` prints, or a token."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    token: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.code is None) == (self.token is None):
            raise ValueError(because("give either a code or a token"))
        return self


class NewToken(Request):
    """A token to be made."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    role: RoleWord


class LastEntry(Request):
    """The last entry of a stretch of an audit chain."""

    chain: Id
    seq: Annotated[int, Field(ge=1, lt=2**31)]
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Prune(Request):
    """What was exported of the audit log and is to be removed."""

    before: Moment
    heads: Annotated[list[LastEntry], Field(min_length=1, max_length=1_000)]


REQUESTS = (
    *_MESSAGES, Sent, NewSession, SessionChange, Nothing, PlanAnswer, ReplanReason, CancelReason,
    NewComment, PlanDraft, NewPlan, NewPlanDraft, NewCheckpoint, RollbackOrder, Tried,
    WordsToSubtask, WordsToTurn,
    ApprovalAnswer, NamedAnswer, Answers, NewLink, NewRule, Entry, NewToken, Prune,
    Accepted, VacuumOrder,
)  # fmt: skip
"""Every request model, for the schema."""
