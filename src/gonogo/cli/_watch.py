"""`gonogo plans show --watch`: a plan drawn anew whenever something happens in it."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Protocol

from rich.live import Live
from rich.text import Text

from gonogo.cli._exits import Exit, Stop, complain
from gonogo.cli._graph import state_of
from gonogo.cli._owner import linked
from gonogo.cli._print import facts, line, paper, plain
from gonogo.cli._setup import own_locale, read_settings
from gonogo.client import Client
from gonogo.domain.plan_views import PlanGraph
from gonogo.domain.states import ENDED, PlanStatus
from gonogo.domain.text_safety import guarded
from gonogo.texts import resolve, say

Drawn = Callable[[PlanGraph], Iterator[str]]
_TELLING = ("subtask_", "plan_", "approval_")


class Board(Protocol):
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


class Lines:
    """The whole graph as one line of JSON for each change."""

    def show(self, graph: PlanGraph) -> None:
        """Write it."""
        line(json.dumps(plain(graph), ensure_ascii=True))


async def watch(plan_id: str, draw: Callable[[PlanGraph, str], Iterator[str]], json: bool) -> Exit:
    """Follow a plan until it ends. Leaving early changes nothing in it.

    Where nobody carries the plan out, it is shown once: this command only looks.
    """
    async with linked(read_settings(), goes_on=True, looks=True) as link:
        client = link.client
        graph = await client.plan_graph(plan_id)
        session = await client.session(graph.session_id)
        locale = resolve(session.locale, read_settings().locale)
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
    async with linked(read_settings(), goes_on=True, looks=True) as link:
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
        line(f"{plan.plan_id} {plan.status}")
    if plan.status in ENDED:
        ended = Exit.DONE if plan.status is PlanStatus.COMPLETED else Exit.FAILED
        return Exit.DENIED if refused or plan.status is PlanStatus.REJECTED else ended
    if not asked.count:
        raise Stop(say("cli_nobody_runs", own_locale()), Exit.WAITS)
    for approval in asked.pending_approvals:
        complain(say("cli_waiting", own_locale(), approval_id=approval.approval_id))
    return Exit.WAITS


async def _follow(client: Client, graph: PlanGraph, board: Board) -> PlanGraph:
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


def _board(draw: Drawn, locale: str, *, json: bool) -> tuple[AbstractContextManager[object], Board]:
    console = paper()
    if json:
        return nullcontext(), Lines()
    if not console.is_terminal:
        return nullcontext(), Told(line, draw, locale)
    live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    return live, Redrawn(live, draw)
