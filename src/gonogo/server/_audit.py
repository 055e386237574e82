"""The audit log: read, exported, verified, anchored, and shortened by what was exported."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime
from starlette.responses import StreamingResponse

from gonogo.domain.audit_views import AuditAnchor, AuditHead, AuditReport
from gonogo.domain.chain import Head, read_anchors
from gonogo.domain.errors import GonogoError
from gonogo.domain.pages import Audit, AuditHeads
from gonogo.server._answers import answer, once
from gonogo.server._bodies import Nothing, Prune
from gonogo.server._body import read_body
from gonogo.server._caller import Authenticated, Caller, address_of
from gonogo.server._params import Filter
from gonogo.server._schema import takes

router = APIRouter(tags=["audit"])
LINES = "application/x-ndjson"


@router.get("/audit", response_model=Audit)
async def read_audit(
    caller: Authenticated,
    session_id: Filter = None,
    after: Annotated[int, Query(ge=0, lt=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """A stretch of the audit chain of a session, or of the system's."""
    entries = await caller.runtime.audit(
        caller.principal, session_id=session_id, after=after, limit=limit
    )
    return answer(Audit(entries=entries))


@router.get("/audit/verify", response_model=AuditReport)
async def verify_audit(
    caller: Authenticated,
    anchor: Annotated[str | None, Query(min_length=1, max_length=8_000)] = None,
) -> Response:
    """Whether every audit chain is whole, and still has what the anchors say."""
    anchors = read_anchors(anchor) if anchor is not None else ()
    return answer(await caller.runtime.verify_audit(caller.principal, anchors))


@router.get(
    "/audit/export",
    response_class=Response,
    responses={200: {"description": "One entry a line", "content": {LINES: {}}}},
)
async def export_audit(
    caller: Authenticated,
    session_id: Filter = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    removable: AwareDatetime | None = None,
) -> Response:
    """The audit log as lines of JSON, to be verified without this server."""
    lines = await caller.runtime.export_audit(
        caller.principal, session_id=session_id, since=since, until=until, removable=removable
    )
    return StreamingResponse(_while_valid(caller, lines), media_type=LINES)


@router.post("/audit/anchors", status_code=201, response_model=AuditAnchor,
             openapi_extra=takes(Nothing))  # fmt: skip
async def anchor_audit(caller: Authenticated) -> Response:
    """Note where every chain stands, for a text that is kept elsewhere."""
    body = await read_body(caller.request, Nothing)
    return await once(caller, body, lambda: caller.runtime.anchor_audit(caller.principal), 201)


@router.post("/audit/prune", response_model=AuditHeads, openapi_extra=takes(Prune))
async def prune_audit(caller: Authenticated) -> Response:
    """Remove the beginnings of chains, each up to an entry that was exported."""
    body = await read_body(caller.request, Prune)

    async def pruned() -> AuditHeads:
        heads = [Head(chain=each.chain, seq=each.seq, hash=each.hash) for each in body.heads]
        gone = await caller.runtime.prune_audit(caller.principal, body.before, heads)
        return AuditHeads(
            heads=[AuditHead(chain=each.chain, seq=each.seq, hash=each.hash) for each in gone]
        )

    return await once(caller, body, pruned)


async def _while_valid(caller: Caller, lines: AsyncGenerator[str]) -> AsyncIterator[str]:
    """The lines, for as long as the credential counts. Without the last one, a file is cut off."""
    async for text in lines:
        if caller.credential is not None:
            try:
                await caller.door.identify(caller.credential, address_of(caller.request))
            except GonogoError:
                return
        yield text
