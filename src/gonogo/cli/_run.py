"""`gonogo run`: one task from the message to its result, with a person at the terminal or not."""

from pathlib import Path

from gonogo.cli._answers import Wish
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import Link, linked
from gonogo.cli._setup import read_settings
from gonogo.cli._terminal import conversing
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
    with conversing(link, session.session_id, wish, locale) as talking:
        return await talking.carry({"type": "user_message", "content": task})
