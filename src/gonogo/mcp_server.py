"""The door for other agents: a server of the Model Context Protocol on standard input and output.

It is a client of the runtime, as every command is. Another agent may ask for a plan and look at
plans, questions and results. What it promises: nothing here decides; who asked for a plan cannot
approve it through this door, whatever it is told, and a message is never taken as a decision.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gonogo import __version__
from gonogo.client import Client
from gonogo.domain.base import MAX_BYTES, loads
from gonogo.domain.errors import (
    GonogoError,
    InvalidMessage,
    NotFound,
    TooLarge,
    because,
    defect_of,
    parts_of,
)
from gonogo.domain.plan_views import PlanView
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalView
from gonogo.pipes import LineReader, request_id_of, write_all

Answer = dict[str, Any]
_MOST_TEXT, _MOST_ITEMS = 8_000, 100
"""Characters of one result, and questions in one answer."""
_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$")]
"""As ids are; it becomes part of a path."""


class _Given(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProposePlan(_Given):
    """What is wanted, and how long to wait for the plan."""

    task: Annotated[
        str,
        Field(min_length=1, max_length=100_000, description="What is wanted, complete in itself."),
    ]
    session_id: Annotated[
        _Id | None, Field(description="The session to continue; a new one if left out.")
    ] = None
    wait_seconds: Annotated[
        float,
        Field(ge=0, le=600, description="How long to wait; the work continues in any case."),
    ] = 45


class PlanQuery(_Given):
    """Which plan."""

    plan_id: Annotated[_Id | None, Field(description="The plan.")] = None
    session_id: Annotated[
        _Id | None, Field(description="Or a session: its newest plan is told.")
    ] = None


class PendingQuery(_Given):
    """Whose questions."""

    session_id: Annotated[
        _Id | None, Field(description="Only those of one session; all if left out.")
    ] = None


class PlanResult(_Given):
    """Which plan."""

    plan_id: Annotated[_Id, Field(description="The plan.")]


class Offer(Struct, frozen=True):
    """One tool of this door."""

    name: str
    description: str
    arguments: type[_Given]
    run: Callable[[Client, Any], Awaitable[Answer]]
    only_looks: bool = True


async def propose_plan(client: Client, given: ProposePlan) -> Answer:
    """Say what is wanted to the architect, and wait for what comes."""
    session = given.session_id or (await client.open_session()).session_id
    message = {"type": "user_message", "content": given.task, "agent_type": "architect"}
    said: list[str] = []
    with anyio.CancelScope() as limit:

        def kept() -> None:
            # From now on leaving changes nothing: what was said is being worked on.
            limit.deadline = min(limit.deadline, anyio.current_time() + given.wait_seconds)

        async with aclosing(client.send(session, message, on_kept=kept)) as events:
            async for event in events:
                if event["type"] == "error":
                    raise InvalidMessage(str(event.get("content") or event))
                if event["type"] == "assistant_message" and "token" not in event:
                    said.append(event["content"])
    answer = await _newest(client, session)
    if limit.cancelled_caught:
        answer["note"] = "The work continues; ask plan_status with the session_id for the result."
    return answer | {"said": _short("\n\n".join(filter(None, said)))}


async def plan_status(client: Client, given: PlanQuery) -> Answer:
    """How a plan stands, and what it waits for."""
    if (given.plan_id is None) == (given.session_id is None):
        raise InvalidMessage("plan_status takes either a plan_id or a session_id")
    if given.session_id is not None:
        return await _newest(client, given.session_id)
    plan = await client.plan(given.plan_id or "")
    return _plan(plan) | await _waits(client, plan.session_id)


async def pending_approvals(client: Client, given: PendingQuery) -> Answer:
    """The questions that wait for a person."""
    found = await client.approvals(status=ApprovalStatus.PENDING, session_id=given.session_id)
    shown = [_question(each) for each in found.approvals[:_MOST_ITEMS]]
    return {"pending": shown, "count": len(found.approvals)}


async def plan_result(client: Client, given: PlanResult) -> Answer:
    """What came of a plan and of each of its subtasks."""
    plan = await client.plan(given.plan_id)
    results = [
        {
            "id": each.id, "status": each.status, "result": _whole(each.result),
            "error": each.error, "reason": each.reason,
        }
        for each in plan.subtasks
    ]  # fmt: skip
    return {
        "plan_id": plan.plan_id, "session_id": plan.session_id, "goal": plan.goal,
        "status": plan.status, "is_over": plan.finished_at is not None,
        "subtasks": [_without_nothing(each) for each in results],
    }  # fmt: skip


OFFERS = (
    Offer(
        "propose_plan",
        "Ask gonogo's architect for a plan. A person decides on it before anything runs; you"
        " cannot. Gives the session, and the plan if it came in time.",
        ProposePlan,
        propose_plan,
        only_looks=False,
    ),
    Offer(
        "plan_status",
        "How a plan stands: its status, its subtasks, and what waits for a person.",
        PlanQuery,
        plan_status,
    ),
    Offer(
        "pending_approvals",
        "The questions that wait for a person. They are answered by people, not here.",
        PendingQuery,
        pending_approvals,
    ),
    Offer(
        "plan_result",
        "What came of a plan: its status, and each subtask's result or error.",
        PlanResult,
        plan_result,
    ),
)


async def _newest(client: Client, session_id: str) -> Answer:
    """A session's newest plan, and what the session waits for."""
    # Asked by its id first: a session that is not there has no plans either.
    session = await client.session(session_id)
    plans = (await client.plans(session_id=session.session_id, limit=1)).plans
    about = _plan(plans[0]) if plans else {"session_id": session_id, "plan_id": None}
    return about | await _waits(client, session_id)


async def _waits(client: Client, session_id: str) -> Answer:
    try:
        waiting = await client.pending_approvals(session_id)
    except NotFound:
        return {"waits_for": []}
    return {"waits_for": [_question(each) for each in waiting.pending_approvals[:_MOST_ITEMS]]}


def _plan(plan: PlanView) -> Answer:
    subtasks = [
        _without_nothing({
            "id": each.id, "description": _short(each.description), "status": each.status,
            "agent": each.agent, "tool": each.tool, "dependencies": each.dependencies,
        })
        for each in plan.subtasks
    ]  # fmt: skip
    return _without_nothing({
        "plan_id": plan.plan_id, "session_id": plan.session_id, "goal": plan.goal,
        "status": plan.status, "revision": plan.revision, "pause_reason": plan.pause_reason,
        "feedback": plan.feedback, "subtasks": subtasks,
    })  # fmt: skip


def _question(asked: ApprovalView) -> Answer:
    return _without_nothing({
        "approval_id": asked.approval_id, "kind": asked.kind, "subject": _short(asked.subject),
        "reason": _short(asked.reason), "session_id": asked.session_id, "plan_id": asked.plan_id,
        "subtask_id": asked.subtask_id, "asked_at": asked.created_at.isoformat(),
        "expires_at": asked.expires_at.isoformat() if asked.expires_at else None,
        "answered_by": f"a person: gonogo approvals show {asked.approval_id}",
    })  # fmt: skip


def _whole(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A result, its texts of a bounded length."""
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _whole(each) for key, each in list(fields.items())[:_MOST_ITEMS]}
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[Any]", value)[:_MOST_ITEMS]]
    return value


def _short(text: str) -> str:
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_MOST_TEXT]} [… {len(text) - _MOST_TEXT} characters left out …]"


def _without_nothing(fields: Answer) -> Answer:
    return {name: value for name, value in fields.items() if value is not None}


# Messages on two file descriptors, one a line, as the library's server wants them.
#
# The library's own reading blocks a thread that nobody can end; this one waits in the event loop.


@asynccontextmanager
async def messages_on(source: int, sink: int) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of messages from the other side and to it; the block ends when nobody reads.

    A line that is no message is answered with what is wrong with it.

    Args:
        source: Where messages are read from.
        sink: Where messages are written to.
    """
    into, received = anyio.create_memory_object_stream[Any](0)
    sent, out = anyio.create_memory_object_stream[SessionMessage](0)
    async with into, received, sent, out, anyio.create_task_group() as group:

        async def write() -> None:
            await _write(sink, out)
            group.cancel_scope.cancel()

        group.start_soon(_read, source, into, sent.clone())
        group.start_soon(write)
        yield received, sent
        group.cancel_scope.cancel()


async def _read(
    source: int,
    into: MemoryObjectSendStream[Any],
    refused: MemoryObjectSendStream[SessionMessage],
) -> None:
    lines = LineReader(source, MAX_BYTES)
    async with into, refused:
        while (line := await lines.next()) is not None:
            message, refusal = _message(line)
            to = into if refusal is None else refused
            try:
                await to.send(SessionMessage(refusal or message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def _message(line: bytes) -> tuple[Any, JSONRPCError | None]:
    """The message of a line, or the error that answers it."""
    try:
        return jsonrpc_message_adapter.validate_python(loads(line), by_name=False), None
    except TooLarge as error:
        code, said = INVALID_REQUEST, str(error)
    except InvalidMessage as error:
        code, said = PARSE_ERROR, str(error)
    except ValidationError:
        code, said = INVALID_REQUEST, "Not a message of JSON-RPC 2.0; send one object a line"
    problem = ErrorData(code=code, message=said)
    return None, JSONRPCError(jsonrpc="2.0", id=request_id_of(line), error=problem)


async def _write(sink: int, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(OSError):
        async with out:
            async for message in out:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await write_all(sink, f"{text}\n".encode())


# Speaks the protocol: lists the tools of this door, and answers calls of them.

_BY_NAME = {offer.name: offer for offer in OFFERS}
_INSTRUCTIONS = (
    "gonogo runs plans of coding work that a person approves first. Ask for a plan, then look how"
    " it stands. You cannot approve, reject or edit anything here: tell your user what waits."
)


async def serve_agents(client: Client, source: int, sink: int) -> None:
    """Serve the other side of two pipes until it is gone.

    Args:
        client: Speaks to the runtime.
        source: The file descriptor that messages are read from.
        sink: The one that they are written to.
    """
    server: Server[Any] = Server(
        "gonogo",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=_listed,
        on_call_tool=partial(_called, client),
    )
    async with messages_on(source, sink) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _listed(context: Any, params: Any) -> ListToolsResult:  # noqa: ANN401 - the library's
    del context, params
    return ListToolsResult(tools=[_tool(offer) for offer in OFFERS])


def _tool(offer: Offer) -> Tool:
    schema = offer.arguments.model_json_schema()
    return Tool(
        name=offer.name,
        description=offer.description,
        input_schema={"type": "object", **{k: v for k, v in schema.items() if k != "title"}},
        annotations=ToolAnnotations(
            read_only_hint=offer.only_looks, destructive_hint=False, open_world_hint=False
        ),
    )


async def _called(
    client: Client,
    context: Any,  # noqa: ANN401 - the library's
    params: CallToolRequestParams,
) -> CallToolResult:
    del context
    offer = _BY_NAME.get(params.name)
    if offer is None:
        return _error(
            "unknown_tool", because("There is no tool {name!r}; see tools/list", name=params.name)
        )
    try:
        given = offer.arguments.model_validate(params.arguments or {})
        return _answer(await offer.run(client, given))
    except ValidationError as error:
        return _error("invalid_arguments", defect_of(error, "arguments"))
    except GonogoError as error:
        return _error(error.code, error.said)


def _answer(told: Answer) -> CallToolResult:
    text = json.dumps(told, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def _error(code: str, said: str) -> CallToolResult:
    text = TextContent(type="text", text=f"{code}: {said}")
    problem = {"code": code, "detail": said, **parts_of(said)}
    return CallToolResult(content=[text], structured_content=problem, is_error=True)
