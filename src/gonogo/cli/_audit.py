"""`gonogo audit`: who allowed what, and whether the record is whole."""

from typing import Annotated

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import EXACT, Json, Limit, Session, example, group

app = group("The audit log: who did what, who allowed it and why.")


@app.command("show", **EXACT, epilog=example("gonogo audit show --session s_0192"))
def show(
    session: Session = None,
    after: Annotated[int, typer.Option("--after", min=0, help="From this entry on.")] = 0,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """Show the entries in order."""
    carry_out(_show, session, after, limit, json)


@app.command("verify", **EXACT, epilog=example("gonogo audit verify"))
def verify(json: Json = False) -> None:
    """Check that no entry was changed, removed or moved; exit code 1 if one was."""
    carry_out(_verify, json)


async def _show(session: str | None, after: int, limit: int, json: bool) -> Exit:
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts, table

    async with connected() as client:
        entries = await client.audit(session_id=session, after=after, limit=limit)
        if json:
            return facts(entries)
        rows = [(e.seq, e.ts, e.actor, e.action, e.subject, _why(e.details)) for e in entries]
        return table(("seq", "time", "actor", "action", "subject", "why"), rows)


async def _verify(json: bool) -> Exit:
    from gonogo.cli._escape import spoken
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts, line
    from gonogo.texts import say

    async with connected() as client:
        report = await client.verify_audit()
        if json:
            facts(report)
        elif report.ok:
            line(say("cli_audit_ok", entries=report.entries, chains=report.chains))
        else:
            line("\n".join([say("cli_audit_broken"), *map(spoken, report.problems)]))
        return Exit.DONE if report.ok else Exit.FAILED


def _why(details: dict[str, object]) -> str:
    shown = (details.get(name) for name in ("rule", "reason", "decision", "feedback"))
    return " · ".join(str(part) for part in shown if part)
