"""The commands: each a client of the process that owns the state folder.

Where no process owns it, the command owns it itself for as long as it runs, and is its own client;
so there is one path from a command to the runtime, and it is the public protocol. On an error, a
command says in one line what went wrong and what to do next, never with a traceback; its exit code
is one of `Exit`. Libraries are imported when a command needs them: `gonogo --help` starts at once.
"""

import gc
import os
import sys
from functools import cache
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.exceptions import TyperException

from gonogo.cli.commands import (
    agents,
    analytics,
    approvals,
    changes,
    maintenance,
    plans,
    run,
    sessions,
)
from gonogo.cli.support import (
    Exit,
    asked_locale,
    explain_in,
    explained,
    group,
    own_locale,
    problem_of,
    refusal,
    report,
)

if TYPE_CHECKING:
    from types import ModuleType

    from gonogo.i18n import Locale

__all__ = ["Exit", "app", "main"]

app = group(
    "A durable runtime for agents: they propose a plan, you approve it, and gonogo carries it out.",
    epilog='Start with: gonogo demo\nThen:       gonogo run "Add a --json flag" -C path/to/repo',
    completes=True,
)


def main() -> None:
    """Run the command that the process was started with."""
    # Nearly everything that a start allocates stays; searching it for cycles takes 10% of the time.
    gc.set_threshold(20_000, 20, 10)
    # httpx's own command line, which would import rich, pygments and click into every command.
    sys.modules["httpx._main"] = cast("ModuleType", None)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = _spelled_out(sys.argv[1:])
    if wanted := asked_locale(words):
        os.environ["GONOGO_LOCALE"] = wanted
    with explained():
        sys.exit(_carried_out(words, own_locale()))


@cache
def tree() -> Any:  # noqa: ANN401 - Typer's
    """All commands with their options; building them takes a third of a short command's time."""
    return typer.main.get_command(app)


def _carried_out(words: list[str], locale: "Locale") -> int:
    """Run the command of a command line and return its exit code."""
    command = tree()
    if locale != "en":
        explain_in(command, locale)
    try:
        return command.main(words, prog_name="gonogo", standalone_mode=False) or 0
    except TyperException as error:
        from gonogo.cli.terminal.output import beside

        problem = problem_of(error, locale)
        typer.echo(beside(refusal(error, problem, locale)), err=True)
        report(problem, Exit(error.exit_code), error)
        return error.exit_code
    except typer.Abort:
        return Exit.FAILED


def _open_closed_streams() -> None:
    """Open `/dev/null` for each standard stream that the caller closed.

    Else the next file that is opened, such as the database, would be taken for that stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The system gives the lowest free number, which is the stream's; programs inherit it.
            given = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(given, True)
            setattr(sys, name, os.fdopen(given, mode))


def _spelled_out(words: list[str]) -> list[str]:
    """Return the words with `--yes=all`, a flag with a value, replaced by flags without values.

    `tools` is accepted for `tool`.
    """
    own, rest = words, list[str]()
    if "--" in words:
        cut = words.index("--")
        own, rest = words[:cut], words[cut:]
    if own[:1] == ["tools"]:
        own = ["tool", *own[1:]]
    flags = {"--yes=all": "--yes-all", "--yes=plan": "--yes"}
    return [flags.get(word, word) for word in own] + rest


def _version(value: bool) -> None:
    if value:
        from gonogo import __version__

        typer.echo(f"gonogo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    locale: Annotated[
        Literal["en", "ru"] | None,
        typer.Option("--locale", help="The language, en or ru; by default that of the system."),
    ] = None,
) -> None: ...


for _top in (
    run.top, changes.top, agents.top, sessions.top, maintenance.process, analytics.top,
    maintenance.top,
):  # fmt: skip
    app.add_typer(_top)
for _name, _group in {
    "sessions": sessions.app,
    "plans": plans.app,
    "approvals": approvals.app,
    "checkpoints": changes.checkpoints,
    "audit": analytics.audit,
    "policy": agents.policy,
    "tool": agents.app,
    "token": maintenance.tokens,
    "db": maintenance.app,
    "place": maintenance.place,
}.items():
    app.add_typer(_group, name=_name)
