"""Show and export the audit log, and check exports of it without the runtime."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from gonogo.cli.daemon import RuntimeLink
from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.output import facts, table, word
from gonogo.client import Client
from gonogo.domain.audit_chain import AuditFilter, ChainHead, FileCheck, read_anchors
from gonogo.domain.errors import parts_by_text
from gonogo.domain.plan_views import AuditEntry, AuditHead, AuditReport


async def write_out(link: RuntimeLink, span: dict[str, Any]) -> None:
    """Write an export to standard output."""
    async for piece in _pieces(link, span):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


async def copied(link: RuntimeLink, span: dict[str, Any], file: Path) -> list[ChainHead]:
    """Write an export to a new file, on the disk when this returns; return each chain's end.

    Raises:
        Stop: a file of that name exists, or the received export is incomplete.
    """
    with _new(file) as to:
        async for piece in _pieces(link, span):
            to.write(piece)
        to.flush()
        os.fsync(to.fileno())
    part, check = _part_of(file), FileCheck()
    report = _checked(part, check)
    if not report.ok:
        raise Stop(
            "The export is not complete: {problem}. What arrived is in {part}; "
            "run the command again",
            problem=report.problems[0], part=part,
        )  # fmt: skip
    part.replace(file)
    return check.ends


def check_file(file: Path, anchors: str | None) -> AuditReport | None:
    """Check a file, and the anchors if it has the system's chain; None if it has not."""
    given = read_anchors(anchors) if anchors is not None else []
    first = FileCheck(given)
    report = _checked(file, first)
    if given and all(head.chain != "system" for head in first.ends):
        return None
    if not first.record.anchored:
        return report
    again = FileCheck(given, first.record.anchored)
    return _checked(file, again)


def check_heads(file: Path, report: AuditReport) -> AuditReport:
    """Search a file for what an anchor says about entries that were removed later."""
    wanted = [ChainHead(chain=head.chain, seq=head.seq, hash=head.hash) for head in report.older]
    found = _checked(file, FileCheck((), wanted))
    problems = [*report.problems, *found.problems]
    parts = report.parts | found.parts
    return report.model_copy(
        update={"ok": not problems, "problems": problems, "older": found.older, "parts": parts}
    )


def _checked(file: Path, check: FileCheck) -> AuditReport:
    with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for text in lines:
            check.take(text)
    check.finish()
    return AuditReport(
        ok=not check.problems, chains=len(check.ends), entries=check.entries,
        problems=check.problems, parts=parts_by_text(check.problems),
        older=[AuditHead(chain=h.chain, seq=h.seq, hash=h.hash) for h in check.older],
    )  # fmt: skip


def _new(file: Path) -> BinaryIO:
    if file.exists():
        raise Stop("{file} already exists; name a new file", Exit.USAGE, file=file)
    try:
        return open(_part_of(file), "wb", opener=_for_us_alone)
    except OSError as error:
        error.filename = str(file)
        raise


def _part_of(file: Path) -> Path:
    """The file's name until it is complete."""
    return file.with_name(f"{file.name}.part")


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def _pieces(link: RuntimeLink, span: dict[str, Any]) -> AsyncIterator[bytes]:
    # If this process is the owner, the whole answer would be collected before it is returned.
    if link.runtime is not None:
        async for text in await link.runtime.audit.export(link.runtime.owner, **span):
            yield text.encode()
        return
    async for piece in link.client.export_audit(**span):
        yield piece


# `gonogo audit show`: entries of the log, with why each is there.

_HEAD = ("seq", "time", "actor", "action", "subject", "why")


async def newest(
    client: Client, wanted: AuditFilter, limit: int, locale: str | None = None
) -> list[AuditEntry]:
    """The last entries of all requested chains, oldest first."""
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
        chains: The entries are from several chains, so each row names its session.
    """
    if json:
        return facts(entries)
    rows = [
        (*((e.chain,) if chains else ()), e.seq, e.ts, e.actor_name or e.actor,
         word("action", e.action), e.about or e.subject, e.why or "")
        for e in entries
    ]  # fmt: skip
    return table(("session", *_HEAD) if chains else _HEAD, rows)
