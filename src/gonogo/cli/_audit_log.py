"""`gonogo audit show`: entries of the log, with why each is there."""

from gonogo.cli._exits import Exit
from gonogo.cli._print import facts, table
from gonogo.client import Client
from gonogo.domain.audit_chain import AuditFilter
from gonogo.domain.report_views import AuditEntry

_HEAD = ("seq", "time", "actor", "action", "subject", "why")


async def newest(
    client: Client, wanted: AuditFilter, limit: int, locale: str | None = None
) -> list[AuditEntry]:
    """The last entries of all chains that are wanted, oldest first."""
    found, before = list[AuditEntry](), None
    while True:
        rest = limit - len(found)
        page = await client.audit_log(wanted, before=before, limit=rest, locale=locale)
        found, before = [*page.entries, *found], page.before
        if before is None or len(found) >= limit:
            return found


def show_entries(entries: list[AuditEntry], *, chains: bool, json: bool) -> Exit:
    """Write entries, one a row.

    Args:
        chains: They are of several, so each has its session beside it.
    """
    if json:
        return facts(entries)
    rows = [
        (*((e.chain,) if chains else ()), e.seq, e.ts, e.actor_name or e.actor, e.action,
         e.about or e.subject, e.why or "")
        for e in entries
    ]  # fmt: skip
    return table(("session", *_HEAD) if chains else _HEAD, rows)
