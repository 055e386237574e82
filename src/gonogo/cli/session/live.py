"""What is drawn anew while something happens: a conversation, a plan, the open questions."""

import json as codec
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import anyio
from msgspec import Struct, field
from rich.console import Console
from rich.text import Text

from gonogo.cli.daemon import RuntimeLink, answers, client_of, glance, linked
from gonogo.cli.folder import Folder, environment, program, read_settings
from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.session.conversation import Conversation, Manner
from gonogo.cli.session.interrupts import Interrupts, status_line
from gonogo.cli.support import Exit, Stop, complain, own_locale
from gonogo.cli.terminal.input import AtKeys, Foot, Keyboard, TerminalPerson, is_ours
from gonogo.cli.terminal.output import facts, is_terminal, line, one_line, paper, plain, spoken
from gonogo.cli.terminal.plan_graph import UNDER_WAY, board_lines, fitted, state_of
from gonogo.cli.terminal.render import Event, EventLines, JsonLines, Screen, standing
from gonogo.client import Client, Unreachable
from gonogo.domain.errors import GonogoError, NotFound
from gonogo.domain.plan_views import PlanGraph
from gonogo.domain.states import ENDED, ApprovalStatus, PlanStatus
from gonogo.domain.text_safety import guarded
from gonogo.domain.views import ApprovalView
from gonogo.i18n import resolve, say, term

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive


# Events on a terminal that somebody looks at: the answer as it is written, and the plan's board.
#
# What is settled scrolls above, as `EventLines` has it. Below it stand the text that an agent is
# writing and, while a plan is under way, where each of its subtasks is.

_TELLING = ("subtask_", "plan_", "approval_")
_CUTS_OFF = frozenset({"tool_call", "error", "agent_switched", "plan_notification"})
"""What follows a text that is over, whole or not."""
_MOMENT, _TICK = 0.08, 0.5
"""Seconds between two drawings: at least, and at most."""


class Live(EventLines):
    """The screen of a person at a terminal."""

    def __init__(
        self,
        console: Console,
        foot: Foot,
        keyboard: Keyboard,
        client: Client,
        locale: str,
        *,
        asks: bool = True,
    ) -> None:
        super().__init__(console, locale, asks=asks)
        self._foot, self._keyboard, self._client = foot, keyboard, client
        self._text = ""
        self._laid_out: tuple[str, int, list[Text]] = ("", 0, [])
        """What is being written as it was last drawn, at which width, and its lines."""
        self._plan_id: str | None = None
        self._graph: PlanGraph | None = None
        self._drawn_up = 0.0
        self._windows: dict[tuple[str, str], str] = {}
        """How full the model's window is: by plan and subtask, in words; of the talk by neither."""
        self._news, self._changed = anyio.Event(), False
        foot.body = self._body

    def show(self, event: Event) -> None:
        """Show one event."""
        self.glance(event)
        if event.get("type") in _CUTS_OFF and "subtask_id" not in event:
            self._settle(self._text)
        super().show(event)

    def glance(self, event: Event) -> None:
        """Have the board follow an event that is not shown yet."""
        super().glance(event)
        place = str(event.get("plan_id", "")), str(event.get("subtask_id", ""))
        if event.get("type") == "subtask_started":
            # Each attempt is a conversation of its own.
            self._windows.pop(place, None)
        if event.get("plan_id") and str(event.get("type")).startswith(_TELLING):
            self._plan_id, self._changed = event["plan_id"], True
            self._news.set()
        elif event.get("type") == "window_used":
            self._windows[place] = window_text(event, self._locale)
            self._news.set()

    def look_at(self, plan_id: str) -> None:
        """Have a plan on the board that nothing has happened in yet."""
        self._plan_id, self._changed = plan_id, True
        self._news.set()

    async def stay(self) -> None:
        """Draw what changes, and what time changes."""
        while True:
            with anyio.move_on_after(_TICK):
                await self._news.wait()
            self._news = anyio.Event()
            if not self._foot.is_away and self._keyboard.keep():
                self._foot.forget()
            if self._changed and self._plan_id:
                await self._look(self._plan_id)
            self._foot.draw()
            await anyio.sleep(_MOMENT)

    async def _look(self, plan_id: str) -> None:
        self._changed = False
        with suppress(GonogoError):
            graph = await self._client.plan_graph(plan_id)
            self._graph = graph if graph.status in UNDER_WAY else None
            self._drawn_up = anyio.current_time()

    def _line(self, text: str, style: str = "") -> None:
        self._foot.above(Text(guarded(text), style=style))

    def _said(self, event: Event) -> None:
        if "subtask_id" in event:
            super()._said(event)
        elif "token" in event:
            self._text += event["token"]
            self._streamed += event["token"]
            self._news.set()
        elif not self._was_streamed(event) or self._text:
            self._settle(event.get("content") or self._text)

    def _progressed(self, event: Event) -> None:
        """The board says it."""

    def _settle(self, text: str) -> None:
        self._text = ""
        if text.strip():
            self._foot.above(*self._lines_of(text, self._console.width))

    def _body(self, width: int, height: int) -> list[Text]:
        board = self._board(width, height) or self._talk(width)
        return self._writing(width, max(height - len(board), 1)) + board

    def _talk(self, width: int) -> list[Text]:
        """How full the window of the conversation itself is."""
        said = self._windows.get(("", ""))
        return [Text(fitted(said, width), style="dim")] if said else []

    def _board(self, width: int, height: int) -> list[Text]:
        if self._graph is None:
            return []
        room = max(height // 2, min(height, 4))
        since = anyio.current_time() - self._drawn_up
        windows = {
            subtask: said
            for (plan, subtask), said in self._windows.items()
            if plan == self._graph.plan_id
        }
        return board_lines(
            self._graph, width=width, height=room, locale=self._locale, since=since,
            windows=windows,
        )  # fmt: skip

    def _writing(self, width: int, height: int) -> list[Text]:
        """The end of what is being written: as much as there is room for."""
        if not self._text.strip():
            return []
        if self._laid_out[:2] != (self._text, width):
            self._laid_out = self._text, width, self._lines_of(self._text, width)
        return self._laid_out[2][-height:]

    def _lines_of(self, text: str, width: int) -> list[Text]:
        options = self._console.options.update(width=width, height=None)
        lines: list[Text] = []
        for segments in self._console.render_lines(safe_markdown(text), options, pad=False):
            line = Text()
            for segment in segments:
                line.append(segment.text, style=segment.style)
            line.rstrip()
            lines.append(line)
        return lines


def window_text(event: Event, locale: str) -> str:
    """How full a window is, in a few words."""
    facts = event["metadata"]
    return say("window_used", locale, percent=facts["tokens"] * 100 // facts["window"])


# What an agent writes, drawn as Markdown and without power over the terminal.
#
# Markdown hides what it is not meant to show, and spells characters out that were not there before:
# `&#27;` is a control character only once it is read. So the text is read first, and then every
# piece of it is made visible; pieces of HTML are shown as they are written, and links with their
# address.

_SHOWN_AS = {"html_block": "code_block", "html_inline": "text"}


def safe_markdown(text: str) -> "RenderableType":
    """A text of a stranger's, to be printed."""
    # Importing what draws Markdown takes longer than many a command.
    from rich.markdown import Markdown

    found = Markdown(text, code_theme="ansi_dark", hyperlinks=False)
    left = list(found.parsed)
    while left:
        token = left.pop()
        token.type = _SHOWN_AS.get(token.type, token.type)
        token.content = spoken(token.content)
        for name in ("href", "src"):
            if name in token.attrs:
                token.attrs[name] = spoken(str(token.attrs[name]))
        left += token.children or ()
    return found


# The terminal of a command that talks: drawn on where somebody looks at one, lines elsewhere.


@contextmanager
def conversing(
    link: RuntimeLink, session_id: str, wish: Wish, locale: str, manner: Manner | None = None
) -> Generator[Conversation]:
    """Take part in a session at this command's terminal, which is afterwards as it was."""
    with _terminal(link, wish, locale) as (screen, person):
        yield Conversation(
            link.client,
            session_id,
            screen,
            Answerer(link.client, session_id, person, wish, locale),
            manner=manner,
            interrupts=link.interrupts,
            owns=link.runtime is not None,
            folder=link.folder,
        )


@contextmanager
def _terminal(
    link: RuntimeLink, wish: Wish, locale: str
) -> Generator[tuple[Screen, TerminalPerson]]:
    person = TerminalPerson(environment())
    if wish.json:
        yield JsonLines(_write_now), person
        return
    console = paper()
    if not _can_be_drawn_on(console):
        yield EventLines(console, locale), person
        return
    with _drawn_on(console) as (foot, keyboard):
        asks = not (wish.all or wish.unattended)
        screen = Live(console, foot, keyboard, link.client, locale, asks=asks)
        yield screen, AtKeys(environment(), foot, keyboard)


async def ask(question: str, options: Mapping[str, str]) -> str | None:
    """Ask whoever is at the terminal, outside of sessions; a key answers where keys can be had."""
    console = paper()
    if not _can_be_drawn_on(console):
        return await TerminalPerson(environment()).choose(question, options)
    with _drawn_on(console) as (foot, keyboard):
        return await AtKeys(environment(), foot, keyboard).choose(question, options)


def _can_be_drawn_on(console: "Console") -> bool:
    whole = console.is_terminal and not console.is_dumb_terminal
    return whole and TerminalPerson(environment()).is_there and is_ours(sys.stdin.fileno())


@contextmanager
def _drawn_on(console: "Console") -> Generator[tuple[Foot, Keyboard]]:
    keyboard, foot = Keyboard(sys.stdin.fileno()), Foot(console)
    with keyboard.held(), foot.used():
        yield foot, keyboard


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


# Lines while something happens: of one plan until it ends, of all questions until Ctrl-C.

Drawn = Callable[[PlanGraph], Iterator[str]]


class PlanScreen(Protocol):
    """Where a plan is shown, again and again."""

    def show(self, graph: PlanGraph) -> None:
        """Show how it stands now."""
        ...


class Redrawn:
    """The same place of a terminal, drawn anew."""

    def __init__(self, live: "RichLive", draw: Drawn) -> None:
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
        _write_now(codec.dumps(plain(graph), ensure_ascii=True) + "\n")


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
        line(status_line(plan))
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
    from rich.live import Live as RichLive

    live = RichLive(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    return live, Redrawn(live, draw)


# `gonogo approvals watch`: what people are asked, in all sessions, as it comes and is answered.
#
# While somebody owns the folder, their news say when to look; this command is nobody's guest
# meanwhile, so no owner stays for it. Where nobody does, nothing moves, and it is looked at rarely.

_EVERY = 2.0
"""Seconds after which it is found out whether somebody owns the folder now."""
_EVERY_ALONE = 15.0
_MARGIN = timedelta(minutes=1)
"""How far before the last look a question may say that it was asked, and be new all the same."""
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
    _looked_at: datetime | None = None
    _known: dict[str, ApprovalView] = field(default_factory=dict[str, ApprovalView])
    _over: frozenset[str] = frozenset()
    """Questions of the last minute that are answered, as they were at the last look."""

    async def look(self, client: Client) -> list[News]:
        """What has happened since the last look, oldest first.

        Raises:
            NotFound: at the first look, there is no such session.
        """
        if self.session_id is not None and self._looked_at is None:
            await client.session(self.session_id)
        begun = datetime.now(UTC)
        found = await client.approvals(
            status=ApprovalStatus.PENDING, mine=self.mine, session_id=self.session_id
        )
        now = {approval.approval_id: approval for approval in found.approvals}
        missed = [] if self.mine else await self._missed(client, self._looked_at or begun, now)
        gone = [each for each in self._known.values() if each.approval_id not in now]
        closed = [News("closed", await _as_it_ended(client, each)) for each in gone]
        news = [*closed, *missed, *self._opened(now)]
        self._known, self._looked_at = now, begun
        return news

    async def _missed(
        self, client: Client, last: datetime, now: Mapping[str, ApprovalView]
    ) -> list[News]:
        """What was asked and answered since the last look; nothing, at the first one."""
        asked = await client.approvals(session_id=self.session_id, since=last - _MARGIN)
        over = [each for each in asked.approvals if each.status is not ApprovalStatus.PENDING]
        before, self._over = self._over, frozenset(each.approval_id for each in over)
        if self._looked_at is None:
            return []
        told = {*before, *self._known, *now}
        fresh = [each for each in over if each.approval_id not in told]
        return [news for each in fresh for news in (News("asked", each), News("closed", each))]

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
            if look_alone and news is not None:
                alone = anyio.current_time() + _EVERY_ALONE
            for each in news or ():
                write(each)
            if first and news is not None:
                first = False
                TerminalPerson(environment()).tell(say("cli_watching", locale, count=len(news)))
            if await answers(folder):
                async with client_of(folder, settings) as client:
                    await watch_news(desk, client, write)
            await anyio.sleep(_EVERY)
    return Exit.DONE


async def watch_news(desk: OpenQuestions, client: Client, write: Callable[[News], None]) -> None:
    """Tell of every question and answer as the owner has news, until that is gone."""
    with suppress(Unreachable):
        async with aclosing(client.news()) as pieces:
            async for piece in pieces:
                if "session_id" not in piece or any(map(_is_of_approval, piece["events"])):
                    for each in await desk.look(client):
                        write(each)


def _is_of_approval(event_type: str) -> bool:
    return event_type.startswith("approval_")


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
            _write_now(_as_json(news) + "\n")
            return
        line(news_line(news, locale))
        if rings and news.change == "asked" and news.approval.status is ApprovalStatus.PENDING:
            sys.stdout.write(_BELL)
            sys.stdout.flush()

    return write


def _as_json(news: News) -> str:
    return codec.dumps({"change": news.change, "approval": plain(news.approval)}, ensure_ascii=True)
