"""How commands are declared: groups, options that several have, words that a shell completes."""

import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from gonogo.client import Client


# What the shell completes ids with: those that the process that owns the state folder knows.
#
# Where nobody owns the folder, where the answer takes longer than a person waits, or where anything
# goes wrong, there is nothing to offer. Only ids are given, and only of characters that mean
# nothing to a shell: what agents write is never handed to one.

_LIMIT = 1.5
"""Seconds that the owner may take."""
_MOST = 100
_MOST_COST, _MOST_SECONDS = 1e9, 10**8
_SENTENCE = 1_000
"""Characters that the longest first sentence about a command may have."""
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

Ask = Callable[["Client"], Awaitable[Iterable[str]]]


def plan_ids(incomplete: str) -> list[str]:
    """Plans, newest first."""

    async def ask(client: "Client") -> Iterable[str]:
        return [plan.plan_id for plan in (await client.plans(limit=_MOST)).plans]

    return _completed(ask, incomplete)


def session_ids(incomplete: str) -> list[str]:
    """Sessions, newest first."""

    async def ask(client: "Client") -> Iterable[str]:
        return [each.session_id for each in (await client.sessions(limit=_MOST)).sessions]

    return _completed(ask, incomplete)


def approval_ids(incomplete: str) -> list[str]:
    """Questions that are open."""

    async def ask(client: "Client") -> Iterable[str]:
        found = await client.approvals(status="pending")
        return [approval.approval_id for approval in found.approvals[:_MOST]]

    return _completed(ask, incomplete)


def _completed(ask: Ask, incomplete: str) -> list[str]:
    import anyio

    try:
        found = anyio.run(_found, ask)
    except Exception:
        # Whoever presses a key at a prompt is not told why there is nothing to choose from.
        return []
    return [each for each in found if each.startswith(incomplete) and _HARMLESS.fullmatch(each)]


async def _found(ask: Ask) -> Iterable[str]:
    import anyio

    from gonogo.cli.daemon import glance
    from gonogo.cli.folder import Folder, read_settings

    settings = read_settings()
    folder = Folder(settings.home)
    if not folder.socket.exists():
        return ()
    with anyio.move_on_after(_LIMIT):
        async with glance(folder, settings, alone=False) as client:
            return () if client is None else await ask(client)
    return ()


def not_blank(text: str) -> str:
    """A text that says something.

    Raises:
        BadParameter: it does not.
    """
    from gonogo.cli.support import own_words

    if not text.strip():
        raise typer.BadParameter(own_words("it must not be empty"))
    return text


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Events = Annotated[bool, typer.Option("--json", help="Print events as JSON, one on each line.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show at most.")]
Session = Annotated[
    str | None,
    typer.Option("--session", help="Only this session.", autocompletion=session_ids),
]
SessionId = Annotated[str, typer.Argument(help="The session's id.", autocompletion=session_ids)]
PlanId = Annotated[str, typer.Argument(help="The plan's id.", autocompletion=plan_ids)]
SubtaskId = Annotated[str, typer.Argument(help="The subtask's id.")]
ApprovalId = Annotated[str, typer.Argument(help="The approval's id.", autocompletion=approval_ids)]
Words = Annotated[str, typer.Argument(metavar="TEXT", help="Your message.", callback=not_blank)]
Directory = Annotated[
    Path | None,
    typer.Option("-C", "--directory", exists=True, file_okay=False, help="The folder to work in."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The model: provider:name, demo or replay:FILE; by default GONOGO_MODEL, or a "
        "detected one.",
    ),
]


_TIME = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s?)?")


def limits_of(cost: float | None, time: str | None) -> dict[str, float] | None:
    """What a run may take in all, as its options say it; None: whatever it takes.

    Raises:
        Stop: what was given is no sum of money, or no time.
    """
    from gonogo.cli.support import Exit, Stop, own_locale
    from gonogo.i18n import say

    limits = dict[str, float]()
    if cost is not None:
        if not 0 < cost <= _MOST_COST:
            raise Stop(say("cli_limit_cost", own_locale(), given=f"{cost:g}"), Exit.USAGE)
        limits["cost"] = cost
    if time is not None:
        found = _TIME.fullmatch(time)
        hours, minutes, seconds = (int(each or 0) for each in found.groups()) if found else (0,) * 3
        limits["seconds"] = hours * 3_600 + minutes * 60 + seconds
        if not 0 < limits["seconds"] <= _MOST_SECONDS:
            raise Stop(say("cli_limit_time", own_locale(), given=time), Exit.USAGE)
    return limits or None


class Group(TyperGroup):
    """A group whose help names arguments as the pages do: `PLAN`, or `[TASK]` if it may be absent.

    It has a whole sentence about each command, however long its line gets.
    """

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - Typer's own are not public
        super().__init__(**given)
        for command in self.commands.values():
            for each in command.params:
                if each.param_type_name == "argument":
                    _name_as_pages_do(each)

    def format_commands(
        self,
        ctx: Any,  # noqa: ANN401 - Typer's own is not public
        formatter: Any,  # noqa: ANN401
    ) -> None:
        """Write what there is in the group; Typer cuts each sentence at the end of its line."""
        said = {
            name: each.get_short_help_str(_SENTENCE)
            for name, each in self.commands.items()
            if not each.hidden
        }
        with formatter.section("Commands"):
            formatter.write_dl(list(said.items()))


def _name_as_pages_do(argument: Any) -> None:  # noqa: ANN401 - as above
    argument.metavar = argument.metavar or argument.name.removesuffix("_id").upper()
    shown = argument.metavar if argument.required else f"[{argument.metavar}]"
    pieces = [shown if argument.nargs == 1 else f"{shown}..."]

    def usage_pieces(_: object) -> list[str]:
        return pieces

    argument.get_usage_pieces = usage_pieces


def group(about: str, epilog: str | None = None, *, completes: bool = False) -> typer.Typer:
    """A group of commands; alone, it shows its help.

    Args:
        completes: It is the whole program, and offers to complete its words in a shell.
    """
    return typer.Typer(
        cls=Group,
        help=about,
        epilog=example(epilog) if epilog else None,
        no_args_is_help=True,
        add_completion=completes,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def example(*lines: str) -> str:
    """Examples for a help text, kept as they are written."""
    return "Example:\n\n\b\n" + "\n".join(
        "  " + line for text in lines for line in text.split("\n")
    )
