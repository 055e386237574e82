"""Commands that report: what came of the work, and who allowed what."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.support import (
    Exit,
    Json,
    Limit,
    Session,
    Stop,
    command,
    group,
    own_locale,
    own_words,
    session_ids,
)

if TYPE_CHECKING:
    from gonogo.client import Client
    from gonogo.domain.plan_views import (
        Analytics,
        AuditReport,
        ModelUsageView,
        ModelUse,
        Percentiles,
        PlanOutcomes,
        SubtaskOutcomes,
    )

top = typer.Typer()
_AGO = re.compile(r"(\d{1,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_NO_MOMENT = "{given} is not a time; write 12h, 7d, 4w, or a date such as 2026-01-31"


@command(top, "analytics", "gonogo analytics", "gonogo analytics --since 7d --json")
async def analytics(
    session: Session = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="From 12h, 7d or 4w ago, or from a date; by default 30d."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="The end of the period, in the same form; by default now."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Show how often plans succeed, how long they take, and why they fail."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, lines

    now = datetime.now(UTC)
    async with connected() as client:
        found = await client.analytics(
            session_id=session, since=moment(since, now), until=moment(until, now)
        )
        return facts(found) if json else lines(analytics_lines(found, own_locale()))


def moment(given: str | None, now: datetime) -> datetime | None:
    """A time as a person writes it: how long ago, or a date, which is in UTC unless it says else.

    Raises:
        Stop: it is neither.
    """
    if given is None:
        return None
    if ago := _AGO.fullmatch(given):
        return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
    try:
        found = datetime.fromisoformat(given)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Stop(_NO_MOMENT, Exit.USAGE, given=given) from None


def analytics_lines(found: "Analytics", locale: str) -> Iterator[str]:
    """All of it, a line for each thing that there is something to say of."""
    from gonogo.i18n import counted, phrase, term

    plans, calls = found.plans, found.tool_calls
    since, until = (f"{each:%Y-%m-%d %H:%M}" for each in (found.since, found.until))
    yield phrase("{since} to {until} (UTC)", locale, since=since, until=until)
    yield from _ended(phrase("plans", locale), plans, _PLANS, locale)
    if plans.replans or plans.rollbacks:
        numbers = {"replans": plans.replans, "rollbacks": plans.rollbacks}
        yield f"  {phrase('replans: {replans}, rollbacks: {rollbacks}', locale, **numbers)}"
    yield from _ended(phrase("subtasks", locale), found.subtasks, _SUBTASKS, locale)
    for one in [*found.by_worker, *found.by_type]:
        yield f"  {next(_ended(one.name, one, _SUBTASKS, locale))}"
    for cause in found.failures:
        yield counted(
            "failed {count} time: {category} ({worker}, {type})",
            "failed {count} times: {category} ({worker}, {type})", cause.count, locale,
            category=term("failure", cause.category, locale), worker=cause.worker, type=cause.type,
        )  # fmt: skip
    for asked in found.approvals:
        counts = _counts({"waiting": asked.pending, **asked.answers}, "outcome", locale)
        kind = term("question", asked.kind, locale)
        yield phrase("questions ({kind}): {count}", locale, kind=kind, count=asked.asked) + counts
        yield from _took("answered after", asked.latency_seconds, locale)
    yield phrase("tool calls: {count}", locale, count=calls.asked) + _counts(
        calls.ended, "outcome", locale
    )
    if calls.started:
        yield f"  {phrase('allowed by', locale)}{_counts(calls.started, 'allowed', locale)}"
    for used in found.models:
        yield from _model(used, locale)


_PLANS = ("completed", "partial", "failed", "cancelled")
_SUBTASKS = ("completed", "failed", "skipped", "cancelled", "retries")


def tokens_text(used: "ModelUse | ModelUsageView", locale: str) -> str:
    """Tokens in and out, and how many of them have a price of their own."""
    from gonogo.i18n import phrase

    sent = {"from the cache": used.cached_tokens, "into the cache": used.cache_write_tokens}
    back = {"thinking": used.reasoning_tokens}
    taken = phrase("tokens in: {count}", locale, count=used.input_tokens)
    given = phrase("out: {count}", locale, count=used.output_tokens)
    return f"{taken}{_counts(sent, 'tokens', locale)}, {given}{_counts(back, 'tokens', locale)}"


def _ended(
    name: str, found: "PlanOutcomes | SubtaskOutcomes", words: Sequence[str], locale: str
) -> Iterator[str]:
    """How many have ended and how, and on a line of its own how long they took."""
    from gonogo.i18n import phrase

    counts = _counts({word: getattr(found, word) for word in words}, "outcome", locale)
    said = phrase("{name}: {count} ended", locale, name=name, count=found.ended)
    if found.success_rate is not None:
        percent = f"{found.success_rate * 100:.0f}"
        counts += f", {phrase('{percent}% succeeded', locale, percent=percent)}"
    yield said + counts
    yield from _took("took", found.duration_seconds, locale)


def _model(used: "ModelUse", locale: str) -> Iterator[str]:
    from gonogo.i18n import decimal, phrase

    yield phrase(
        "model {model}: requests {requests}, failed {failed}, {tokens}", locale, model=used.model,
        requests=used.requests, failed=used.failed, tokens=tokens_text(used, locale),
    )  # fmt: skip
    if used.cost_dollars:
        cost = decimal(used.cost_dollars, locale, 4)
        yield f"  {phrase('cost ${cost}', locale, cost=cost)}"


def _counts(counts: Mapping[str, int], kind: str, locale: str) -> str:
    from gonogo.i18n import term

    said = ", ".join(f"{term(kind, name, locale)} {n}" for name, n in counts.items() if n)
    return f" ({said})" if said else ""


def _took(what: str, took: "Percentiles | None", locale: str) -> Iterator[str]:
    from gonogo.i18n import duration, phrase

    if took is not None:
        named = {name: duration(getattr(took, name), locale) for name in ("p50", "p90", "p99")}
        told = phrase("median {p50}, 90% within {p90}, 99% within {p99}", locale, **named)
        yield f"  {phrase(what, locale)}: {told}"


# `gonogo audit`: who allowed what, and whether the record is whole.

audit = group("The audit log: who did what, who allowed it and why.")
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


@command(
    audit,
    "show",
    "gonogo audit show",
    "gonogo audit show --actor ann --action tool. --since 7d",
    "gonogo audit show --session s_0192 --after 200",
)
async def show(
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
) -> Exit:
    """Show who did what and why: the newest entries, or those of one session from its start."""
    if after is not None and session is None:
        raise typer.BadParameter(
            own_words("--after works only with --session; use --since instead")
        )
    from gonogo.cli.audit_files import newest, show_entries
    from gonogo.cli.daemon import connected
    from gonogo.domain.audit_chain import AuditFilter

    locale, now = own_locale(), datetime.now(UTC)
    wanted = AuditFilter(
        actor=actor, action=action, since=moment(since, now), until=moment(until, now)
    )
    async with connected() as client:
        if session is None:
            entries = await newest(client, wanted, limit, locale)
        else:
            entries = await client.audit(
                session_id=session, after=after or 0, limit=limit, wanted=wanted, locale=locale
            )
            if not entries and not after and wanted == AuditFilter():
                await _require_chain(client, session)
    return show_entries(entries, chains=session is None, json=json)


@command(
    audit,
    "verify",
    "gonogo audit verify",
    "gonogo audit verify --session s_0192",
    "gonogo audit verify --anchor anchors.txt",
    "gonogo audit verify --export log.jsonl",
)
async def verify(
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
) -> Exit:
    """Check that no entry was changed, removed or moved; exit code 1 if one was.

    It also checks that every decision and every call has its entry. With --export it checks a file
    and needs no server.
    """
    if export is not None and session is not None:
        raise typer.BadParameter(own_words("give either --session or --export"))
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


@command(audit, "export", "gonogo audit export --since 30d -o log.jsonl")
async def export(
    session: Session = None,
    since: Since = None,
    until: Until = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new file; by default standard output.")
    ] = None,
) -> Exit:
    """Export the log as lines of JSON; audit verify checks them without a server."""
    from gonogo.cli.audit_files import copied, write_out
    from gonogo.cli.daemon import linked
    from gonogo.cli.folder import read_settings

    now = datetime.now(UTC)
    span = {"session_id": session, "since": moment(since, now), "until": moment(until, now)}
    async with linked(read_settings(), looks=True) as link:
        if session is not None:
            await _require_chain(link.client, session)
        if output is None:
            await write_out(link, span)
        else:
            await copied(link, span, output)
    return Exit.DONE


@command(audit, "anchor", "gonogo audit anchor >> /elsewhere/anchors.txt")
async def anchor(json: Json = False) -> Exit:
    """Print one line with the state of the log; keep it where this machine cannot write."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        made = await client.anchor_audit()
        return outcome(made, made.text, json=json)


@command(
    audit,
    "prune",
    "gonogo audit prune --before 2026-01-01 --export old.jsonl",
    options="--before WHEN --export FILE [OPTIONS]",
)
async def prune(
    before: Annotated[str, typer.Option("--before", help="Only entries older than this.")],
    export: Annotated[Path, typer.Option("--export", help="A new file for the removed entries.")],
    json: Json = False,
) -> Exit:
    """Export old entries of sessions without running work, then remove them."""
    from gonogo.cli.audit_files import copied
    from gonogo.cli.daemon import linked
    from gonogo.cli.folder import read_settings
    from gonogo.cli.terminal.output import outcome
    from gonogo.i18n import say

    now = datetime.now(UTC)
    limit = moment(before, now) or now
    async with linked(read_settings(), looks=True) as link:
        heads = await copied(link, {"removable": limit}, export)
        gone = 0
        for start in range(0, len(heads), _BATCH):
            part = heads[start : start + _BATCH]
            gone += len(await link.client.prune_audit(limit, part))
    said = say("cli_audit_pruned", own_locale(), chains=gone, file=str(export))
    return outcome({"chains": gone, "export": str(export)}, said, json=json)


async def _require_chain(client: "Client", session_id: str) -> None:
    if not await client.audit(session_id=session_id, limit=1):
        # A session has entries from its beginning on, also when it was deleted.
        await client.session(session_id)


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
