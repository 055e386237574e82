"""The part of the terminal that is drawn anew while something happens."""

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from rich.console import Console
from rich.text import Text

from gonogo.cli.daemon import RuntimeLink
from gonogo.cli.folder import environment
from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.session.conversation import Conversation, Manner
from gonogo.cli.terminal.input import Foot, Keyboard, TerminalPerson, is_ours
from gonogo.cli.terminal.output import paper, spoken
from gonogo.cli.terminal.plan_graph import UNDER_WAY, board_lines, fitted
from gonogo.cli.terminal.render import Event, EventLines, JsonLines, Screen
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.domain.plan_views import PlanGraph
from gonogo.domain.text_safety import guarded
from gonogo.i18n import say

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    can_be_drawn_on = console.is_terminal and not console.is_dumb_terminal
    if not (can_be_drawn_on and person.is_there and is_ours(sys.stdin.fileno())):
        yield EventLines(console, locale), person
        return
    with _drawn_on(link, console, locale, asks=not (wish.all or wish.unattended)) as drawn:
        yield drawn


@contextmanager
def _drawn_on(
    link: RuntimeLink, console: "Console", locale: str, *, asks: bool
) -> Generator[tuple[Screen, TerminalPerson]]:
    from gonogo.cli.terminal.input import AtKeys, Foot, Keyboard

    keyboard, foot = Keyboard(sys.stdin.fileno()), Foot(console)
    screen = Live(console, foot, keyboard, link.client, locale, asks=asks)
    with keyboard.held(), foot.used():
        yield screen, AtKeys(environment(), foot, keyboard)


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
