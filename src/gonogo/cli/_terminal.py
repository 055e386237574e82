"""The terminal of a command that talks: drawn on where somebody looks at one, lines elsewhere."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gonogo.cli._answers import Answers, Wish
from gonogo.cli._ask import Person
from gonogo.cli._keys import is_ours
from gonogo.cli._owner import Link
from gonogo.cli._print import paper
from gonogo.cli._setup import environment
from gonogo.cli._show import JsonLines, Lines, Screen
from gonogo.cli._talk import Conversation, Manner

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def conversing(
    link: Link, session_id: str, wish: Wish, locale: str, manner: Manner | None = None
) -> Generator[Conversation]:
    """Take part in a session at this command's terminal, which is afterwards as it was."""
    with _terminal(link, wish, locale) as (screen, person):
        yield Conversation(
            link.client,
            session_id,
            screen,
            Answers(link.client, session_id, person, wish, locale),
            manner=manner,
            interrupts=link.interrupts,
            owns=link.runtime is not None,
        )


@contextmanager
def _terminal(link: Link, wish: Wish, locale: str) -> Generator[tuple[Screen, Person]]:
    person = Person(environment())
    if wish.json:
        yield JsonLines(_write_now), person
        return
    console = paper()
    can_be_drawn_on = console.is_terminal and not console.is_dumb_terminal
    if not (can_be_drawn_on and person.is_there and is_ours(sys.stdin.fileno())):
        yield Lines(console), person
        return
    with _drawn_on(link, console, locale) as drawn:
        yield drawn


@contextmanager
def _drawn_on(link: Link, console: "Console", locale: str) -> Generator[tuple[Screen, Person]]:
    from gonogo.cli._at_keys import AtKeys
    from gonogo.cli._foot import Foot
    from gonogo.cli._keys import Keyboard
    from gonogo.cli._live import Live

    keyboard, foot = Keyboard(sys.stdin.fileno()), Foot(console)
    screen = Live(console, foot, keyboard, link.client, locale)
    with keyboard.held(), foot.used():
        yield screen, AtKeys(environment(), foot, keyboard)


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
