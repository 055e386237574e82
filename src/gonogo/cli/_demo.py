"""`gonogo demo`: the whole path on the sample project."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio
import typer

from gonogo.cli._answers import Wish
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import linked
from gonogo.cli._run import talk
from gonogo.cli._setup import environment, program, read_settings
from gonogo.demo import TASKS, TestRun, lay_out, run_tests
from gonogo.domain.text_safety import guarded
from gonogo.settings import Settings
from gonogo.texts import say

NAME = "tally"


async def run_demo(wish: Wish) -> Exit:
    """Lay the sample out, run its tests, carry the task out, and run them again."""
    folder = Path(tempfile.mkdtemp(prefix="gonogo-demo-"))
    ended = False
    try:
        outcome = await _carry_through(folder, wish)
        ended = True
        return outcome
    finally:
        if not ended:
            shutil.rmtree(folder, ignore_errors=True)


async def _carry_through(folder: Path, wish: Wish) -> Exit:
    project = folder / NAME
    await anyio.to_thread.run_sync(lay_out, project)
    before = await anyio.to_thread.run_sync(run_tests, project)
    settings = _settings(folder, project)
    locale = settings.locale or "en"
    _tell(say("cli_demo_start", locale, folder=project), wish)
    _tell(say("cli_tests_before", locale, outcome=before.summary), wish)
    async with linked(settings) as link:
        if link.runtime is None:
            raise Stop(
                f"Another process owns {settings.home}; leave GONOGO_HOME unset for the demo, "
                "or stop that process",
                Exit.USAGE,
            )
        wish = replace(wish, prefix=f"GONOGO_HOME={settings.home} ", keeps=False)
        outcome = await talk(link, settings, TASKS[locale], wish)
    after = await anyio.to_thread.run_sync(run_tests, project)
    for line in _account(settings, project, after, locale):
        _tell(line, wish)
    return Exit.FAILED if outcome is Exit.DONE and not after.passed else outcome


def _settings(folder: Path, project: Path) -> Settings:
    given = {"workspace": project, "roots": (), "model": "demo"}
    if not environment().get("GONOGO_HOME"):
        given["home"] = folder / "state"
    return read_settings(given)


def _account(settings: Settings, project: Path, after: TestRun, locale: str) -> list[str]:
    again = f"GONOGO_HOME={settings.home} {program()}"
    return [
        "",
        say("cli_tests_after", locale, outcome=after.summary),
        say("cli_demo_end", locale, folder=project, home=settings.home),
        f"  git -C {project} diff",
        f"  {again} plans list",
        f"  {again} audit show",
        f"  {again} audit verify",
    ]


def _tell(text: str, wish: Wish) -> None:
    typer.echo(guarded(text), err=wish.json)
