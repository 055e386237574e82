"""Exported audit logs: written whole or not at all, and checked without a server."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import Link
from gonogo.domain.audit_chain import FileCheck, Head, read_anchors
from gonogo.domain.report_views import AuditHead, AuditReport


async def write_out(link: Link, span: dict[str, Any]) -> None:
    """Write an export to standard output."""
    async for piece in _pieces(link, span):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


async def copied(link: Link, span: dict[str, Any], file: Path) -> list[Head]:
    """Write an export to a new file, on the disk when this returns. Gives where each chain ends.

    Raises:
        Stop: there is a file of that name, or what came is not whole.
    """
    part = file.with_name(f"{file.name}.part")
    with _new(file, part) as to:
        async for piece in _pieces(link, span):
            to.write(piece)
        to.flush()
        os.fsync(to.fileno())
    check = FileCheck()
    report = _checked(part, check)
    if not report.ok:
        raise Stop(f"The export is not whole: {report.problems[0]}; {part} has what came")
    part.replace(file)
    return check.ends


def check_file(file: Path, anchors: str | None) -> AuditReport | None:
    """Check a file, and the anchors where it has the system's chain; None where it has not."""
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
    """Look in a file for what an anchor says of entries that were removed since."""
    wanted = [Head(chain=head.chain, seq=head.seq, hash=head.hash) for head in report.older]
    found = _checked(file, FileCheck((), wanted))
    problems = [*report.problems, *found.problems]
    return report.model_copy(
        update={"ok": not problems, "problems": problems, "older": found.older}
    )


def _checked(file: Path, check: FileCheck) -> AuditReport:
    with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for text in lines:
            check.take(text)
    check.finish()
    return AuditReport(
        ok=not check.problems, chains=len(check.ends), entries=check.entries,
        problems=check.problems,
        older=[AuditHead(chain=h.chain, seq=h.seq, hash=h.hash) for h in check.older],
    )  # fmt: skip


def _new(file: Path, part: Path) -> BinaryIO:
    if file.exists():
        raise Stop(f"{file} exists; name a new file", Exit.USAGE)
    return open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


async def _pieces(link: Link, span: dict[str, Any]) -> AsyncIterator[bytes]:
    # Where this process is the owner, an answer would be gathered whole before it is given.
    if link.runtime is not None:
        async for text in await link.runtime.export_audit(link.runtime.owner, **span):
            yield text.encode()
        return
    async for piece in link.client.export_audit(**span):
        yield piece
