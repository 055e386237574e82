"""`gonogo audit`: who allowed what, and whether the record is whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import Json, Limit, Session, example, group, session_ids
from gonogo.cli.support import Exit, Stop, carry_out, own_locale, own_words

if TYPE_CHECKING:
    from gonogo.domain.plan_views import AuditReport


app = group("The audit log: who did what, who allowed it and why.")
_BATCH = 1_000

Since = Annotated[
    str | None, typer.Option("--since", help="From 12h, 7d or 4w ago, or from a date.")
]
Until = Annotated[
    str | None, typer.Option("--until", help="The end of the period, in the same form.")
]
Exported = Annotated[
    Path | None, typer.Option("--export", help="A file that gonogo audit export wrote.")
]


@app.command("show", epilog=example(
    "gonogo audit show", "gonogo audit show --actor ann --action tool. --since 7d",
    "gonogo audit show --session s_0192 --after 200",
))  # fmt: skip
def show(
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            help="Only this session, from its start; or: system.",
            autocompletion=session_ids,
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Only what this person, or id, did.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", help="Only actions that begin with this, such as tool."),
    ] = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, help="With --session: only what follows this entry."),
    ] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """Show who did what and why: the newest entries, or those of one session from its start."""
    if after is not None and session is None:
        raise typer.BadParameter(
            own_words("--after works only with --session; use --since instead")
        )
    carry_out(
        _show, session, {"actor": actor, "action": action}, (since, until), after, limit, json
    )


@app.command("verify", epilog=example(
    "gonogo audit verify", "gonogo audit verify --session s_0192",
    "gonogo audit verify --anchor anchors.txt",
    "gonogo audit verify --export log.jsonl",
))  # fmt: skip
def verify(
    export: Exported = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            help="Only the chain of this session, and that of the system.",
            autocompletion=session_ids,
        ),
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option("--anchor", help="Anchors, or a file with one anchor on each line."),
    ] = None,
    json: Json = False,
) -> None:
    """Check that no entry was changed, removed or moved; exit code 1 if one was.

    It also checks that every decision and every call has its entry. With --export it checks a file
    and needs no server.
    """
    if export is not None and session is not None:
        raise typer.BadParameter(own_words("give either --session or --export"))
    carry_out(_verify, export, session, anchor, json)


@app.command("export", epilog=example("gonogo audit export --since 30d -o log.jsonl"))
def export(
    session: Session = None,
    since: Since = None,
    until: Until = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new file; by default standard output.")
    ] = None,
) -> None:
    """Export the log as lines of JSON; audit verify checks them without a server."""
    carry_out(_export, session, since, until, output)


@app.command("anchor", epilog=example("gonogo audit anchor >> /elsewhere/anchors.txt"))
def anchor(json: Json = False) -> None:
    """Print one line with the state of the log; keep it where this machine cannot write."""
    carry_out(_anchor, json)


@app.command("prune", epilog=example(
    "gonogo audit prune --before 2026-01-01 --export old.jsonl"
))  # fmt: skip
def prune(
    before: Annotated[str, typer.Option("--before", help="Only entries older than this.")],
    export: Annotated[Path, typer.Option("--export", help="A new file for the removed entries.")],
    json: Json = False,
) -> None:
    """Export old entries of sessions without running work, then remove them."""
    carry_out(_prune, before, export, json)


async def _show(
    session: str | None,
    who: dict[str, str | None],
    span: tuple[str | None, str | None],
    after: int | None,
    limit: int,
    json: bool,
) -> Exit:
    from datetime import UTC, datetime

    from gonogo.cli.audit_files import newest, show_entries
    from gonogo.cli.commands.analytics import moment
    from gonogo.cli.daemon import connected
    from gonogo.domain.audit_chain import AuditFilter

    since, until = (moment(each, datetime.now(UTC)) for each in span)
    wanted, locale = AuditFilter(**who, since=since, until=until), own_locale()
    async with connected() as client:
        if session is None:
            entries = await newest(client, wanted, limit, locale)
        else:
            entries = await client.audit(
                session_id=session, after=after or 0, limit=limit, wanted=wanted, locale=locale
            )
    return show_entries(entries, chains=session is None, json=json)


async def _verify(export: Path | None, session: str | None, anchor: str | None, json: bool) -> Exit:
    from gonogo.cli.audit_files import check_file, check_heads
    from gonogo.cli.daemon import connected

    anchors = _text_of(anchor)
    if export is not None:
        report = check_file(export, anchors)
        if report is not None:
            return _told(report, json)
    async with connected() as client:
        report = await client.verify_audit(anchors, session)
    if export is not None:
        report = check_heads(export, report)
    return _told(report, json)


def _told(report: "AuditReport", json: bool) -> Exit:
    from gonogo.cli.terminal.output import facts, line, spoken
    from gonogo.domain.errors import of_parts
    from gonogo.i18n import say, told

    if json:
        facts(report)
        return Exit.DONE if report.ok else Exit.FAILED
    if report.ok:
        line(say("cli_audit_ok", own_locale(), entries=report.entries, chains=report.chains))
    else:
        wrong = [of_parts(each, report.parts.get(each, {})) for each in report.problems]
        found = [spoken(told(each, own_locale())) for each in wrong]
        line("\n".join([say("cli_audit_broken", own_locale()), *found]))
    for gone in report.removed:
        on = f"{gone.removed_at:%Y-%m-%d}"
        line(say("cli_audit_removed", own_locale(), chain=spoken(gone.chain), seq=gone.seq, on=on))
    for head in report.older:
        line(say("cli_audit_older", own_locale(), chain=spoken(head.chain), seq=head.seq))
    return Exit.DONE if report.ok else Exit.FAILED


async def _export(
    session: str | None, since: str | None, until: str | None, output: Path | None
) -> Exit:
    from datetime import UTC, datetime

    from gonogo.cli.audit_files import copied, write_out
    from gonogo.cli.commands.analytics import moment
    from gonogo.cli.daemon import linked
    from gonogo.cli.folder import read_settings

    now = datetime.now(UTC)
    span = {"session_id": session, "since": moment(since, now), "until": moment(until, now)}
    async with linked(read_settings(), looks=True) as link:
        if output is None:
            await write_out(link, span)
        else:
            await copied(link, span, output)
    return Exit.DONE


async def _anchor(json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line

    async with connected() as client:
        made = await client.anchor_audit()
        if json:
            return facts(made)
        line(made.text)
        return Exit.DONE


async def _prune(before: str, export: Path, json: bool) -> Exit:
    from datetime import UTC, datetime

    from gonogo.cli.audit_files import copied
    from gonogo.cli.commands.analytics import moment
    from gonogo.cli.daemon import linked
    from gonogo.cli.folder import read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import say

    now = datetime.now(UTC)
    limit = moment(before, now) or now
    async with linked(read_settings(), looks=True) as link:
        heads = await copied(link, {"removable": limit}, export)
        gone = 0
        for start in range(0, len(heads), _BATCH):
            part = heads[start : start + _BATCH]
            gone += len(await link.client.prune_audit(limit, part))
        if json:
            return facts({"chains": gone, "export": str(export)})
        line(say("cli_audit_pruned", own_locale(), chains=gone, file=str(export)))
        return Exit.DONE


def _text_of(given: str | None) -> str | None:
    """Anchors as they were given, or what the file of that name holds."""
    if given is None or given.startswith("gonogo-anchor-"):
        return given
    path = Path(given)
    if not path.is_file():
        raise Stop(
            "{given} is neither an anchor nor a file; make an anchor: gonogo audit anchor",
            Exit.USAGE,
            given=given,
        )
    return path.read_text(encoding="utf-8", errors="replace")[-8_000:]
