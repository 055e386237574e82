"""The verbs about the audit log: read, export, verify, anchor, shorten."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from gonogo.domain.audit_chain import SYSTEM, Anchor, AuditFilter, AuditPlace, ChainHead, end_of
from gonogo.domain.errors import Conflict, InvalidMessage, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.report_views import AuditAnchor, AuditEntry, AuditReport
from gonogo.domain.views import Audit
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import visible, whose
from gonogo.store import Tx, patiently
from gonogo.store import audit as audit_log
from gonogo.store import audit as auditing
from gonogo.store import events as log
from gonogo.store.audit import Stretch
from gonogo.store.people import OWNER, names

_PAGE = 50
"""Entries that are in memory at once while the log is exported."""
_ANY = AuditFilter()
_Next = Callable[[Tx, str], list[Stretch]]


class AuditLog(Struct, frozen=True):
    """What can be done with the audit log; nothing changes an entry."""

    _parts: Parts

    async def entries(
        self,
        principal: Principal,
        session_id: str | None = None,
        after: int = 0,
        limit: int = 100,
        wanted: AuditFilter = _ANY,
    ) -> list[AuditEntry]:
        """Entries of a session's audit chain, or of the system's, oldest first.

        An unknown session has none.
        """
        chain = session_id or SYSTEM
        if chain == SYSTEM:
            principal.require(Role.ADMIN)
        try:
            return await self._parts.store.read(_entries, principal, chain, after, limit, wanted)
        except NotFound:
            return []

    async def page(
        self,
        principal: Principal,
        wanted: AuditFilter = _ANY,
        before: AuditPlace | None = None,
        limit: int = 100,
    ) -> Audit:
        """The newest entries of all chains that the principal may read, oldest first.

        A page with a `before` is not the last one, even if it is short or empty: it looked at as
        many entries as one page may.

        Args:
            before: Only what stands before this place.
        """
        principal.require(Role.VIEWER)
        return await self._parts.store.read(_page, principal, wanted, before, limit)

    async def verify(
        self,
        principal: Principal,
        anchors: Sequence[Anchor] = (),
        session_id: str | None = None,
    ) -> AuditReport:
        """Walk the audit chains, and name each entry that was changed, removed or moved.

        Args:
            anchors: Kept elsewhere; where they say that chains stood, they must stand.
            session_id: Look at this session's chain alone, and at the system's.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        principal.require(Role.VIEWER)
        # This tells whether the database is away; that a long walk takes its time is not that.
        await self._parts.store.read(log.extent_of, SYSTEM)
        with patiently():
            return await self._parts.store.read(_verify, principal, anchors, session_id)

    async def anchor(self, principal: Principal) -> AuditAnchor:
        """Note where every chain stands; the anchor's text is for keeping elsewhere.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        await self._parts.store.write(auditing.set_anchor, principal.id)
        anchor = await self._parts.store.read(auditing.last_anchor)
        return AuditAnchor(
            text=anchor.text(), at=anchor.at, seq=anchor.seq, hash=anchor.hash,
            chains=anchor.chains, heads=anchor.heads,
        )  # fmt: skip

    async def export(
        self,
        principal: Principal,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        removable: datetime | None = None,
    ) -> AsyncGenerator[str]:
        """The log as lines of JSON, each chain in order, and a last line that says how much it was.

        Args:
            since: Leave out what came before.
            until: Leave out what came from then on.
            removable: Only what could be removed of what came before this.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        if removable is not None:
            before = removable
            self._check_age(before)
            return self._lines(lambda tx, after: auditing.removable(tx, after, session_id, before))
        return self._lines(lambda tx, after: auditing.windows(tx, after, session_id, since, until))

    async def prune(
        self, principal: Principal, before: datetime, heads: Sequence[ChainHead]
    ) -> list[ChainHead]:
        """Remove the beginnings of chains up to entries that were exported.

        Gives those that were removed; what a session needs that is under way stays.

        Raises:
            Forbidden: the principal is no admin.
            Conflict: nothing may be removed here, or an entry is not the exported one.
            InvalidMessage: `before` is not long enough ago.
        """
        principal.require(Role.ADMIN)
        self._check_age(before)
        return await self._parts.store.write(auditing.prune, heads, before, principal.id)

    def _check_age(self, before: datetime) -> None:
        days = self._parts.settings.keep_audit_days
        if not days:
            raise Conflict(
                "The audit log is kept forever; to remove old entries, set GONOGO_KEEP_AUDIT_DAYS"
            )
        limit = self._parts.store.clock() - timedelta(days=days)
        if before > limit:
            raise InvalidMessage(
                "before: entries are kept for {days:g} days (GONOGO_KEEP_AUDIT_DAYS), so this "
                "must not be after {limit}",
                days=days, limit=f"{limit:%Y-%m-%dT%H:%M:%SZ}",
            )  # fmt: skip

    async def _lines(self, find: _Next) -> AsyncGenerator[str]:
        digest, chains, entries, after = hashlib.sha256(), 0, 0, ""
        while found := await self._parts.store.read(find, after):
            for stretch in found:
                head = ""
                async for text, count, ends in self._stretch(stretch):
                    entries, head = entries + count, ends
                    yield text
                digest.update(f"{stretch.chain} {stretch.last} {head}\n".encode())
            chains, after = chains + len(found), found[-1].chain
        yield json.dumps({"end": end_of(chains, entries, digest.hexdigest())}) + "\n"

    async def _stretch(self, stretch: Stretch) -> AsyncIterator[tuple[str, int, str]]:
        after = stretch.first - 1
        while after < stretch.last:
            page = await self._parts.store.read(
                auditing.links, stretch.chain, after, stretch.last, _PAGE
            )
            if not page:
                return
            yield "".join(link.line() + "\n" for link in page), len(page), page[-1].hash
            after = page[-1].seq


def _verify(
    tx: Tx, principal: Principal, anchors: Sequence[Anchor], session_id: str | None
) -> AuditReport:
    if session_id is not None and not (
        whose(principal) is None and auditing.has_chain(tx, session_id)
    ):
        visible(tx, principal, session_id)
    return auditing.verify(tx, anchors, session_id)


def _entries(
    tx: Tx,
    principal: Principal,
    chain: str,
    after: int,
    limit: int,
    wanted: AuditFilter,
) -> list[AuditEntry]:
    if whose(principal) is not None:
        visible(tx, principal, chain)
    sieve = audit_log.sieve(tx, wanted)
    return _named(tx, audit_log.chain_entries(tx, chain, after, limit, sieve))


def _page(
    tx: Tx,
    principal: Principal,
    wanted: AuditFilter,
    before: AuditPlace | None,
    limit: int,
) -> Audit:
    sieve = audit_log.sieve(tx, wanted)
    found, rest = audit_log.newest_entries(tx, whose(principal), before, limit, sieve)
    return Audit(entries=_named(tx, found), before=rest.text() if rest else None)


def _named(tx: Tx, found: Sequence[AuditEntry]) -> list[AuditEntry]:
    # The owner has the name of the token that commands use as well, which says less.
    known = {**names(tx, (entry.actor for entry in found)), OWNER.id: OWNER.name}
    return [
        entry.model_copy(update={"actor_name": known[entry.actor]})
        if entry.actor in known
        else entry
        for entry in found
    ]
