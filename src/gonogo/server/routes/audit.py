"""The audit log: read, exported, verified, anchored, and shortened by what was exported."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import StreamingResponse

from gonogo.domain.audit_chain import SYSTEM, AuditFilter, AuditPlace, ChainHead, read_anchors
from gonogo.domain.base import Filter
from gonogo.domain.errors import GonogoError, InvalidCursor
from gonogo.domain.plan_views import AuditAnchor, AuditEntry, AuditHead, AuditReport
from gonogo.domain.views import Audit, AuditHeads
from gonogo.i18n import resolve
from gonogo.i18n.audit import about, why
from gonogo.server.auth import Authenticated, Caller, address_of
from gonogo.server.openapi import Nothing, Prune, takes
from gonogo.server.requests import Language, Moment, answer, once, read_body

router = APIRouter(tags=["audit"])
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


@router.get("/audit", response_model=Audit)
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


@router.get("/audit/verify", response_model=AuditReport)
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


@router.get(
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


@router.post("/audit/anchors", status_code=201, response_model=AuditAnchor,
             openapi_extra=takes(Nothing))  # fmt: skip
async def anchor_audit(caller: Authenticated) -> Response:
    """Note where every chain stands, for a text that is kept elsewhere."""
    body = await read_body(caller.request, Nothing)
    return await once(caller, body, lambda: caller.runtime.audit.anchor(caller.principal), 201)


@router.post("/audit/prune", response_model=AuditHeads, openapi_extra=takes(Prune))
async def prune_audit(caller: Authenticated) -> Response:
    """Remove the beginnings of chains, each up to an entry that was exported."""
    body = await read_body(caller.request, Prune)

    async def pruned() -> AuditHeads:
        heads = [ChainHead(chain=each.chain, seq=each.seq, hash=each.hash) for each in body.heads]
        gone = await caller.runtime.audit.prune(caller.principal, body.before, heads)
        return AuditHeads(
            heads=[AuditHead(chain=each.chain, seq=each.seq, hash=each.hash) for each in gone]
        )

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
