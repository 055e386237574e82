"""`gonogo analytics`: what came of the work over some time."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import Json, Session, example
from gonogo.cli.support import Exit, Stop, carry_out

if TYPE_CHECKING:
    from gonogo.domain.plan_views import ModelUsageView
    from gonogo.domain.report_views import Analytics, ModelUse, Percentiles, SubtaskOutcomes


top = typer.Typer()
_AGO = re.compile(r"(\d{1,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


@top.command(epilog=example("gonogo analytics", "gonogo analytics --since 7d --json"))
def analytics(
    session: Session = None,
    since: Annotated[
        str | None, typer.Option("--since", help="12h, 7d, 4w ago, or a date; by default 30d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="The same; by default now.")] = None,
    json: Json = False,
) -> None:
    """How often plans succeed, how long they take, why they fail, and how people answer."""
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
        for text in analytics_lines(found):
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
        raise Stop(f"{given}: write 12h, 7d, 4w, or a date as 2026-01-31", Exit.USAGE) from None


def analytics_lines(found: "Analytics") -> Iterator[str]:
    """All of it, a line for each thing that there is something to say of."""
    plans, calls = found.plans, found.tool_calls
    yield f"{found.since:%Y-%m-%d %H:%M}Z to {found.until:%Y-%m-%d %H:%M}Z"
    counts = _counts(
        {n: getattr(plans, n) for n in ("completed", "partial", "failed", "cancelled")}
    )
    yield f"plans: {plans.ended} ended{counts}{_rate(plans.success_rate)}"
    yield from _took("  took", plans.duration_seconds)
    if plans.replans or plans.rollbacks:
        yield f"  replans {plans.replans}, rollbacks {plans.rollbacks}"
    yield _subtasks("subtasks", found.subtasks)
    yield from _took("  took", found.subtasks.duration_seconds)
    for one in [*found.by_worker, *found.by_type]:
        yield f"  {_subtasks(one.name, one)}"
    for cause in found.failures:
        yield f"failed {cause.count} times: {cause.category} ({cause.worker}, {cause.type})"
    for asked in found.approvals:
        counts = _counts({"waiting": asked.pending, **asked.answers})
        yield f"questions about a {asked.kind}: {asked.asked}{counts}"
        yield from _took("  answered after", asked.latency_seconds)
    yield f"tool calls: {calls.asked}{_counts(calls.ended)}"
    if calls.started:
        yield f"  let run by{_counts(calls.started)}"
    for used in found.models:
        tokens = tokens_text(used)
        yield f"model {used.model}: {used.requests} requests, {used.failed} failed, {tokens}"
        if used.cost_dollars:
            yield f"  cost ${used.cost_dollars:.4f}"


def tokens_text(used: "ModelUse | ModelUsageView") -> str:
    """Tokens in and out, and how many of them have a price of their own."""
    sent = {"from the cache": used.cached_tokens, "into the cache": used.cache_write_tokens}
    back = {"thinking": used.reasoning_tokens}
    return f"{used.input_tokens} tokens in{_counts(sent)}, {used.output_tokens} out{_counts(back)}"


def _subtasks(name: str, found: "SubtaskOutcomes") -> str:
    names = ("completed", "failed", "skipped", "cancelled", "retries")
    counts = _counts({n: getattr(found, n) for n in names})
    return f"{name}: {found.ended} ended{counts}{_rate(found.success_rate)}"


def _counts(counts: Mapping[str, int]) -> str:
    said = ", ".join(f"{name} {number}" for name, number in counts.items() if number)
    return f" ({said})" if said else ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f", {rate:.0%} succeeded"


def _took(what: str, took: "Percentiles | None") -> Iterator[str]:
    if took is not None:
        yield f"{what} p50 {took.p50:.1f} s, p90 {took.p90:.1f} s, p99 {took.p99:.1f} s"
