"""What there is, what was done, and who may come in: what a person who operates gonogo asks."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import StreamingResponse

from gonogo.domain.audit_chain import SYSTEM, AuditFilter, AuditPlace, ChainHead, read_anchors
from gonogo.domain.base import Filter
from gonogo.domain.errors import Busy, GonogoError, InvalidCursor, Unauthorized
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import COMMAND_TOOL
from gonogo.domain.plan_views import Analytics, AuditAnchor, AuditEntry, AuditHead, AuditReport
from gonogo.domain.views import (
    AcceptedTool,
    Agents,
    Audit,
    AuditHeads,
    Calls,
    Grants,
    Health,
    Judgement,
    MadeToken,
    Me,
    Models,
    Nodes,
    PlaceLeft,
    PlaceList,
    PlaceShown,
    PolicyView,
    Servers,
    Tokens,
    Tools,
    Vacuumed,
    Workspaces,
)
from gonogo.i18n import resolve
from gonogo.i18n.texts import about, why
from gonogo.server.auth import (
    Authenticated,
    Caller,
    ServerState,
    address_of,
    caller_of,
    cookie_name,
    door_of,
)
from gonogo.server.openapi import (
    Accepted,
    Entry,
    NewToken,
    Nothing,
    Prune,
    Tried,
    VacuumOrder,
    takes,
)
from gonogo.server.requests import Language, Moment, Name, answer, once, read_body
from gonogo.server.streams import EventStream
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
    accepted = partial(caller.runtime.servers.accept, caller.principal, body.name)
    return await once(caller, body, accepted)


@router.post(
    "/maintenance/vacuum", response_model=Vacuumed, openapi_extra=takes(VacuumOrder, required=False)
)
async def vacuum(caller: Authenticated) -> Response:
    """Give back the room that the database and the snapshots do not need. For admins.

    Whatever is written meanwhile waits until it is done.
    """
    body = await read_body(caller.request, VacuumOrder)

    vacuum = caller.runtime.maintenance.vacuum
    return await once(caller, body, partial(vacuum, caller.principal, dry_run=body.dry_run))


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


# The audit log: read, exported, verified, anchored, and shortened by what was exported.

audit = APIRouter(tags=["audit"])
LINES = "application/x-ndjson"
_Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Wanted(BaseModel):
    """Which entries are asked for, and which page of them."""

    session_id: Filter = None
    actor: _Word | None = None
    """An id, or a person's name."""
    action: _Word | None = None
    """How it begins, such as `tool.`."""
    since: Moment | None = None
    until: Moment | None = None
    after: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Of one chain: only entries with a greater number. Without `session_id` that is `system`."""
    before: _Word | None = None
    """Of all chains: the `before` of the page that follows the one that is asked for."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    locale: Language = None
    """Of `why`; else the language of the server."""

    def filter(self) -> AuditFilter:
        """What an entry must be."""
        return AuditFilter(actor=self.actor, action=self.action, since=self.since, until=self.until)

    def chain(self) -> str | None:
        """The one chain that is meant; None: all of them."""
        return SYSTEM if self.session_id is None and self.after is not None else self.session_id

    def place(self) -> AuditPlace | None:
        """Where the page ends.

        Raises:
            InvalidCursor: it is no place, or pages are asked for in the other way.
        """
        if self.before is None:
            return None
        if self.chain() is not None:
            raise InvalidCursor(
                "`before` works only for all chains together; for one chain, use `after`"
            )
        return AuditPlace.read(self.before)


@audit.get("/audit", response_model=Audit)
async def read_audit(
    caller: Authenticated,
    wanted: Annotated[Wanted, Query()],
) -> Response:
    """The newest entries of all chains, or a stretch of one chain: a session's, or `system`.

    All chains are paged by `before`, one chain by `after`; `after` alone is of `system`.
    """
    place, chain = wanted.place(), wanted.chain()
    locale = resolve(wanted.locale, caller.runtime.settings.locale)
    if chain is None:
        page = await caller.runtime.audit.page(
            caller.principal, wanted.filter(), place, wanted.limit
        )
        return answer(page.model_copy(update={"entries": _said(page.entries, locale)}))
    entries = await caller.runtime.audit.entries(
        caller.principal, chain, wanted.after or 0, wanted.limit, wanted.filter()
    )
    return answer(Audit(entries=_said(entries, locale)))


@audit.get("/audit/verify", response_model=AuditReport)
async def verify_audit(
    caller: Authenticated,
    anchor: Annotated[str | None, Query(min_length=1, max_length=8_000)] = None,
    session_id: Filter = None,
) -> Response:
    """Whether the audit chains are whole, say what the database holds, and what the anchors say.

    With `session_id` only that session's chain is looked at, and the system's.
    """
    anchors = read_anchors(anchor) if anchor is not None else ()
    return answer(await caller.runtime.audit.verify(caller.principal, anchors, session_id))


@audit.get(
    "/audit/export",
    response_class=Response,
    responses={200: {"description": "One entry a line", "content": {LINES: {}}}},
)
async def export_audit(
    caller: Authenticated,
    session_id: Filter = None,
    since: Moment | None = None,
    until: Moment | None = None,
    removable: Moment | None = None,
) -> Response:
    """The audit log as lines of JSON, to be verified without this server."""
    lines = await caller.runtime.audit.export(
        caller.principal, session_id=session_id, since=since, until=until, removable=removable
    )
    return StreamingResponse(_while_valid(caller, lines), media_type=LINES)


@audit.post("/audit/anchors", status_code=201, response_model=AuditAnchor,
             openapi_extra=takes(Nothing))  # fmt: skip
async def anchor_audit(caller: Authenticated) -> Response:
    """Note where every chain stands, for a text that is kept elsewhere."""
    body = await read_body(caller.request, Nothing)
    return await once(caller, body, lambda: caller.runtime.audit.anchor(caller.principal), 201)


@audit.post("/audit/prune", response_model=AuditHeads, openapi_extra=takes(Prune))
async def prune_audit(caller: Authenticated) -> Response:
    """Remove the beginnings of chains, each up to an entry that was exported."""
    body = await read_body(caller.request, Prune)

    async def pruned() -> AuditHeads:
        heads = [ChainHead(chain=each.chain, seq=each.seq, hash=each.hash) for each in body.heads]
        gone = await caller.runtime.audit.prune(caller.principal, body.before, heads)
        return AuditHeads(heads=[AuditHead.of(each) for each in gone])

    return await once(caller, body, pruned)


def _said(entries: list[AuditEntry], locale: str) -> list[AuditEntry]:
    return [
        entry.model_copy(update={"about": about(entry), "why": why(entry, locale)})
        for entry in entries
    ]


async def _while_valid(caller: Caller, lines: AsyncGenerator[str]) -> AsyncIterator[str]:
    """The lines, for as long as the credential counts. Without the last one, a file is cut off."""
    async for text in lines:
        if caller.credential is not None:
            try:
                await caller.door.identify(caller.credential, address_of(caller.request))
            except GonogoError:
                return
        yield text


# Getting in: browser sessions and tokens.

access = APIRouter(tags=["access"])


@access.post("/auth/session", status_code=204, openapi_extra=takes(Entry))
async def log_in(request: Request) -> Response:
    """Spend the code of the link that `gonogo serve` prints, or show a token; get a cookie."""
    door = door_of(request)
    body = await read_body(request, Entry)
    try:
        who = await _entering(door, body)
    except Unauthorized:
        door.failures.add(address_of(request))
        raise
    secret = await door.runtime.people.log_in(who, body.token)
    welcome = answer(None)
    welcome.set_cookie(cookie_name(request), secret, **_cookie(request))
    return welcome


@access.delete("/auth/session", status_code=204)
async def log_out(caller: Authenticated) -> Response:
    """End the browser session of this request."""
    if caller.credential is not None and caller.credential.session is not None:
        await caller.runtime.people.log_out(caller.credential.session)
        caller.door.credentials_changed()
    farewell = answer(None)
    farewell.delete_cookie(cookie_name(caller.request), **_cookie(caller.request))
    return farewell


@access.get("/me", response_model=Me)
async def who_am_i(caller: Authenticated) -> Response:
    """Who this request comes from, as it was authenticated."""
    known = caller.principal
    return answer(Me(id=known.id, name=known.name, role=known.role.word, until=known.until))


@access.get("/tokens", response_model=Tokens)
async def list_tokens(caller: Authenticated) -> Response:
    """The tokens, without their secrets."""
    return answer(Tokens(tokens=await caller.runtime.people.tokens(caller.principal)))


@access.post("/tokens", status_code=201, response_model=MadeToken, openapi_extra=takes(NewToken))
async def create_token(caller: Authenticated) -> Response:
    """Make a token. Its secret is in this answer and nowhere else: no key stores it."""
    body = await read_body(caller.request, NewToken)
    view, token = await caller.runtime.people.create_token(
        caller.principal, body.name, Role[body.role.upper()]
    )
    return answer(MadeToken(token=token, view=view), 201)


@access.delete("/tokens/{token_id}", status_code=204, response_model=None)
async def revoke_token(caller: Authenticated, token_id: Name) -> Response:
    """End a token, and the connections that it opened."""
    await caller.runtime.people.revoke_token(caller.principal, token_id)
    return answer(None)


async def _entering(door: ServerState, body: Entry) -> Principal:
    if body.code is not None:
        return await door.spend_code(body.code)
    return await door.runtime.people.authenticate(body.token or "")


def _cookie(request: Request) -> dict[str, Any]:
    # Behind a proxy the last step is plain; the page's origin, checked before, is where it began.
    origin = request.headers.get("origin", "").lower()
    secure = request.url.scheme == "https" or origin.startswith("https://")
    return {"httponly": True, "samesite": "strict", "secure": secure}
