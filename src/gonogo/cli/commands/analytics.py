"""`gonogo analytics`: what came of the work over some time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import Json, Session, example
from gonogo.cli.support import Exit, Stop, carry_out, own_locale

if TYPE_CHECKING:
    from gonogo.domain.plan_views import (
        Analytics,
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


@top.command(epilog=example("gonogo analytics", "gonogo analytics --since 7d --json"))
def analytics(
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
) -> None:
    """Show how often plans succeed, how long they take, and why they fail."""
    carry_out(_analytics, session, since, until, json)


async def _analytics(session: str | None, since: str | None, until: str | None, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line

    now = datetime.now(UTC)
    async with connected() as client:
        found = await client.analytics(
            session_id=session, since=moment(since, now), until=moment(until, now)
        )
        if json:
            return facts(found)
        for text in analytics_lines(found, own_locale()):
            line(text)
        return Exit.DONE


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
