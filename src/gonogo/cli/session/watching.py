"""Lines while something happens: of one plan until it ends, of all questions until Ctrl-C."""

import json
import json as codec
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Literal, NamedTuple, Protocol

import anyio
from msgspec import Struct, field
from rich.live import Live
from rich.text import Text

from gonogo.cli.daemon import glance, linked
from gonogo.cli.folder import Folder, environment, program, read_settings
from gonogo.cli.language import own_locale
from gonogo.cli.session.interrupts import Interrupts
from gonogo.cli.support import Exit, Stop, complain
from gonogo.cli.terminal.input import TerminalPerson
from gonogo.cli.terminal.output import facts, is_terminal, line, one_line, paper, plain
from gonogo.cli.terminal.plan_graph import state_of
from gonogo.cli.terminal.render import standing
from gonogo.client import Client, Unreachable
from gonogo.domain.errors import NotFound
from gonogo.domain.plan_views import PlanGraph
from gonogo.domain.states import ENDED, ApprovalStatus, PlanStatus
from gonogo.domain.text_safety import guarded
from gonogo.domain.views import ApprovalView
from gonogo.i18n import resolve, say, term

Drawn = Callable[[PlanGraph], Iterator[str]]
_TELLING = ("subtask_", "plan_", "approval_")


class PlanScreen(Protocol):
    """Where a plan is shown, again and again."""

    def show(self, graph: PlanGraph) -> None:
        """Show how it stands now."""
        ...


class Redrawn:
    """The same place of a terminal, drawn anew."""

    def __init__(self, live: Live, draw: Drawn) -> None:
        self._live, self._draw = live, draw

    def show(self, graph: PlanGraph) -> None:
        """Draw it in the place of what was there."""
        self._live.update(Text(guarded("\n".join(self._draw(graph)))), refresh=True)


class Told:
    """A line for each change, where nobody looks at a terminal; the drawing at the end."""

    def __init__(self, write: Callable[[str], object], draw: Drawn, locale: str) -> None:
        self._write, self._draw, self._locale = write, draw, locale
        self._known: dict[str, str] = {}

    def show(self, graph: PlanGraph) -> None:
        """Write what is new."""
        for node in graph.nodes:
            if self._known.get(node.id) != node.status:
                self._known[node.id] = node.status
                moment = graph.as_of.strftime("%H:%M:%S")
                self._write(f"{moment} {node.id} {state_of(node, self._locale)}")
        if graph.status in ENDED:
            for text in self._draw(graph):
                self._write(text)


class JsonGraphs:
    """The whole graph as one line of JSON for each change."""

    def show(self, graph: PlanGraph) -> None:
        """Write it."""
        line(json.dumps(plain(graph), ensure_ascii=True))


async def watch(plan_id: str, draw: Callable[[PlanGraph, str], Iterator[str]], json: bool) -> Exit:
    """Follow a plan until it ends. Leaving early changes nothing in it.

    Where nobody carries the plan out, it is shown once: this command only looks.
    """
    async with linked(read_settings(), looks=True) as link:
        client = link.client
        graph = await client.plan_graph(plan_id)
        session = await client.session(graph.session_id)
        locale = resolve(session.locale, own_locale())
        shown, board = _board(lambda found: draw(found, locale), locale, json=json)
        with shown:
            board.show(graph)
            if link.runtime is None and graph.status not in ENDED:
                graph = await _follow(client, graph, board)
    if graph.status not in ENDED:
        raise Stop(say("cli_nobody_runs", locale), Exit.WAITS)
    return Exit.DONE if graph.status is PlanStatus.COMPLETED else Exit.FAILED


async def wait(plan_id: str, limit: float | None, json: bool) -> Exit:
    """Wait until a plan is over or a person is asked; leaving early changes nothing in it."""
    async with linked(read_settings(), looks=True) as link:
        client = link.client
        plan = await client.plan(plan_id)
        if link.runtime is None:
            try:
                plan = await client.wait_for_plan(plan_id, limit=limit, or_asked=True)
            except TimeoutError:
                raise Stop(say("cli_not_over", own_locale(), plan_id=plan_id)) from None
        asked = await client.pending_approvals(plan.session_id)
        refused = (await client.plan_status(plan_id)).refused
    if json:
        facts(plan)
    else:
        line(f"{plan.plan_id} {term('plan', plan.status, own_locale())}")
    if plan.status in ENDED:
        ended = Exit.DONE if plan.status is PlanStatus.COMPLETED else Exit.FAILED
        return Exit.DENIED if refused or plan.status is PlanStatus.REJECTED else ended
    if not asked.count:
        raise Stop(say("cli_nobody_runs", own_locale()), Exit.WAITS)
    for approval in asked.pending_approvals:
        complain(say("cli_waiting", own_locale(), approval_id=approval.approval_id))
    return Exit.WAITS


async def _follow(client: Client, graph: PlanGraph, board: PlanScreen) -> PlanGraph:
    async with aclosing(client.follow(graph.session_id, graph.last_seq)) as events:
        async for event in events:
            if _is_news(event, graph):
                graph = await client.plan_graph(graph.plan_id)
                board.show(graph)
            if graph.status in ENDED:
                break
    return graph


def _is_news(event: dict[str, Any], graph: PlanGraph) -> bool:
    ours = event.get("plan_id") == graph.plan_id and event.get("seq", 0) > graph.last_seq
    return ours and str(event["type"]).startswith(_TELLING)


def _board(
    draw: Drawn, locale: str, *, json: bool
) -> tuple[AbstractContextManager[object], PlanScreen]:
    console = paper()
    if json:
        return nullcontext(), JsonGraphs()
    if not console.is_terminal:
        return nullcontext(), Told(line, draw, locale)
    live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    return live, Redrawn(live, draw)


# `gonogo approvals watch`: what people are asked, in all sessions, as it comes and is answered.
#
# Each look is short: this command is nobody's guest in between, so no owner of the state folder
# stays for it. Where nobody owns the folder, nothing moves, and it is looked at less often.

_EVERY = 2.0
"""Seconds between looks while somebody owns the folder."""
_EVERY_ALONE = 15.0
_BELL = "\a"
_MARKS = {"approved": "✓", "edited": "✓", "rejected": "✗"}


class News(NamedTuple):
    """Something that happened to a question."""

    change: Literal["asked", "changed", "closed"]
    approval: ApprovalView


class OpenQuestions(Struct):
    """The questions that are known to be open."""

    mine: bool = False
    """Only those that wait for whoever asks."""
    session_id: str | None = None
    _known: dict[str, ApprovalView] = field(default_factory=dict[str, ApprovalView])

    async def look(self, client: Client) -> list[News]:
        """What has happened since the last look, oldest first."""
        found = await client.approvals(
            status=ApprovalStatus.PENDING, mine=self.mine, session_id=self.session_id
        )
        now = {approval.approval_id: approval for approval in found.approvals}
        gone = [each for each in self._known.values() if each.approval_id not in now]
        closed = [News("closed", await _as_it_ended(client, each)) for each in gone]
        news = [*closed, *self._opened(now)]
        self._known = now
        return news

    def _opened(self, now: dict[str, ApprovalView]) -> Iterator[News]:
        for key, approval in now.items():
            before = self._known.get(key)
            if before is None:
                yield News("asked", approval)
            elif (before.votes, before.escalated_at) != (approval.votes, approval.escalated_at):
                yield News("changed", approval)


async def watch_approvals(session_id: str | None, mine: bool, json: bool, bell: bool) -> Exit:
    """Tell of every question and answer until interrupted."""
    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    desk, write = OpenQuestions(mine, session_id), _writer(locale, json=json, bell=bell)
    async with Interrupts().heeded():
        first, alone = True, 0.0
        while True:
            look_alone = anyio.current_time() >= alone
            async with glance(folder, settings, alone=look_alone) as client:
                news = await _looked(desk, client)
            if look_alone:
                alone = anyio.current_time() + _EVERY_ALONE
            for each in news or ():
                write(each)
            if first and news is not None:
                first = False
                TerminalPerson(environment()).tell(say("cli_watching", locale, count=len(news)))
            await anyio.sleep(_EVERY)
    return Exit.DONE


def news_line(news: News, locale: str) -> str:
    """What happened, in one line; text is as strangers wrote it."""
    approval = news.approval
    when = (approval.decided_at if news.change == "closed" else None) or approval.created_at
    head = f"{when:%H:%M:%SZ}"
    kind = term("question", approval.kind, locale)
    about = f"{approval.approval_id} {kind} {approval.session_id}"
    if news.change == "closed":
        mark = _MARKS.get(approval.status, "-")
        return f"{head} {mark} {about} {_ending(approval, locale)}"
    subject = one_line(approval.subject)
    if news.change == "changed":
        return f"{head} ~ {about} {standing(approval, locale)}: {subject}"
    return f"{head} ? {about} {subject} · {program()} approvals show {approval.approval_id}"


def _ending(approval: ApprovalView, locale: str) -> str:
    said = standing(approval, locale)
    if approval.decided_by:
        by = one_line(", ".join(approval.approved_by or ()) or approval.decided_by)
        said = say("cli_watch_by", locale, status=said, by=by)
    return f"{said}: {one_line(approval.feedback)}" if approval.feedback else said


async def _looked(desk: OpenQuestions, client: Client | None) -> list[News] | None:
    """What is new; None where nobody could be asked."""
    if client is None:
        return None
    try:
        return await desk.look(client)
    except Unreachable:
        return None


async def _as_it_ended(client: Client, before: ApprovalView) -> ApprovalView:
    try:
        return await client.approval(before.approval_id)
    except NotFound:
        # Its session was deleted, or it is no longer shown to us.
        return before.model_copy(update={"status": ApprovalStatus.CANCELLED})


def _writer(locale: str, *, json: bool, bell: bool) -> Callable[[News], None]:
    rings = bell and is_terminal()

    def write(news: News) -> None:
        if json:
            line(_as_json(news))
            return
        line(news_line(news, locale))
        if rings and news.change == "asked":
            sys.stdout.write(_BELL)
            sys.stdout.flush()

    return write


def _as_json(news: News) -> str:
    return codec.dumps({"change": news.change, "approval": plain(news.approval)}, ensure_ascii=True)
