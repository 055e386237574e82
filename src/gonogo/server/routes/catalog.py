"""What there is, and whether it works: health, agents, tools, models, nodes, grants, analytics."""

import math
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from gonogo.domain.base import Filter
from gonogo.domain.errors import Busy
from gonogo.domain.identity import Role
from gonogo.domain.plan import COMMAND_TOOL
from gonogo.domain.plan_views import Analytics
from gonogo.domain.views import (
    AcceptedTool,
    Agents,
    Calls,
    Grants,
    Health,
    Judgement,
    Models,
    Nodes,
    PlaceLeft,
    PlaceList,
    PlaceShown,
    PolicyView,
    Servers,
    Tools,
    Vacuumed,
    Workspaces,
)
from gonogo.server.auth import Authenticated, caller_of, door_of
from gonogo.server.openapi import Accepted, Tried, VacuumOrder, takes
from gonogo.server.requests import Moment, Name, answer, once, read_body
from gonogo.server.sse import EventStream
from gonogo.telemetry import CONTENT_TYPE

# Whether the server is there, whether it can work, and its numbers.

probes = APIRouter(tags=["health"])


@probes.get("/health", response_model=Health)
async def health() -> Response:
    """The process is up. Needs no token."""
    return answer(Health(status="ok"))


@probes.get("/ready", response_model=Health)
async def ready(request: Request) -> Response:
    """The server does its work; 503 while it closes, and while its database is away.

    Needs no token.
    """
    door = door_of(request)
    if door.runtime.closing.is_set():
        return answer(Health(status="closing"), 503)
    if not await door.readiness.is_given(door.runtime.check_ready):
        found = answer(Health(status="unavailable"), 503)
        found.headers["Retry-After"] = str(Busy.retry_after)
        return found
    return answer(Health(status="ready"))


@probes.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus. Needs a token unless they are public."""
    door = door_of(request)
    if not door.runtime.settings.metrics_public:
        await caller_of(request)
    if door.runtime.hears_within < math.inf:
        await door.runtime.maintenance.measure()
    return Response(door.runtime.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


# What there is: agents, tools, models, grants, what came of the work, and what all of it takes.

router = APIRouter(tags=["catalog"])
_WORD = {"type": "string"}
_NEWS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "What changed",
        "content": {"text/event-stream": {"schema": {
            "type": "object", "required": ["type"], "properties": {
                "type": {"const": "news"}, "session_id": _WORD,
                "events": {"type": "array", "items": _WORD},
            },
        }}},
    }
}  # fmt: skip


@router.get("/agents", response_model=Agents)
async def list_agents(caller: Authenticated) -> Response:
    """The agent profiles."""
    return answer(Agents(agents=caller.runtime.agents()))


@router.get("/nodes", response_model=Nodes)
async def list_nodes(caller: Authenticated) -> Response:
    """The servers and workers that share the work."""
    return answer(Nodes(nodes=await caller.runtime.maintenance.nodes(caller.principal)))


@router.get("/places", response_model=PlaceList)
async def list_places(caller: Authenticated) -> Response:
    """The workspaces that several processes share, and which worker has each."""
    return answer(PlaceList(places=await caller.runtime.maintenance.places(caller.principal)))


@router.get("/places/{place_id}", response_model=PlaceShown)
async def show_place(caller: Authenticated, place_id: Name) -> Response:
    """One of these workspaces, by its id or that of a session in it: who has it, and who had it."""
    return answer(await caller.runtime.maintenance.place(caller.principal, place_id))


@router.post("/places/{place_id}/release", response_model=PlaceLeft)
async def release_place(caller: Authenticated, place_id: Name) -> Response:
    """Have the worker of a workspace leave it to another one."""
    left = await caller.runtime.maintenance.release(caller.principal, place_id)
    return answer(PlaceLeft(released=left))


@router.get("/tools", response_model=Tools)
async def list_tools(caller: Authenticated) -> Response:
    """The tools that agents may use."""
    return answer(Tools(tools=caller.runtime.tools()))


@router.get("/servers", response_model=Servers)
async def list_servers(caller: Authenticated) -> Response:
    """The foreign (MCP) servers, how they are, and what of their tools has changed."""
    return answer(Servers(servers=await caller.runtime.servers.all(caller.principal)))


@router.post("/tools/accept", response_model=AcceptedTool, openapi_extra=takes(Accepted))
async def accept_tool(caller: Authenticated) -> Response:
    """Have a server's tool count as it was seen last: what allowed it earlier allows it again."""
    caller.principal.require(Role.ADMIN)
    body = await read_body(caller.request, Accepted)
    runtime = caller.runtime
    return await once(
        caller, body, lambda: runtime.servers.accept(caller.principal, body.name), 200
    )


@router.post(
    "/maintenance/vacuum", response_model=Vacuumed, openapi_extra=takes(VacuumOrder, required=False)
)
async def vacuum(caller: Authenticated) -> Response:
    """Give back the room that the database and the snapshots do not need. For admins.

    Whatever is written meanwhile waits until it is done.
    """
    body = await read_body(caller.request, VacuumOrder)

    async def vacuumed() -> Vacuumed:
        return await caller.runtime.maintenance.vacuum(caller.principal, dry_run=body.dry_run)

    return await once(caller, body, vacuumed)


@router.get("/models", response_model=Models)
async def list_models(caller: Authenticated) -> Response:
    """The models that could be used here."""
    return answer(Models(models=caller.runtime.models()))


@router.get("/workspaces", response_model=Workspaces)
async def list_workspaces(caller: Authenticated) -> Response:
    """The folders in which a session can be opened: those used lately, and what is allowed."""
    return answer(await caller.runtime.sessions.workspaces(caller.principal))


@router.get("/news", responses=_NEWS, response_class=Response)
async def follow_news(caller: Authenticated) -> Response:
    """Which sessions change, from now on: whoever shows several asks again only where it says."""
    return EventStream(caller, lambda: caller.runtime.streams.news(caller.principal), ends=False)


@router.get("/policy", response_model=PolicyView)
async def get_policy(caller: Authenticated) -> Response:
    """The rules of the files, as they hold since the server began; for admins."""
    return answer(caller.runtime.policies.in_force(caller.principal))


@router.post("/policy/check", response_model=Judgement, openapi_extra=takes(Tried))
async def check_call(caller: Authenticated) -> Response:
    """What the rules make of a call, step by step; nothing runs. For admins."""
    body = await read_body(caller.request, Tried)
    tool = body.tool or COMMAND_TOOL
    arguments = body.arguments if body.command is None else {"command": body.command}
    return answer(
        await caller.runtime.policies.judge(caller.principal, tool, arguments, body.agent)
    )


@router.get("/grants", response_model=Grants)
async def list_grants(caller: Authenticated, session_id: Filter = None) -> Response:
    """What approved plans may do without a question."""
    grants = await caller.runtime.plans.grants(caller.principal, session_id=session_id)
    return answer(Grants(grants=grants))


@router.delete("/grants/{grant_id}", status_code=204)
async def revoke_grant(caller: Authenticated, grant_id: Name) -> Response:
    """End a grant; what it covered asks again."""
    await caller.runtime.plans.revoke_grant(caller.principal, grant_id)
    return answer(None)


@router.get("/calls", response_model=Calls)
async def list_calls(
    caller: Authenticated,
    session_id: Filter = None,
    since: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> Response:
    """Tool calls as they were judged, oldest first."""
    calls = await caller.runtime.reports.calls(caller.principal, session_id, since, limit, offset)
    return answer(Calls(calls=calls))


@router.get("/analytics", response_model=Analytics)
async def analytics(
    caller: Authenticated,
    session_id: Filter = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Response:
    """What came of the work: by default in the last thirty days, over all sessions seen."""
    return answer(
        await caller.runtime.reports.analytics(caller.principal, session_id, since, until)
    )
