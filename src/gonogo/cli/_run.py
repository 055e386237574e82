"""`gonogo run`: one task from the message to its result, with a person at the terminal or not."""

import sys
from pathlib import Path

from gonogo.cli._answers import Answers, Wish
from gonogo.cli._ask import Person
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import Link, linked
from gonogo.cli._setup import environment, read_settings
from gonogo.cli._show import JsonLines, Lines, Screen
from gonogo.cli._talk import Conversation
from gonogo.domain.errors import Forbidden
from gonogo.settings import Settings
from gonogo.texts import resolve

_OTHER_ROOTS = (
    "The process that owns the state folder works under other folders: start it with GONOGO_ROOTS, "
    "wait for it to end, or set GONOGO_HOME to another folder"
)


async def run_task(task: str, directory: Path | None, model: str | None, wish: Wish) -> Exit:
    """Carry one task out."""
    if not task.strip():
        raise Stop('Say what you want done: gonogo run "Add a --json flag"', Exit.USAGE)
    settings = read_settings(
        {"workspace": directory, "model": model, "unattended": wish.unattended or None}
    )
    async with linked(settings) as link:
        if model is not None and link.runtime is None:
            raise Stop(
                f"Another process owns {settings.home} and chooses the model; leave --model out, "
                "stop that process, or set GONOGO_HOME to another folder",
                Exit.USAGE,
            )
        return await talk(link, settings, task, wish)


async def talk(link: Link, settings: Settings, task: str, wish: Wish) -> Exit:
    """Open a session, say the task in it and see it through."""
    try:
        session = await link.client.open_session(
            workspace=str(settings.workspace), locale=settings.locale, title=task[:80]
        )
    except Forbidden as error:
        raise Stop(f"{error}. {_OTHER_ROOTS}") from None
    locale = resolve(settings.locale, None, task)
    answers = Answers(link.client, session.session_id, Person(environment()), wish, locale)
    conversation = Conversation(link.client, session.session_id, screen_for(wish), answers)
    return await conversation.carry({"type": "user_message", "content": task})


def screen_for(wish: Wish) -> Screen:
    """Where this command shows its events."""
    if wish.json:
        return JsonLines(_write_now)
    from rich.console import Console

    return Lines(Console(highlight=False, markup=False, emoji=False))


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
