"""The answer of a run in a file: as text, or as JSON that fits a schema.

What agents work at says nothing of the schema. When the work is done, an agent that only reads is
asked for the answer as JSON of it, and asked again with what did not fit, a few times and no more.
"""

import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from gonogo.cli.language import own_locale
from gonogo.cli.session.conversation import Conversation
from gonogo.cli.support import Exit, Stop, complain, said_of
from gonogo.domain.errors import GonogoError
from gonogo.domain.strict_json import loads
from gonogo.i18n import say
from gonogo.tools.schemas import MOST, AnswerSchema

TRIES = 3
"""How often the answer is asked for."""
_READER = "ask"
_LONGEST_NAME = 255
_MODE = 0o666
"""Of a new file, less what the umask takes."""
_FENCE = "```"


class AnswerFile(Struct, frozen=True, kw_only=True):
    """Where the answer of a run goes, and what it has to be."""

    file: Path
    schema: AnswerSchema | None = None
    """None: the answer is text."""

    @classmethod
    def of(cls, schema: Path | None, file: Path | None) -> "AnswerFile | None":
        """What the options of a command ask for.

        Raises:
            Stop: the schema is none, or there is no file for the answer, or none can be made there.
        """
        if file is None:
            if schema is not None:
                raise Stop(say("cli_output_where", own_locale()), Exit.USAGE)
            return None
        if not _can_be_written(file):
            raise Stop(say("cli_output_no_place", own_locale(), file=file), Exit.USAGE)
        return cls(file=file, schema=None if schema is None else _schema_in(schema))

    def fitting(self, text: str) -> str:
        """A text as it is written into the file.

        Raises:
            Misfit: it is not what the schema says.
        """
        if self.schema is None:
            return text.rstrip("\n") + "\n"
        try:
            value = loads(_bare(text))
            problems = self.schema.problems_of(value)
        except GonogoError as error:
            raise Misfit(str(error)) from None
        if problems:
            raise Misfit("\n".join(problems))
        return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

    def write(self, text: str) -> None:
        """Have the file hold a text, at once and whole; a device or a pipe is written to.

        A file that is there keeps its permissions.
        """
        file = Path(os.path.realpath(self.file))
        if self.file.exists() and not self.file.is_file():
            self.file.write_text(text, encoding="utf-8")
            return
        beside = file.with_name(f".gonogo-{os.getpid()}")
        kept = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
        opener = partial(os.open, mode=_MODE if kept is None else kept)
        with open(beside, "w", encoding="utf-8", opener=opener) as to:
            if kept is not None:
                os.fchmod(to.fileno(), kept)
            to.write(text)
        beside.replace(file)


class Misfit(Exception):
    """An answer is not what the schema says; the text says where."""


async def write_answer(
    talk: Conversation, ended: Exit, wanted: AnswerFile, locale: str, *, until: float
) -> Exit:
    """Write what a run came to into a file. Gives the exit code: 0 only where it was written.

    Args:
        until: When the time of the run is over, by the clock of the event loop. The limit of the
            session ends only what is under way at that moment; nothing is asked after it.
    """
    if not talk.outcome.is_done:
        complain(say("cli_output_none", own_locale(), file=wanted.file))
        return ended or Exit.FAILED
    asked, problem = 0, ""
    while True:
        try:
            wanted.write(wanted.fitting(talk.outcome.answer))
        except Misfit as misfit:
            problem = str(misfit)
        else:
            return ended
        if asked == TRIES:
            said = say("cli_output_misfit", own_locale(), file=wanted.file, count=TRIES)
            complain(f"{said} {'; '.join(problem.splitlines())}")
            return Exit.FAILED
        with anyio.CancelScope(deadline=until) as left:
            ended = await talk.carry(_request(wanted, problem if asked else "", locale))
        asked += 1
        if left.cancelled_caught or not talk.outcome.is_done:
            complain(say("cli_output_none", own_locale(), file=wanted.file))
            return Exit.FAILED if left.cancelled_caught else ended or Exit.FAILED


def _request(wanted: AnswerFile, problem: str, locale: str) -> dict[str, Any]:
    key = "model_output_again" if problem else "model_output_asked"
    said = say(key, locale, schema=wanted.schema, problem=problem)
    return {"type": "user_message", "content": said, "agent_type": _READER}


def _can_be_written(file: Path) -> bool:
    """Whether a file is there that can be written, or can be made."""
    if os.path.isdir(file):
        return False
    if os.path.exists(file) and not os.path.isfile(file):
        return os.access(file, os.W_OK)
    folder, name = os.path.split(os.path.realpath(file))
    fits = len(os.fsencode(name)) <= _LONGEST_NAME and not os.path.islink(
        os.path.join(folder, name)
    )
    return fits and os.access(folder, os.W_OK | os.X_OK)


def _schema_in(file: Path) -> AnswerSchema:
    try:
        with file.open("rb") as opened:
            # A device may never end; one byte more than may be is too many.
            return AnswerSchema(opened.read(MOST + 1))
    except GonogoError as error:
        said = say("cli_output_no_schema", own_locale(), file=file, detail=said_of(error))
        raise Stop(said, Exit.USAGE) from None


def _bare(text: str) -> str:
    """A text without the fence that models like to put around JSON."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        return text.partition("\n")[2].removesuffix(_FENCE)
    return text
