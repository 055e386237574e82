"""Where a command of the operator's has room for the paths of files: `{files}`, `{files:*.py}`.

The names of files are an agent's, and the command is run by bash. Each comes as a quoted word, so
it is one only where bash does not read within quotes already: `bash -c "lint {files}"` would run
what a name says.
"""

import re
from collections.abc import Collection, Iterator

from gonogo.domain.errors import because

FILES = re.compile(r"\{files(?::([^{}]*))?\}")
"""What stands for the paths of the files, or of those whose names match one of the globs."""
_ANY = "{files"
_HERE = re.compile(r"(?<!<)<<(?!<)")
_BEFORE_COMMENT = " \t\n;&|()"
_PAIRS = ("$'", "$(", "${")
_CLOSERS = {"'": "'", "$'": "'", '"': '"', "`": "`", "(": ")", "{": "}", "#": "\n"}
"""What ends what a sign began."""


def files_problem(command: str) -> str | None:
    """Why names of files cannot be put into a command of bash; None where they can."""
    found = {match.start(): match.end() for match in FILES.finditer(command)}
    for at in _places(command, _ANY):
        if at not in found:
            shown = command[at : at + 40].split("\n", 1)[0]
            return because(
                "{shown!r} is not understood: write {{files}}, or {{files:*.ts,*.tsx}}", shown=shown
            )
    bare = _bare(command, found)
    for at in found:
        if at not in bare:
            return because(
                "{shown} must stand by itself, outside quotes, backquotes and "
                "here-documents, and not after $ or \\: there, bash would run a file's "
                "name as code",
                shown=command[at : found[at]],
            )
    return None


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _bare(command: str, found: dict[int, int]) -> set[int]:
    """Which of some places bash reads as code, neither escaped nor within anything."""
    bare: set[int] = set()
    within: list[str] = []
    at, until = 0, _end_of_code(command)
    while at < until:
        if at in found:
            bare.update({at} if set(within) <= {"("} and command[at - 1 : at] != "$" else ())
            at = found[at]
            continue
        sign = _sign(command, at, within[-1:])
        if within and sign == _CLOSERS[within[-1]]:
            within.pop()
        elif sign in _opened_by(within[-1:]) and _is_word_start(command, at, sign):
            within.append(sign.lstrip("$") if sign != "$'" else sign)
        at += len(sign)
    return bare


def _sign(command: str, at: int, innermost: list[str]) -> str:
    """What stands at a place: a character, one with a backslash, or two that belong together."""
    two = command[at : at + 2]
    if two[:1] == "\\" and innermost not in (["'"], ["#"]):
        return two
    return two if two in _PAIRS and two in _opened_by(innermost) else two[:1]


def _opened_by(innermost: list[str]) -> Collection[str]:
    """What begins something within what holds a place."""
    match innermost:
        case ["'" | "$'" | "#"]:
            return ()
        case ['"']:
            return ("$(", "${", "`")
        case _:
            return ("'", '"', "`", "#", "(", *_PAIRS)


def _is_word_start(command: str, at: int, sign: str) -> bool:
    """Whether a sign means what it says: `#` begins a comment only where a word could begin."""
    return sign != "#" or at == 0 or command[at - 1] in _BEFORE_COMMENT


def _end_of_code(command: str) -> int:
    """Where the first here-document begins: nothing is told apart from there on."""
    here = _HERE.search(command)
    end = command.find("\n", here.end()) if here is not None else -1
    return len(command) if end < 0 else end
