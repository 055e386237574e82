"""What there is: agents, tools, models, grants, and what came of the work."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from gonogo.domain.analytics import Analytics
from gonogo.domain.pages import Agents, Calls, Grants, Models, Tools
from gonogo.server._answers import answer
from gonogo.server._caller import Authenticated
from gonogo.server._params import Filter, Name

router = APIRouter(tags=["catalog"])


@router.get("/agents", response_model=Agents)
async def list_agents(caller: Authenticated) -> Response:
    """The agent profiles."""
    return answer(Agents(agents=caller.runtime.agents()))


@router.get("/tools", response_model=Tools)
async def list_tools(caller: Authenticated) -> Response:
    """The tools that agents may use."""
    return answer(Tools(tools=caller.runtime.tools()))


@router.get("/models", response_model=Models)
async def list_models(caller: Authenticated) -> Response:
    """The models that could be used here."""
    return answer(Models(models=caller.runtime.models()))


@router.get("/grants", response_model=Grants)
async def list_grants(caller: Authenticated, session_id: Filter = None) -> Response:
    """What approved plans may do without a question."""
    grants = await caller.runtime.grants(caller.principal, session_id=session_id)
    return answer(Grants(grants=grants))


@router.delete("/grants/{grant_id}", status_code=204)
async def revoke_grant(caller: Authenticated, grant_id: Name) -> Response:
    """End a grant; what it covered asks again."""
    await caller.runtime.revoke_grant(caller.principal, grant_id)
    return answer(None)


@router.get("/calls", response_model=Calls)
async def list_calls(
    caller: Authenticated,
    session_id: Filter = None,
    since: AwareDatetime | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> Response:
    """Tool calls as they were judged, oldest first."""
    calls = await caller.runtime.calls(caller.principal, session_id, since, limit, offset)
    return answer(Calls(calls=calls))


@router.get("/analytics", response_model=Analytics)
async def analytics(
    caller: Authenticated,
    session_id: Filter = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> Response:
    """What came of the work: by default in the last thirty days, over all sessions seen."""
    return answer(await caller.runtime.analytics(caller.principal, session_id, since, until))
