"""The audit log: read, export, verify, anchor, shorten."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from datetime import datetime

from gonogo.client._wire import Wire
from gonogo.domain.audit_chain import AuditFilter, Head
from gonogo.domain.report_views import AuditAnchor, AuditEntry, AuditHead, AuditReport
from gonogo.domain.views import Audit, AuditHeads

_ANY = AuditFilter()


class Audits(Wire):
    """What can be asked about the audit log."""

    async def audit(
        self,
        *,
        session_id: str,
        after: int = 0,
        limit: int = 100,
        wanted: AuditFilter = _ANY,
        locale: str | None = None,
    ) -> list[AuditEntry]:
        """A stretch of the audit chain of a session, or of the system's: `system`."""
        where = {"session_id": session_id, "after": after, "limit": limit, "locale": locale}
        return (await self._get("/audit", Audit, **where, **asdict(wanted))).entries

    async def audit_log(
        self,
        wanted: AuditFilter = _ANY,
        *,
        before: str | None = None,
        limit: int = 100,
        locale: str | None = None,
    ) -> Audit:
        """The newest entries of all chains, oldest first; a page's `before` gives the one before.

        Only a page without a `before` is the last, however few entries the others have.
        """
        where = {"before": before, "limit": limit, "locale": locale}
        return await self._get("/audit", Audit, **where, **asdict(wanted))

    async def verify_audit(
        self, anchor: str | None = None, session_id: str | None = None
    ) -> AuditReport:
        """Whether the audit chains are whole, say what the database holds, and what anchors say.

        Args:
            session_id: Look at this session's chain alone, and at the system's.
        """
        return await self._get("/audit/verify", AuditReport, anchor=anchor, session_id=session_id)

    async def anchor_audit(self) -> AuditAnchor:
        """Note where every chain stands; keep the text elsewhere."""
        return await self._post("/audit/anchors", AuditAnchor)

    def export_audit(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        removable: datetime | None = None,
    ) -> AsyncGenerator[bytes]:
        """The log as lines of JSON, in pieces. Whole only with its last line, `{"end": …}`."""
        return self._pieces(
            "/audit/export", session_id=session_id, since=since, until=until, removable=removable
        )

    async def prune_audit(self, before: datetime, heads: Sequence[Head]) -> list[AuditHead]:
        """Remove the beginnings of chains, each up to an entry that was exported."""
        body = {
            "before": before.isoformat(),
            "heads": [{"chain": h.chain, "seq": h.seq, "hash": h.hash} for h in heads],
        }
        return (await self._post("/audit/prune", AuditHeads, body)).heads
