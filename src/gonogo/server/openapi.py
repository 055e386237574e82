"""What clients are generated from: the bodies of requests, OpenAPI 3.1, the schema of events."""

from typing import Annotated, Any, Literal, Self, cast

from fastapi import APIRouter, FastAPI
from fastapi import Request as HttpRequest
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import (
    BaseModel,
    Field,
    StringConstraints,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import models_json_schema

from gonogo import __version__
from gonogo.domain.base import LenientRequest, Request
from gonogo.domain.errors import because
from gonogo.domain.events import EVENTS, AnyEvent
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
from gonogo.domain.views import Problem
from gonogo.server.auth import Authenticated
from gonogo.server.requests import LANGUAGE, Language, Moment

# The bodies of REST requests, read as strictly as client messages.
#
# The messages themselves are in `gonogo.domain.messages`, what is shown in `gonogo.domain.views`
# and its neighbours.

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


# What clients are generated from: OpenAPI 3.1, and the JSON Schema of the events.
#
# Bodies are read by our own strict reader, so the routes say here what they take. What is absent on
# the wire is never null, and a message or an event always says its type; the models, which know
# defaults, say less, so their schemas are made to say it.

router = APIRouter(tags=["schema"])
_TEMPLATE = "#/components/schemas/{model}"
_NAMED = ("properties", "$defs")
"""Where a schema has others, by name; nulls are nowhere else in what we have."""
_ANY_EVENT: TypeAdapter[AnyEvent] = EVENTS


def takes(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The part of an operation that says which body it takes."""
    schema = {"$ref": _TEMPLATE.format(model=model.__name__)}
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}
    }


def streams(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of an operation that streams events."""
    schema = {"$ref": _TEMPLATE.format(model="Event")}
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema}}}}


def lists(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of an operation that gives several events at once."""
    events = {"type": "array", "items": {"$ref": _TEMPLATE.format(model="Event")}}
    schema = {"type": "object", "properties": {"events": events}, "required": ["events"]}
    return {200: {"description": description, "content": {"application/json": {"schema": schema}}}}


def add_schema(app: FastAPI) -> None:
    """Have `app` describe itself with what FastAPI cannot see: bodies, events and errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: HttpRequest, _: Authenticated) -> JSONResponse:
    """This server's OpenAPI document."""
    app: FastAPI = request.app
    return JSONResponse(app.openapi())


@router.get("/schema/events.json", summary="The JSON Schema of every event", response_model=None)
async def events_schema(_: Authenticated) -> JSONResponse:
    """The JSON Schema of the union of all events."""
    return JSONResponse(_as_sent(_ANY_EVENT.json_schema(mode="serialization")))


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="gonogo",
        version=__version__,
        summary="A durable agent runtime: sessions, plans, approvals, audit, events.",
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _, asked = models_json_schema(
        [(model, "validation") for model in (*REQUESTS, Problem)], ref_template=_TEMPLATE
    )
    schemas.update(asked.get("$defs", {}))
    event = _ANY_EVENT.json_schema(mode="serialization", ref_template=_TEMPLATE)
    schemas.update(event.pop("$defs", {}))
    schemas["Event"] = event
    document["components"]["schemas"] = {name: _as_sent(s) for name, s in schemas.items()}
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path in document["paths"].values():
        for operation in path.values():
            _complete(operation)
    return document


def _as_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """A model's schema without nulls, and with its fixed words required."""
    tidy: dict[str, Any] = {
        name: _as_named(part) if name in _NAMED else part for name, part in schema.items()
    }
    if tidy.get("default", tidy) is None:
        del tidy["default"]
    fixed = [name for name, part in tidy.get("properties", {}).items() if "const" in part]
    if fixed:
        tidy["required"] = [*fixed, *(n for n in tidy.get("required", []) if n not in fixed)]
    branches: list[Any] = tidy.get("anyOf", [])
    left = [branch for branch in branches if branch != {"type": "null"}]
    if len(left) == len(branches):
        return tidy
    del tidy["anyOf"]
    return {**left[0], **tidy} if len(left) == 1 else {**tidy, "anyOf": left}


def _as_named(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: _as_sent(schema) for name, schema in schemas.items()}


def _complete(operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", []):
        parameter["schema"] = _as_sent(parameter["schema"])
    schema = {"$ref": _TEMPLATE.format(model="Problem")}
    answers = operation["responses"]
    answers.pop("422", None)
    answers["default"] = {
        "description": "An error",
        "content": {"application/problem+json": {"schema": schema}},
    }
