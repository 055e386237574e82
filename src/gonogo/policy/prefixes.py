"""Which beginnings of commands a rule or a plan may allow: none that would allow anything."""

import re
from collections.abc import Sequence

from gonogo.domain.errors import because
from gonogo.domain.launchers import (
    CONSOLES,
    FAR_RUNNERS,
    HOSTS,
    INTERPRETERS,
    MODULES,
    RUNNERS,
    SHELLS,
    TAKE_ANY,
    WRAPPERS,
    base_name,
    family,
    starts_others,
)
from gonogo.policy.shell import ParsedCommand, parse_command

_FLAGS = frozenset(
    """-q --quiet -v --verbose -y --yes --silent --offline --frozen --locked --isolated --no-sync
    --no-install --all-extras""".split()
)
"""Options of package tools that take no value; behind another, no word is surely the program."""
_FARTHER = frozenset({"exec", "dlx"})
"""Behind these a program follows, whatever stands before them: `yarn workspace a exec`."""
_NETWORK = frozenset(
    """curl wget nc ncat netcat socat telnet ftp sftp scp rsync ping ping6 nslookup dig host
    traceroute whois http https httpie xh""".split()
)


def read_prefix(written: str) -> tuple[str, ...] | str:
    """Read the beginning of a command as words; a final `*` may be left out.

    Returns:
        The words, or why such a beginning may not be allowed.
    """
    words = plain_prefix(written)
    if isinstance(words, str):
        return words
    return too_broad(words) or words


def plain_prefix(written: str) -> tuple[str, ...] | str:
    """Read the beginning of a command as words, whatever it would allow."""
    command = parse_command(re.sub(r"\s\*\s*$", "", written))
    if not isinstance(command, ParsedCommand) or len(command.parts) != 1:
        return because("{written!r} is not one simple command", written=written)
    part = command.parts[0]
    if part.redirects or part.negated or any(word.is_glob for word in part.words):
        return because("{written!r} is not plain words", written=written)
    return part.argv


def too_broad(words: Sequence[str]) -> str | None:
    """Why allowing everything that begins with `words` would allow anything at all."""
    program, rest = base_name(words[0]), words[1:]
    if program != words[0]:
        return because("name the program {program!r} without its folder", program=program)
    kind = family(program)
    if kind in WRAPPERS | HOSTS | CONSOLES:
        return because("{program!r} runs other commands", program=program)
    if program in _NETWORK and not rest:
        return because("{program!r} reaches the network: name what it may be told", program=program)
    if kind in SHELLS | INTERPRETERS and (open_ended := _unnamed(kind, program, rest)):
        return open_ended
    return _starting_option(kind, program, rest) or _launched(kind, program, rest)


def _unnamed(kind: str, program: str, rest: Sequence[str]) -> str | None:
    """Why nobody can tell what code a shell, an interpreter or a builder would run."""
    if list(rest[:1]) == ["-m"] and (len(rest) == 1 or (len(rest) == 2 and rest[1] in MODULES)):
        return because("{program!r} runs any module: name which", program=program)
    named = rest and (not rest[0].startswith("-") or rest[0] in ("-m", "-jar"))
    if not named or (len(rest) == 1 and rest[0] in RUNNERS.get(kind, ())):
        return because("{program!r} runs any code: name what", program=program)
    return None


def _starting_option(kind: str, program: str, rest: Sequence[str]) -> str | None:
    for number, word in enumerate(rest):
        # The first word of tar is letters of options, with a dash and without.
        bundled = kind == "tar" and number == 0
        if starts_others(word, kind) or (bundled and starts_others(f"-{word}", kind)):
            return because(
                "{option!r} of {program!r} runs other commands", option=word, program=program
            )
    return None


def _launched(kind: str, program: str, rest: Sequence[str]) -> str | None:
    """Why it is not known, or too much, what a runner of other programs would run."""
    far = FAR_RUNNERS.get(kind)
    if far is not None and (not rest or not far.isdisjoint(rest)):
        return because("{program!r} runs other commands", program=program)
    if kind not in RUNNERS:
        return None
    inner = list(rest)
    while inner and (inner[0] in RUNNERS[kind] or inner[0] in _FLAGS):
        del inner[0]
    if kind == "coverage" and inner[:1] == ["-m"]:
        return too_broad(["python", *inner])
    if not inner or not _FARTHER.isdisjoint(inner):
        return because("{program!r} runs other commands: name which", program=program)
    if inner[0].startswith("-"):
        return because(
            "{program!r} runs other commands: name which, without {option!r} before it",
            program=program,
            option=inner[0],
        )
    verbs = RUNNERS[kind]
    told = not verbs or not verbs.isdisjoint(rest[: len(rest) - len(inner)])
    return too_broad(inner) if told or kind in TAKE_ANY else None
