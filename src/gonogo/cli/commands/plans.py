"""`gonogo plans`: what was planned, and how far it is."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.support import (
    Events,
    Exit,
    Json,
    Limit,
    PlanId,
    Session,
    SubtaskId,
    Words,
    command,
    group,
    not_blank,
    own_locale,
)

if TYPE_CHECKING:
    from gonogo.client import Client
    from gonogo.domain.plan_views import PlanGraph, PlanStatusView, PlanView


app = group("Plans and their progress.")


class PlanForm(StrEnum):
    """How a plan is written as a text."""

    YAML = "yaml"


@command(app, "list", "gonogo plans list --status running")
async def list_plans(
    session: Session = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only plans with this status.")
    ] = None,
    limit: Limit = 20,
    json: Json = False,
) -> Exit:
    """List plans, newest first."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.session.interrupts import standing
    from gonogo.cli.terminal.output import facts, shown_as, table

    async with connected() as client:
        page = await client.plans(session_id=session, status=status, limit=limit)
        if json:
            return facts(page)
        rows = [
            (
                p.plan_id,
                shown_as(standing(p), standing(p, own_locale())),
                f"{_done(p)}/{len(p.subtasks)}",
                p.session_id,
                p.created_at,
                p.goal,
            )
            for p in page.plans
        ]
        return table(("plan", "status", "done", "session", "created", "goal"), rows)


@command(app, "show", "gonogo plans show plan_0192 --graph")
async def show_plan(
    plan_id: PlanId,
    graph: Annotated[
        bool,
        typer.Option(
            "--graph", help="Draw the subtasks as a graph of dependencies, with their states."
        ),
    ] = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Draw when each subtask ran and waited.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Redraw at every change, until the plan ends.")
    ] = False,
    form: Annotated[
        PlanForm | None, typer.Option("--format", help="Print the text that `plans edit` opens.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Show a plan, its subtasks and their states."""
    if form is not None:
        from gonogo.cli.session.decisions import export_plan

        return await export_plan(plan_id, None, json=json)
    if watch:
        from gonogo.cli.session.live import watch as watch_plan

        return await watch_plan(plan_id, _drawing(timeline), json)
    return await (_draw(plan_id, timeline, json) if graph or timeline else _show(plan_id, json))


async def _draw(plan_id: str, timeline: bool, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, lines
    from gonogo.i18n import resolve

    async with connected() as client:
        graph = await client.plan_graph(plan_id)
        if json:
            return facts(graph)
        session = await client.session(graph.session_id)
        locale = resolve(session.locale, own_locale())
        return lines(_drawing(timeline)(graph, locale))


async def _show(plan_id: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.session.interrupts import standing
    from gonogo.cli.terminal.output import facts, lines, spoken
    from gonogo.cli.terminal.plan_graph import plan_lines
    from gonogo.i18n import phrase

    async with connected() as client:
        plan = await client.plan(plan_id)
        if json:
            return facts(plan)
        locale = own_locale()
        by = phrase("  written by {name}", locale, name=spoken(plan.made_by or ""))
        number = phrase("revision {number}", locale, number=plan.revision)
        head = f"{plan.plan_id}  {standing(plan, locale)}  {number}{by if plan.made_by else ''}"
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in plan.subtasks]
        lines([head, spoken(plan.goal), *await _paused(client, plan)])
        lines(plan_lines(subtasks, locale))
        status = await client.plan_status(plan_id)
        return lines([*_used(status), *_budget(status)])


@command(app, "diff", "gonogo plans diff plan_0192 --from 1 --to 2")
async def diff_plan(
    plan_id: PlanId,
    from_: Annotated[
        int | None,
        typer.Option("--from", min=1, help="The older revision; by default the one before --to."),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option("--to", min=1, help="The newer revision; by default the latest one."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Show how two revisions of a plan differ."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, lines
    from gonogo.cli.terminal.render import diff_lines

    async with connected() as client:
        last = to or (await client.plan(plan_id)).revision
        diff = await client.plan_diff(plan_id, from_ or max(1, last - 1), last)
        return facts(diff) if json else lines(diff_lines(diff, own_locale()))


@command(
    app, "edit", "gonogo plans edit plan_0192", "gonogo plans edit plan_0192 --from plan.yaml --yes"
)
async def edit_plan(
    plan_id: PlanId,
    source: Annotated[
        Path | None,
        typer.Option("--from", exists=True, dir_okay=False, help="Start from this edited file."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send it without asking.")] = False,
    json: Events = False,
) -> Exit:
    """Edit a plan that waits for approval, in $VISUAL or $EDITOR, and approve it as edited.

    If the text has errors, the editor opens again and shows them. Before anything is sent you see
    what you changed; without changes nothing is sent.
    """
    from gonogo.cli.session.decisions import edit_plan

    return await edit_plan(plan_id, source, sure=yes, json=json)


@command(
    app, "export", "gonogo plans export plan_0192", "gonogo plans export plan_0192 -o plan.yaml"
)
async def export_plan(
    plan_id: PlanId,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new file; by default standard output.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Write a plan as a YAML file, for run --plan and plans edit --from."""
    from gonogo.cli.session.decisions import export_plan

    return await export_plan(plan_id, output, json=json)


@command(app, "wait", "gonogo plans wait plan_0192 --limit 3600")
async def wait_plan(
    plan_id: PlanId,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit", min=0, help="Wait at most this many seconds; by default without limit."
        ),
    ] = None,
    json: Json = False,
) -> Exit:
    """Wait until a plan has ended or needs a person.

    Exit code: 0 completed, and nothing was denied or rejected; 1 not completed, or not ended in
    time; 3 waits for a person; 4 something was denied or rejected.
    """
    from gonogo.cli.session.live import wait

    return await wait(plan_id, limit, json)


@command(app, "start", "gonogo plans start plan_0192")
async def start_plan(plan_id: PlanId, json: Events = False) -> Exit:
    """Start a plan that was approved and held."""
    return await _steer("start", plan_id, json)


@command(app, "pause", "gonogo plans pause plan_0192")
async def pause_plan(plan_id: PlanId, json: Json = False) -> Exit:
    """Pause a plan: running subtasks finish, and no new ones start."""
    return await _steer("pause", plan_id, json)


@command(app, "resume", "gonogo plans resume plan_0192")
async def resume_plan(plan_id: PlanId, json: Events = False) -> Exit:
    """Continue a paused plan."""
    return await _steer("resume", plan_id, json)


@command(app, "retry", "gonogo plans retry plan_0192 add-flag")
async def retry_subtask(plan_id: PlanId, subtask: SubtaskId, json: Events = False) -> Exit:
    """Run a failed subtask again, with those that were skipped because of it.

    In a plan that still runs, this happens when nothing else of it runs or waits.
    """
    return await _steer("retry", plan_id, json, subtask_id=subtask)


@command(app, "skip", "gonogo plans skip plan_0192 add-flag")
async def skip_subtask(plan_id: PlanId, subtask: SubtaskId, json: Events = False) -> Exit:
    """Leave out a subtask that is not running, and those that depend on it."""
    return await _steer("skip", plan_id, json, subtask_id=subtask)


@command(
    app,
    "replan",
    'gonogo plans replan plan_0192 --reason "Use the other library"',
    options="--reason TEXT [OPTIONS]",
)
async def replan_plan(
    plan_id: PlanId,
    reason: Annotated[
        str, typer.Option("--reason", help="What should be different.", callback=not_blank)
    ],
    json: Events = False,
) -> Exit:
    """Ask the planner for a new plan for what is left; running subtasks finish first."""
    return await _steer("replan", plan_id, json, reason=reason)


@command(app, "comment", 'gonogo plans comment plan_0192 "Is this needed?" --subtask add-flag')
async def comment_plan(
    plan_id: PlanId,
    text: Words,
    subtask: Annotated[
        str | None,
        typer.Option("--subtask", help="The subtask to comment on; by default the whole plan."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Comment on a plan that waits for approval; this decides nothing."""
    from gonogo.cli.session.answers import comment_on

    return await comment_on(plan_id, text, subtask, json)


@command(app, "comments", "gonogo plans comments plan_0192")
async def plan_comments(plan_id: PlanId, json: Json = False) -> Exit:
    """Show the comments on a plan, with its planner's answers."""
    from gonogo.cli.session.answers import list_comments

    return await list_comments(plan_id, json)


@command(app, "revise", "gonogo plans revise plan_0192")
async def revise_plan(plan_id: PlanId, json: Events = False) -> Exit:
    """Send a plan back to its planner, who answers all open comments with a new revision."""
    return await _steer("revise", plan_id, json)


@command(app, "cancel", 'gonogo plans cancel plan_0192 --reason "Not this way"')
async def cancel_plan(
    plan_id: PlanId,
    reason: Annotated[
        str | None, typer.Option("--reason", help="The reason; it is saved with the plan.")
    ] = None,
    subtask: Annotated[
        str | None, typer.Option("--subtask", help="Stop only this subtask; the others continue.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Stop a plan permanently; finished work stays."""
    given = {"reason": reason} if subtask is None else {"reason": reason, "subtask_id": subtask}
    return await _steer("cancel", plan_id, json, **given)


async def _steer(verb: str, plan_id: str, json: bool, **given: str | None) -> Exit:
    from gonogo.cli.session.decisions import steer

    return await steer(verb, plan_id, json=json, **given)


async def _paused(client: "Client", plan: "PlanView") -> list[str]:
    from gonogo.cli.session.interrupts import pause_lines
    from gonogo.i18n import resolve

    if plan.status != "paused":
        return []
    session = await client.session(plan.session_id)
    pending = await client.pending_approvals(plan.session_id)
    locale = resolve(session.locale, own_locale())
    return pause_lines(plan, pending.pending_approvals, locale)


def _used(status: "PlanStatusView") -> list[str]:
    """What models were asked for the plan so far."""
    from gonogo.cli.commands.analytics import tokens_text
    from gonogo.i18n import counted, decimal

    usage, locale = status.usage, own_locale()
    if usage is None or not usage.requests:
        return []
    cost = f", ${decimal(usage.cost, locale, 4)}" if usage.cost else ""
    said = counted(
        "models: {count} request, {tokens}", "models: {count} requests, {tokens}",
        usage.requests, locale, tokens=tokens_text(usage, locale),
    )  # fmt: skip
    return [said + cost]


def _budget(status: "object") -> list[str]:
    """What the plan took of each limit that is set; nothing where none is."""
    from gonogo.i18n import counted, phrase, term

    limits: dict[str, float] = getattr(status, "limits", None) or {}
    usage = getattr(status, "usage", None)
    locale = own_locale()
    lines = [
        phrase(
            "budget: {used} of {limit}, {what}", locale, used=f"{getattr(usage, what):g}",
            limit=f"{limit:g}", what=term("budget", what, locale),
        )
        for what, limit in limits.items()
        if hasattr(usage, what)
    ]  # fmt: skip
    if lines and usage is not None and usage.unpriced_requests and "cost" in limits:
        lines.append(
            counted(
                "The price of {count} request is not known.",
                "The price of {count} requests is not known.", usage.unpriced_requests, locale,
            )
        )  # fmt: skip
    return lines


def _drawing(timeline: bool) -> "Callable[[PlanGraph, str], Iterator[str]]":
    from shutil import get_terminal_size

    from gonogo.cli.terminal.plan_graph import graph_lines, timeline_lines

    lines = timeline_lines if timeline else graph_lines
    return lambda graph, locale: lines(
        graph, width=get_terminal_size((100, 24)).columns, locale=locale
    )


def _done(plan: "PlanView") -> int:
    return sum(s.status == "completed" and not s.rolled_back for s in plan.subtasks)
