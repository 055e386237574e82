"""`status` and `stop`: the process that carries the work out."""

from datetime import datetime
from typing import Annotated

import typer

from gonogo.cli.arguments import Json, example
from gonogo.cli.language import own_locale
from gonogo.cli.support import Exit, Stop, carry_out

top = typer.Typer()


@top.command(epilog=example("gonogo status", "gonogo status --json"))
def status(json: Json = False) -> None:
    """Show which process does the work, and what work there is.

    If that process was killed, this command starts it again. If none was running, it starts none.
    """
    carry_out(_status, json)


@top.command(epilog=example("gonogo stop", "gonogo stop --now"))
def stop(
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Stop immediately: do not ask, and do not wait for running work."
        ),
    ] = False,
) -> None:
    """Stop the background process.

    Unfinished work continues with the next gonogo run or attach.
    """
    carry_out(_stop, now)


async def _status(json: bool) -> Exit:
    from gonogo.cli.background import runs_in_background, start
    from gonogo.cli.daemon import glance
    from gonogo.cli.folder import Folder, read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.domain.states import ApprovalStatus, PlanStatus
    from gonogo.i18n import say

    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    found = folder.read_facts()
    if found is not None and not folder.is_owned() and runs_in_background(settings):
        await start(folder, settings)
        found = folder.read_facts()
    if found is None or not folder.is_owned():
        if json:
            return facts({"running": False})
        line(say("cli_no_process", locale, home=settings.home))
        return Exit.DONE
    async with glance(folder, settings, alone=False) as client:
        if client is None:
            raise Stop(say("cli_process_silent", locale, pid=found.pid))
        running = (await client.plans(status=PlanStatus.RUNNING, limit=1)).total
        asked = len((await client.approvals(status=ApprovalStatus.PENDING)).approvals)
    if json:
        return facts(
            {
                "running": True, "pid": found.pid, "kind": found.kind, "version": found.version,
                "since": found.since.isoformat(), "log": str(folder.log), "plans": running,
                "questions": asked,
            }
        )  # fmt: skip
    line(
        say(
            f"cli_process_{found.kind}", locale, pid=found.pid, version=found.version,
            since=_moment(found.since),
        )
    )  # fmt: skip
    line(say("cli_process_work", locale, plans=running, questions=asked, log=folder.log))
    return Exit.DONE


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


async def _stop(now: bool) -> Exit:
    import os
    import signal

    from gonogo.cli.background import PATIENCE, has_left, leaves
    from gonogo.cli.folder import Folder, environment, read_settings
    from gonogo.cli.terminal.input import TerminalPerson
    from gonogo.cli.terminal.output import line
    from gonogo.i18n import say

    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    found = folder.read_facts()
    if found is None or not folder.is_owned():
        line(say("cli_no_process", locale, home=settings.home))
        return Exit.DONE
    if found.kind != "background":
        raise Stop(say("cli_process_elsewhere", locale, pid=found.pid))
    if not now and not await leaves(folder):
        person = TerminalPerson(environment())
        question = say("cli_stop_process", locale, pid=found.pid)
        options = {word: say(f"cli_stop_{word}", locale) for word in ("yes", "no")}
        if not person.is_there:
            raise Stop(say("cli_process_works", locale, pid=found.pid), Exit.WAITS)
        if await person.choose(question, options) != "yes":
            return Exit.DONE
    if folder.is_owned():
        os.kill(found.pid, signal.SIGTERM)
    if not await has_left(folder, PATIENCE):
        raise Stop(say("cli_process_silent", locale, pid=found.pid))
    line(say("cli_process_stopped", locale, pid=found.pid))
    return Exit.DONE
