"""What happened: the events of docs/reference/protocol.md §3.

An event is a fact in a session's log. It is frozen, and readers ignore fields that they do not
know, so that old clients survive new servers and old rows load in new code. `seq` and `ts` are
given by the store, in the transaction that makes the fact true.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum, auto
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import to_jsonable_python

from gonogo.domain.states import ApprovalKind


class Tone(StrEnum):
    """How an event sounds whose `content` people are shown as it stands."""

    NOTICE = auto()
    WARNING = auto()
    GOOD = auto()
    AGAIN = auto()
    """What stood still goes on."""
    RESULT = auto()


class Fact(BaseModel):
    """A part of an event: immutable, open to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Event(Fact):
    """The envelope that every event shares."""

    tones: ClassVar[Mapping[str, Tone]] = {}
    """Of its words, those whose content people are shown."""
    marks: ClassVar[Mapping[str, str]] = {}
    """Of its words, those that say that a subtask is over, or an attempt, and how that is drawn."""

    type: Any
    """Each event narrows it to its own words."""
    seq: int | None = None
    session_id: str | None = None
    ts: datetime | None = None
    turn_id: str | None = None
    plan_id: str | None = None
    subtask_id: str | None = None
    agent: str | None = None
    is_final: bool | None = None

    def body(self) -> dict[str, Any]:
        """The event as it is stored and sent, without what the store adds."""
        return self.model_dump(mode="json", exclude_none=True)


def plain(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
    """An event, or a part of one, as its class gives it: what each step tells is made so.

    It takes a fifth of the time, since nobody looks at the values. They are in the order of the
    class; the tests compare every event that plans tell with what its class gives.
    """
    return {name: value for name, value in fields.items() if value is not None}


def plain_json(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """A value as a field of any type has it."""
    return to_jsonable_python(value, inf_nan_mode="null")


class SessionInfo(Event):
    """A session was opened by the message that names none."""

    type: Literal["session_info"] = "session_info"


class AssistantMessage(Event):
    """What an agent says: deltas as they come (without `seq`), then the whole text."""

    type: Literal["assistant_message"] = "assistant_message"
    content: str
    token: str | None = None


class SwitchFacts(Fact):
    """Who hands over to whom, and why."""

    from_agent: str
    to_agent: str
    reason: str | None = None
    cause: str | None = None
    """Why, in a word, where no model and no person said it: `subtask`, `plan_completed` and so on
    (`plan_` and a status)."""
    confidence: str | float | None = None


class AgentSwitched(Event):
    """Another agent goes on."""

    type: Literal["agent_switched"] = "agent_switched"
    metadata: SwitchFacts


class CallFacts(Fact):
    """What the gate said of a tool call."""

    digest: str
    reason: str
    tool_class: str
    decision: Literal["allow", "ask", "deny"] | None = None
    source: Literal["rule", "grant"] | None = None
    """Whether a rule or the plan's grant made the decision."""
    approval_id: str | None = None
    expires_at: datetime | None = None
    lines_added: int | None = None
    """Of an edit of files: the lines that it adds, as its difference shows."""
    lines_removed: int | None = None


class ToolCalled(Event):
    """An agent requests the use of a tool."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    requires_approval: bool
    metadata: CallFacts


class CallDecision(Fact):
    """Who decided about a tool call, and how."""

    decision: str
    source: Literal["person", "rule", "grant", "expiry"]
    decided_by: str | None = None
    feedback: str | None = None
    modified_arguments: dict[str, Any] | None = None


class ToolApproved(Event):
    """A tool call that waited may run."""

    type: Literal["tool_approved"] = "tool_approved"
    call_id: str
    metadata: CallDecision


class ToolRejected(Event):
    """A tool call that waited will not run."""

    type: Literal["tool_rejected"] = "tool_rejected"
    call_id: str
    content: str | None = None
    metadata: CallDecision


class ResultFacts(Fact):
    """How a tool call ended."""

    status: str
    duration_ms: float | None = None
    resolution: bool | None = None
    """It takes the place of an earlier result, which said that the outcome was not known."""


class ToolResulted(Event):
    """A tool call has its one result."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    tool_name: str
    result: Any = None
    error: str | None = None
    metadata: ResultFacts


class PlanFacts(Fact):
    """A plan as it is put before a person."""

    plan_id: str
    revision: int
    digest: str
    subtask_count: int
    subtasks: list[dict[str, Any]]
    requires_approval: bool = True
    critical_path: list[str] = []
    findings: list[dict[str, Any]] = []
    goal: str | None = None
    approval_id: str | None = None
    changes: dict[str, Any] | None = None
    """What a later revision has otherwise than the one before: `added`, `removed`, `changed`."""
    replan: dict[str, Any] | None = None
    """Why there is another revision: `cause`, `root_cause`, `suggestion`, `subtask_id`."""
    comments: list[dict[str, Any]] | None = None
    """What people said of it, and the agent's `answer` where this revision came with one."""
    instructions: list[dict[str, Any]] | None = None
    """The instruction files that its planner was told of, as in `instructions_loaded`."""
    made_by: str | None = None
    """The person who wrote the plan, where no agent proposed it."""


class PlanNotified(Event):
    """A plan waits for the go."""

    type: Literal["plan_notification"] = "plan_notification"
    content: str
    metadata: PlanFacts


class CommentFacts(Fact):
    """Who said what of which plan."""

    plan_id: str
    revision: int
    comment_id: str
    subtask_id: str | None = None
    author: str
    content: str
    open_comments: int
    """How many have no answer, this one included."""


class PlanCommented(Event):
    """A person said something of a plan that waits; nothing is decided by it."""

    tones = {"plan_commented": Tone.NOTICE}
    type: Literal["plan_commented"] = "plan_commented"
    content: str
    metadata: CommentFacts


class SteeringFacts(Fact):
    """Who said what to an agent at work."""

    author: str
    content: str


class Steered(Event):
    """A person said something to an agent at work; it hears it before its next request."""

    tones = {"steered": Tone.NOTICE}
    type: Literal["steered"] = "steered"
    content: str
    metadata: SteeringFacts


class PlanApprovedFacts(Fact):
    """What was approved."""

    plan_id: str
    revision: int
    subtask_count: int
    was_edited: bool | None = None
    held: bool | None = None


class PlanApproved(Event):
    """A person gave the go."""

    tones = {"plan_approved": Tone.GOOD}
    type: Literal["plan_approved"] = "plan_approved"
    content: str
    metadata: PlanApprovedFacts


class PlanRejectedFacts(Fact):
    """What was rejected, and why."""

    plan_id: str
    feedback: str | None = None


class PlanRejected(Event):
    """A person said no to a plan."""

    tones = {"plan_rejected": Tone.WARNING}
    type: Literal["plan_rejected"] = "plan_rejected"
    content: str
    metadata: PlanRejectedFacts


class SubtaskStartedFacts(Fact):
    """Which subtask starts."""

    subtask_id: str
    subtask_status: Literal["in_progress"] = "in_progress"
    subtask_type: str | None = None
    agent: str | None = None
    tool: str | None = None
    attempt: int


class SubtaskStarted(Event):
    """A subtask starts."""

    type: Literal["subtask_started"] = "subtask_started"
    content: str
    metadata: SubtaskStartedFacts


class FailureFacts(Fact):
    """What went wrong, classified."""

    message: str
    severity: str
    category: str


class SubtaskEndedFacts(Fact):
    """How a subtask, or one attempt of it, ended."""

    subtask_id: str
    subtask_status: str
    subtask_type: str | None = None
    result: Any = None
    error: FailureFacts | None = None
    reason: str | None = None
    duration_seconds: float | None = None
    attempt: int | None = None


class SubtaskEnded(Event):
    """A subtask, or one attempt of it, is over."""

    marks = {
        "subtask_completed": "✓", "subtask_failed": "✗", "subtask_skipped": "↷",
        "subtask_retrying": "↻", "subtask_cancelled": "■",
    }  # fmt: skip
    type: Literal[
        "subtask_completed",
        "subtask_failed",
        "subtask_skipped",
        "subtask_retrying",
        "subtask_cancelled",
    ]
    content: str | None = None
    metadata: SubtaskEndedFacts


class ProgressFacts(Fact):
    """How far a plan is; never falling."""

    done: int
    total: int
    percentage: float


class PlanProgress(Event):
    """A plan came a step further."""

    type: Literal["plan_progress"] = "plan_progress"
    metadata: ProgressFacts


class PlanChangedFacts(Fact):
    """Who changed a plan's course."""

    plan_id: str
    reason: str | None = None
    """In the words of whoever did it; `quota`, `model`, `budget` where nobody asked for a pause."""
    by: str | None = None
    duration_seconds: float | None = None
    """How long a plan that was cancelled had run; absent when it had not begun."""
    until: datetime | None = None
    """When a pause ends by itself; one for a model, when that is asked again."""
    cause: str | None = None
    """Why it is replanned: the category of the failure, or `person`."""
    subtask_id: str | None = None
    """The subtask whose failure it was."""
    replans: int | None = None
    """How often the plan has been sent back, this time included."""
    open_comments: int | None = None
    """Comments that wait for an answer, of a plan that was sent back with them."""
    revision: int | None = None
    """The one in which a plan that was cancelled ended."""


class PlanChanged(Event):
    """A plan was paused, resumed, cancelled or sent back: for replanning, or with comments."""

    tones = {
        "plan_paused": Tone.NOTICE, "plan_resumed": Tone.AGAIN, "plan_cancelled": Tone.WARNING,
        "plan_replanning": Tone.NOTICE, "plan_sent_back": Tone.NOTICE,
        "plan_not_revised": Tone.WARNING,
    }  # fmt: skip
    type: Literal[
        "plan_paused", "plan_resumed", "plan_cancelled", "plan_replanning", "plan_sent_back",
        "plan_not_revised",
    ]  # fmt: skip
    content: str | None = None
    metadata: PlanChangedFacts


class WaitFacts(Fact):
    """What is waited for."""

    reason: str
    """`model`: it does not answer."""
    until: datetime | None = None
    """How long it is waited for at most."""
    error: str | None = None
    """What went wrong."""


class ModelWaited(Event):
    """A turn, or the search for a plan's next revision, waits for its model; or waits no more."""

    tones = {"model_away": Tone.NOTICE, "model_back": Tone.AGAIN}
    type: Literal["model_away", "model_back"]
    content: str
    metadata: WaitFacts


class ContextFacts(Fact):
    """What the model was shown of a conversation before and after, in tokens as estimated."""

    window: int
    """Of the model."""
    tokens_before: int
    tokens_after: int
    results: int | None = None
    """How many results are a line now."""
    messages: int | None = None
    """How many messages a text stands for now, from the first one on."""
    summary: bool | None = None
    """Whether a model summed them up; else the text has the facts of the record alone."""
    version: int
    """Of the rules by which it was done."""


class ContextShortened(Event):
    """A conversation nears its model's window: from here on the model is shown less of it."""

    tones = {"context_compacted": Tone.NOTICE}
    type: Literal["context_elided", "context_compacted"]
    content: str
    metadata: ContextFacts


class WindowFacts(Fact):
    """How full a model's window is."""

    window: int
    """Tokens that a request and its reply may have together."""
    tokens: int
    """Those of the last ones, as the provider counted them."""


class WindowUsed(Event):
    """A conversation takes noticeably more, or less, of its model's window than before."""

    type: Literal["window_used"] = "window_used"
    metadata: WindowFacts


class InstructedFacts(Fact):
    """What was told of instruction files, and never what stands in them."""

    files: list[dict[str, Any]]
    """`{path, source, sha256, bytes, how, cut}` each."""


class InstructionsLoaded(Event):
    """A conversation was told what instruction files say, or what is otherwise in them."""

    type: Literal["instructions_loaded"] = "instructions_loaded"
    content: str
    metadata: InstructedFacts


class FallbackFacts(Fact):
    """Which model answers in the place of another."""

    model: str
    error: str
    """What was wrong with the other one."""


class ModelFellBack(Event):
    """Another model answers, since the one that should does not."""

    tones = {"model_fallback": Tone.NOTICE}
    type: Literal["model_fallback"] = "model_fallback"
    content: str
    metadata: FallbackFacts


class RollbackFacts(Fact):
    """What a rollback did; paths as they are stored, a few hundred at most."""

    plan_id: str
    by: str
    checkpoint_id: str
    """The checkpoint that was taken before it: going back to it undoes the rollback."""
    subtasks: list[str]
    """The subtasks whose changes were undone."""
    again: list[str] = []
    """Those that will run again when the plan goes on."""
    restored: list[str]
    conflicts: list[str]
    """Files that stayed as they are, since somebody changed them."""
    shared: list[str]
    """Files that stayed as they are, since they changed while a command ran."""


class PlanRolledBack(Event):
    """What a plan did to files was undone."""

    tones = {"plan_rolled_back": Tone.NOTICE}
    type: Literal["plan_rolled_back"] = "plan_rolled_back"
    content: str | None = None
    metadata: RollbackFacts


class PlanEndedFacts(Fact):
    """A plan's account; the numbers add up to `total`."""

    plan_id: str
    status: str
    total: int
    completed: int
    failed: int
    skipped: int
    cancelled: int = 0
    refused: int | None = None
    """Calls that were denied, rejected, or left unanswered until they expired; absent for none."""
    duration_seconds: float
    revision: int | None = None
    """The one that it ended in: what was proposed since, and not approved, is no part of it."""


class PlanEnded(Event):
    """A plan is over."""

    tones = {"plan_completed": Tone.RESULT}
    type: Literal["plan_completed"] = "plan_completed"
    content: str
    metadata: PlanEndedFacts


class CheckpointFacts(Fact):
    """Why a checkpoint was taken."""

    checkpoint_id: str
    reason: str
    subtask_id: str | None = None


class CheckpointCreated(Event):
    """A place that a rollback can go back to."""

    type: Literal["checkpoint_created"] = "checkpoint_created"
    metadata: CheckpointFacts


class NewOwnerFacts(Fact):
    """Which worker has a workspace now, where several share the work."""

    node_id: str
    fence: int


class OwnerChanged(Event):
    """The worker of the workspace was lost while it was at work, and another one goes on."""

    tones = {"owner_changed": Tone.WARNING}
    type: Literal["owner_changed"] = "owner_changed"
    content: str
    metadata: NewOwnerFacts


class ApprovalFacts(Fact):
    """Which question, and where it stands."""

    approval_id: str
    kind: str
    subject: str
    status: str
    decided_by: str | None = None
    expires_at: datetime | None = None
    waited_seconds: float | None = None
    """From the question to a person's answer."""
    needed: int | None = None
    """How many have to approve, where one is not enough."""
    votes: int | None = None
    voted_by: list[str] | None = None
    """Who has approved so far."""
    escalated_to: list[str] | None = None
    """Who may decide from now on, besides those who could; `role:admin` is a whole role."""


class ApprovalChanged(Event):
    """A question was opened, waits for others, is about to expire, or was answered."""

    tones = {
        "approval_voted": Tone.NOTICE, "approval_escalated": Tone.NOTICE,
        "approval_warning": Tone.NOTICE,
    }  # fmt: skip
    type: Literal[
        "approval_requested", "approval_voted", "approval_escalated", "approval_warning",
        "approval_resolved",
    ]  # fmt: skip
    content: str | None = None
    call_id: str | None = None
    metadata: ApprovalFacts


class ErrorHappened(Event):
    """Something did not work, said to the people who watch."""

    type: Literal["error"] = "error"
    error: str
    content: str
    code: str
    template: str | None = None
    """`error` with the names of its parts in braces, as in a problem document."""
    params: dict[str, Any] | None = None
    see: str | None = None
    """Of what was not found: the command that lists what there is."""
    is_final: bool | None = False


class Done(Event):
    """The last frame of a POST stream."""

    type: Literal["done"] = "done"
    is_final: bool | None = True


AnyEvent = Annotated[
    SessionInfo
    | AssistantMessage
    | AgentSwitched
    | ToolCalled
    | ToolApproved
    | ToolRejected
    | ToolResulted
    | PlanNotified
    | PlanCommented
    | Steered
    | PlanApproved
    | PlanRejected
    | SubtaskStarted
    | SubtaskEnded
    | PlanProgress
    | PlanChanged
    | ModelWaited
    | ContextShortened
    | WindowUsed
    | InstructionsLoaded
    | ModelFellBack
    | PlanRolledBack
    | PlanEnded
    | CheckpointCreated
    | OwnerChanged
    | ApprovalChanged
    | ErrorHappened
    | Done,
    Field(discriminator="type"),
]
EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent, config=ConfigDict(defer_build=True))
"""Reads any event, and gives the JSON Schema of the union."""
TONES: Mapping[str, Tone] = {
    word: tone for event in Event.__subclasses__() for word, tone in event.tones.items()
}
"""By its word, each event whose content people are shown as it stands."""
MARKS: Mapping[str, str] = {
    word: mark for event in Event.__subclasses__() for word, mark in event.marks.items()
}
"""By its word, each event that says that a subtask is over, or an attempt."""


def asks_person(body: Mapping[str, Any]) -> bool:
    """Whether a person has now seen what they are to decide about."""
    if body["type"] in {"plan_notification", "plan_not_revised"}:
        return True
    return body["type"] == "approval_requested" and body["metadata"]["kind"] != ApprovalKind.PLAN
