"""What every command needs: its declaration, its exit code, and one line about an error."""

import errno
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, cast

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

if TYPE_CHECKING:
    from pydantic import ValidationError

    from gonogo.client import Client, Unreachable
    from gonogo.domain.errors import GonogoError
    from gonogo.i18n import Locale

# The language of the command line: which one the user reads, and the command's texts in it.
#
# Commands and options are declared in English. For another language, their help texts and Typer's
# own texts are replaced before anything is shown.

_SURROUNDINGS = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set decides (POSIX, Base Definitions, 8.2)."""
_PLAIN = frozenset({"", "C", "C.UTF-8", "POSIX", "en_US.UTF-8"})
"""Values that mean no language or English, known without loading the catalogue."""
_ASKED = re.compile(r"--locale(?:=(.*))?", re.DOTALL)
_IN_EXAMPLES = ("Example:", "Start with: ", "Then:       ")
_IN_USAGE = ("[OPTIONS]", "COMMAND [ARGS]...")
_EXTRA = re.compile(r"\[(env var: |default: |required)")
_TOO_MANY = "Got unexpected extra argument"
_REFUSALS = (
    "Missing argument '{name}'.",
    "Missing option '{name}'. Choose from:{others}",
    "Missing option '{name}'.",
    "Missing command.",
    "No such option: {name} (Possible options: {others})",
    "No such option: {name}",
    "No such command '{name}'. Did you mean {others}?",
    "No such command '{name}'.",
    "Got unexpected extra argument(s) ({name})",
    "Option '{name}' requires an argument.",
    "Option '{name}' does not take a value.",
    "Invalid value for '{name}': {problem}",
    "Invalid value: {problem}",
)
"""Typer's error messages about a command line; the first pattern that matches applies."""
_PROBLEMS = (
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be greater than or equal to {limit}",
    "Input should be less than or equal to {limit}",
    "Input should be greater than {limit}",
    "Input should be {choices}",
    "dir '{path}' does not exist.",
    "file '{path}' does not exist.",
    "Value error, '{given}' is not one of {choices}.",
)


def named_locale(environ: Mapping[str, str]) -> "Locale | None":
    """The language of the setting, or else of the system's environment; None: neither names one.

    An English environment counts as none: most machines have it, whoever uses them. A message is
    then answered in the message's own language.
    """
    chosen = environ.get("GONOGO_LOCALE", "")
    named = next((environ[name] for name in _SURROUNDINGS if environ.get(name)), "")
    if not chosen and named in _PLAIN:
        return None
    from gonogo.i18n import DEFAULT, known_locale

    found = known_locale(named)
    return known_locale(chosen) or (None if found == DEFAULT else found)


def own_locale() -> "Locale":
    """The language of this command's user, for texts outside sessions with their own language."""
    return named_locale(os.environ) or "en"


def own_words(text: str, /, **fields: object) -> str:
    """Return a text of this command in its user's language; the English text is the key."""
    from gonogo.i18n import phrase

    return phrase(text, own_locale(), **fields)


def asked_locale(words: Sequence[str]) -> str | None:
    """The value of `--locale` in a command line, before its first command."""
    for number, word in enumerate(words):
        if found := _ASKED.fullmatch(word):
            return found[1] or next(iter(words[number + 1 :]), None)
        if not word.startswith("-"):
            break
    return None


def explain_in(command: Any, locale: "Locale", above: Any = None) -> None:  # noqa: ANN401 - Typer's
    """Translate the help of a command, and of all commands below it, into a language.

    Args:
        above: The context of its group, which names the help option.
    """
    say = partial(_said, locale=locale)
    for name in ("help", "short_help"):
        if text := getattr(command, name):
            setattr(command, name, say(text))
    for words in _IN_EXAMPLES if command.epilog else ():
        command.epilog = command.epilog.replace(words, say(words), 1)
    command.context_class = _contexts(command.context_class, locale)
    context = command.context_class(command, above, **command.context_settings)
    helping = command.get_help_option(context)
    for each in [*command.params, *([helping] if helping else [])]:
        each.help = each.help and say(each.help)
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            explain_in(below, locale, context)


def problem_of(error: Any, locale: "Locale") -> str:  # noqa: ANN401 - Typer's own are not public
    """What is wrong with a command line, in a language."""
    said = _form(_REFUSALS, message := error.format_message(), locale)
    context = getattr(error, "ctx", None)
    if context is not None and context.info_name == "run" and message.startswith(_TOO_MANY):
        return f"{said}. {_said('Put the task in quotes.', locale)}"
    return said


def refusal(error: Any, problem: str, locale: "Locale") -> str:  # noqa: ANN401 - as above
    """The text of a usage error: the usage line, where the help is, and what is wrong."""
    lines = list[str]()
    if (context := getattr(error, "ctx", None)) is not None:
        asked = f"{context.command_path} {context.help_option_names[0]}"
        helping = _said("Try '{command}' for help.", locale).format(command=asked)
        lines = [context.get_usage(), helping, ""]
    return "\n".join([*lines, _said("Error: {problem}", locale).format(problem=problem)])


def refused_value(message: str, locale: "Locale") -> str:
    """Translate a message about a refused value, if it is one of the common ones."""
    return _form(_PROBLEMS, message, locale)


def _said(text: str, locale: "Locale") -> str:
    from gonogo.i18n import phrase

    return phrase(text, locale)


def _form(forms: Sequence[str], message: str, locale: "Locale") -> str:
    for form in forms:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(form))
        if found := re.fullmatch(pattern, message, re.DOTALL):
            fields = {
                name: _form(_PROBLEMS, part, locale) if name == "problem" else _quoted(part, locale)
                for name, part in found.groupdict().items()
            }
            return _said(form, locale).format(**fields)
    return message


def _quoted(part: str, locale: "Locale") -> str:
    """A name from Typer's message, in the quotation marks of a language."""
    if locale != "ru":
        return part
    return re.sub("'([^']*)'", r"«\1»", part.replace("' / '", "» / «"))


def _contexts(kind: Any, locale: "Locale") -> Any:  # noqa: ANN401 - Typer's own are not public
    """A subclass of a context class, with headings in a language."""
    spoken, base = partial(_said, locale=locale), kind.formatter_class

    class Formatter(base):
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            for words in _IN_USAGE:
                args = args.replace(words, spoken(words))
            base.write_usage(self, prog, args, prefix or spoken("Usage: "))

        def write_heading(self, heading: str) -> None:
            base.write_heading(self, spoken(heading))

        def write_dl(self, rows: Sequence[tuple[str, str]], *args: int) -> None:
            told = [(name, _EXTRA.sub(lambda f: f"[{spoken(f[1])}", text)) for name, text in rows]
            base.write_dl(self, told, *args)

    return type("Context", (kind,), {"formatter_class": Formatter})


_GONE = (
    "The process that did the work has ended ({problem}). Run the command again; to continue a "
    "session: gonogo attach"
)
_SILENT = (
    "The gonogo process is running but does not answer. If it is stopped (state T in ps), continue "
    "it with kill -CONT and its number, which is in owner.lock of GONOGO_HOME; otherwise try again "
    "later"
)
_NO_ROOM = "{problem}; free some space on that disk and try again"
_OTHER_FILE = "{problem}; name another file"
_WHAT_NEXT = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EROFS: "{problem}; make that disk writable and try again",
    errno.ENOENT: _OTHER_FILE,
    errno.ENOTDIR: _OTHER_FILE,
    errno.EISDIR: _OTHER_FILE,
    errno.EACCES: _OTHER_FILE,
    errno.EPERM: _OTHER_FILE,
    errno.ENAMETOOLONG: _OTHER_FILE,
}
"""What to do about a problem with a disk or a file, by the system's error number."""
_LOGGED = (
    "internal error: {problem}; please report it with the last lines of gonogo.log in GONOGO_HOME"
)
_UNLOGGED = "internal error: {problem}; please report it"
_CODES = {2: "usage", 3: "waits", 4: "policy_denied"}
"""Error codes in JSON for errors that have none of their own, by exit code."""


class Exit(IntEnum):
    """The exit codes of docs/reference/protocol.md §4."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITS = 3
    """A person has to decide something first."""
    DENIED = 4
    INTERRUPTED = 130


class Stop(Exception):
    """The command cannot go on; the text says what to do next, in the user's language."""

    def __init__(self, text: str, code: Exit = Exit.FAILED, /, **fields: object) -> None:
        """Take an English text from the catalogue, or one that is already translated."""
        super().__init__(own_words(text, **fields))
        self.code = code


def carry_out(command: Callable[[], Awaitable[Exit]]) -> NoReturn:
    """Run a command to its end and leave the process with its exit code.

    Ctrl-C and SIGTERM cancel the command, which cleans up before it ends.
    """
    import anyio

    signal.signal(signal.SIGTERM, _as_interrupt)
    with explained():
        code = anyio.run(command)
    # Else the interpreter's last collection searches all imported objects: half a second.
    gc.freeze()
    raise typer.Exit(code)


@contextmanager
def explained() -> Generator[None]:
    """Turn errors into one line and an exit code; Typer reports a wrong command line."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except TyperException:
        raise
    except (BaseExceptionGroup, Exception) as error:
        sys.exit(_explained(_cause(error)))


def report(problem: str, code: Exit, error: BaseException) -> None:
    """With `--json`, also write an error in the form of an `error` event."""
    from gonogo.domain.errors import GonogoError, parts_of
    from gonogo.domain.text_safety import visible_json

    words = sys.argv[1:]
    if "--json" not in words[: words.index("--") if "--" in words else None]:
        return
    ours = next((e for e in (error, error.__cause__) if isinstance(e, GonogoError)), None)
    answer = {
        "type": "error", "error": problem, "content": problem, "is_final": True,
        "code": ours.code if ours else _CODES.get(code, "failed"),
        **(parts_of(ours.said) if ours else {}), "exit_code": code,
    }  # fmt: skip
    typer.echo(visible_json(answer))


def complain(text: str) -> None:
    """Write one line about what went wrong."""
    from gonogo.cli.terminal.output import beside
    from gonogo.domain.text_safety import guarded

    typer.echo(beside(f"gonogo: {guarded(text, lines=False)}"), err=True)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's `&` makes a command ignore Ctrl-C; it must still obey SIGTERM.
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _cause(error: BaseException) -> BaseException:
    """The first error inside exception groups, in which task groups wrap their tasks' errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _explained(error: BaseException) -> Exit:
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _write_nowhere()
        return Exit.FAILED
    text, code = _told(_as_given(error))
    complain(text)
    report(text, code, error)
    return code


def _as_given(error: BaseException) -> BaseException:
    """Replace an error caused by an argument that is not UTF-8 by one that says so."""
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        from gonogo.i18n import say

        return Stop(say("cli_no_utf8", own_locale()), Exit.USAGE)
    return error


def _write_nowhere() -> None:
    """Send the remaining output to `/dev/null`, as nobody reads it any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _told(error: BaseException) -> tuple[str, Exit]:
    from pydantic import ValidationError

    from gonogo.client import Unreachable
    from gonogo.domain.errors import GonogoError, InvalidMessage, PolicyDenied

    match error:
        case Stop():
            return str(error), error.code
        case PolicyDenied():
            return said_of(error), Exit.DENIED
        case InvalidMessage():
            return said_of(error), Exit.USAGE
        case Unreachable():
            return _lost(error), Exit.FAILED
        case GonogoError():
            return _with_more(error) or type(error).__name__, Exit.FAILED
        case ValidationError():
            return _setting(error), Exit.USAGE
        case OSError():
            return _os_error(error), Exit.FAILED
        case _:
            return own_words(
                _LOGGED if _log(error) else _UNLOGGED, problem=_brief(error)
            ), Exit.FAILED


def _log(error: BaseException) -> bool:
    """Log an error if there is a log, and return whether; else the person would get the trace."""
    log = logging.getLogger(__name__)
    if log.hasHandlers():
        log.critical("internal error", exc_info=error)
    return log.hasHandlers()


def said_of(error: "GonogoError | Stop") -> str:
    """The error's text, in the user's language if the catalogue has it."""
    from gonogo.i18n import told

    return told(error.args[0], own_locale()) if error.args else str(error)


def _with_more(error: "GonogoError") -> str:
    """The error's text, and the command that lists the valid ids, or the reason."""
    from gonogo.domain.errors import Busy, NotFound
    from gonogo.i18n import told

    text = said_of(error)
    if isinstance(error, NotFound) and error.see:
        return own_words("{problem}; see {command}", problem=text, command=error.see)
    if isinstance(error, Busy) and error.reason != str(error):
        return f"{text} ({told(error.reason, own_locale())})"
    return text


def _lost(error: "Unreachable") -> str:
    from gonogo.client import NoAnswer

    if isinstance(error, NoAnswer):
        return own_words(_SILENT)
    return own_words(_GONE, problem=said_of(error))


def _setting(error: "ValidationError") -> str:
    from gonogo.domain.errors import in_words, mistake_of
    from gonogo.i18n import told

    first = error.errors(include_url=False)[0]
    name = "_".join(str(part) for part in first["loc"]).upper() or "SETTINGS"
    name = name if name.startswith(("GONOGO_", "OPENAI_")) else f"GONOGO_{name}"
    problem = told(mistake_of(first), own_locale())
    if problem == in_words(first["msg"]):
        problem = refused_value(problem, own_locale())
    said = "{name}: {problem}; correct the variable and try again"
    return own_words(said, name=name, problem=problem)


def _os_error(error: OSError) -> str:
    problem = own_words(error.strerror) if error.strerror else str(error)
    advice = _WHAT_NEXT.get(error.errno or 0)
    if error.filename:
        problem = own_words("{file}: {problem}", file=error.filename, problem=problem)
    elif advice == _OTHER_FILE:
        return problem
    return own_words(advice, problem=problem) if advice else problem


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


# How commands are declared: groups, options that several have, words that a shell completes.

# Ids for shell completion: those that the process that owns the state folder knows.
#
# If nobody owns the folder, the answer takes longer than a person waits, or anything goes wrong,
# nothing is offered. Only ids are given, and only if all their characters are harmless to a shell:
# a shell never gets text that agents wrote.

_LIMIT = 1.5
"""Seconds that the owner may take to answer."""
_MOST = 100
_MOST_COST, _MOST_SECONDS = 1e9, 10**8
_SENTENCE = 1_000
"""The maximal length, in characters, of the first sentence about a command."""
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

Ask = Callable[["Client"], Awaitable[Iterable[str]]]
Command = TypeVar("Command", bound=Callable[..., Awaitable["Exit"]])


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
        # A person who only presses Tab at a prompt gets no error message.
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
    """Return a text that is not blank.

    Raises:
        BadParameter: it is blank.
    """
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
Restored = Annotated[
    bool,
    typer.Option(
        "--accept-restored",
        help="Start even if the database has lost data, for example after a restore.",
    ),
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
    """The limits of a whole run from its options; None: no limits.

    Raises:
        Stop: a given value is no valid sum of money or time.
    """
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

    The help has a whole sentence about each command, however long the line gets.
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
        """Write the list of commands; Typer's own would cut each sentence at the line's end."""
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
    """Create a group of commands; called without a command, it shows its help.

    Args:
        completes: It is the whole program, and offers shell completion.
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


def command(
    app: typer.Typer, name: str, *examples: str, options: str = "[OPTIONS]"
) -> Callable[[Command], Command]:
    """Declare a command of a group; its function's signature and docstring give options and help.

    Args:
        options: The options in the usage line, if some are required.
    """

    def declare(carries_out: Command) -> Command:
        @wraps(carries_out)
        def run(**given: object) -> NoReturn:
            carry_out(partial(carries_out, **given))

        app.command(name, epilog=example(*examples), options_metavar=options)(run)
        return carries_out

    return declare


def example(*lines: str) -> str:
    """Examples for a help text, kept as they are written."""
    return "Example:\n\n\b\n" + "\n".join(
        "  " + line for text in lines for line in text.split("\n")
    )
