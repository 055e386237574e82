"""How a command ends: its exit code, and one line for what went wrong."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, cast

import typer

from gonogo.cli.language import own_locale, own_words, refused_value

if TYPE_CHECKING:
    from pydantic import ValidationError

    from gonogo.domain.errors import GonogoError


_GONE = "{problem}. The process that did the work has ended. Continue with: gonogo attach"
_LOGGED = (
    "internal error: {problem}; please report it with the last lines of gonogo.log in GONOGO_HOME"
)
_UNLOGGED = "internal error: {problem}; please report it"
_CODES = {2: "usage", 3: "waits", 4: "policy_denied"}
"""What a program is told of errors that have no code of their own, by their exit code."""


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
        """Take the text in English, as the catalogue has it, or one that is translated already."""
        super().__init__(own_words(text, **fields))
        self.code = code


def carry_out(command: Callable[..., Awaitable[Exit]], *args: object) -> NoReturn:
    """Run a command to its end and leave the process with its exit code.

    Ctrl-C and SIGTERM cancel the command, which cleans up before it ends.
    """
    import anyio

    signal.signal(signal.SIGTERM, _as_interrupt)
    with explained():
        code = anyio.run(command, *args)
    # Else the interpreter looks through everything that was imported before it ends: half a second.
    gc.freeze()
    raise typer.Exit(code)


@contextmanager
def explained() -> Generator[None]:
    """Turn what goes wrong into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except (BaseExceptionGroup, Exception) as error:
        sys.exit(_explained(_cause(error)))


def report(problem: str, code: Exit, error: BaseException) -> None:
    """Answer a program that wants JSON with what went wrong, in the form of an `error` event."""
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
    signal.raise_signal(signal.SIGINT)


def _cause(error: BaseException) -> BaseException:
    """The first error that says something: task groups wrap what their tasks raise."""
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
    """What is wrong with an argument that is not UTF-8, where that is what an error comes of."""
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        from gonogo.i18n import say

        return Stop(say("cli_no_utf8", own_locale()), Exit.USAGE)
    return error


def _write_nowhere() -> None:
    """Nobody reads any more; what is still to be written as the process ends goes nowhere."""
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
            return own_words(_GONE, problem=said_of(error)), Exit.FAILED
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
    """Whether there is a log that it went to; without one the trace would go to the person."""
    log = logging.getLogger(__name__)
    if log.hasHandlers():
        log.critical("internal error", exc_info=error)
    return log.hasHandlers()


def said_of(error: "GonogoError | Stop") -> str:
    """What an error says, in the user's language where the catalogue has it."""
    from gonogo.i18n import told

    return told(error.args[0], own_locale()) if error.args else str(error)


def _with_more(error: "GonogoError") -> str:
    """The text, and which command has the ids that it could have been, or why it is so."""
    from gonogo.domain.errors import Busy, NotFound
    from gonogo.i18n import told

    text = said_of(error)
    if isinstance(error, NotFound) and error.see:
        return own_words("{problem}; see {command}", problem=text, command=error.see)
    if isinstance(error, Busy) and error.reason != str(error):
        return f"{text} ({told(error.reason, own_locale())})"
    return text


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
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{own_words(error.strerror) if error.strerror else error}"


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
