"""What a command might run, read generously: for refusing, never for allowing.

Where the closed grammar gives up, this reading goes on: into substitutions, wrappers, nested
shells and broken syntax. It may see commands that would not run; what it cannot read stays as
`UNKNOWN`.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from tree_sitter import Node

from gonogo.domain.launchers import (
    SHELLS,
    base_name,
    family,
    reads_code,
    reads_words,
    started_at,
    starts_others,
)
from gonogo.policy.shell import nodes, syntax_tree

UNKNOWN = "\ufffd"
_MAX_NESTING = 3
_MAX_SUSPECTS = 4_000
_MAX_LAUNCHES = 16
_MAX_WORDS = 24
_MAX_TREE = 65_536
_GIT_VALUED = frozenset(
    """-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source
    --super-prefix --list-cmds""".split()
)
_FIELD_SEPARATOR = re.compile(r"\$\{IFS\b[^}\s]*\}?|\$IFS\b(?:\$\d)?")
_OUR_HOME = re.compile(r"\$\{?GONOGO_HOME[^}/\s]{0,40}\}?")
_BRACED = re.compile(r"""(?<![^\s;&|(])\{([^\s{}'"]*)\}(?![^\s;&|)])""")
_IN_WORD = re.compile(
    r"""(?<![^\s;&|()])([^\s;&|(){}'"]*+)(?<!\$)\{([^\s{}'"]*,[^\s{}'"]*)\}([^\s;&|()]*)"""
)
_DESCRIPTOR = re.compile(r"\{\w+\}(?=[<>])")
_ASSIGNED = re.compile(
    r"""(?<![^\s;&|(])(?:(?P<name>[A-Za-z_]\w*)\+?=
        (?:'(?P<single>[^']{0,200})'|"(?P<double>[^"]{0,200})"|\((?P<list>[^()]{0,200})\)
          |(?P<plain>[^\s;&|()'"]{1,200}))
      | for\s+(?P<each>\w+)\s+in\s+(?P<in>[^;\n]{1,200}) | set\s+--\s+(?P<set>[^;&|\n]{1,200}))""",
    re.VERBOSE,
)
_USED = re.compile(r'"\$(?P<all>@|\{(?P<list>\w+)\[@\]\})"|\$\{?(?P<name>\w+|[@*])(?:\[[@*]\])?\}?')
_SPLIT = re.compile(r"[;&|\n()`{}]+")
_WORD = re.compile(
    r"""\$'(?P<ansi>(?:[^'\\]|\\[\s\S])*)' | '(?P<single>[^']*)'?
      | (?P<home>~(?:root)?(?=/|$)|\$HOME\b|\$\{HOME[^}]*\})
      | (?P<here>~\+(?=/|$)|\$PWD\b|\$\{PWD[^}]*\}|\$\(pwd\)|`pwd`)
      | \$\{\w+:?[-=](?P<otherwise>[^{}'"$`]*)\}
      | (?:\$\(|`)\s*(?:echo|printf)\s+(?:%s\s+)?(?P<said>[^()$`]*)[)`]
      | (?P<computed>\$\{[^}]*\}?|\$\((?:[^()]|\([^()]*\))*+\)?|\$\w+|\$[^\w\s'"/]?|`[^`]*`?)
      | \\(?P<escaped>[\s\S]) | (?P<quote>") | (?P<plain>[^'"\\$`~]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:x(?:\{0*)?([0-9a-fA-F]{1,2})\}?|([0-7]{1,3})
      |(?:u(?=[0-9a-fA-F]{1,4})|U(?=[0-9a-fA-F]))([0-9a-fA-F]{1,8})|([\s\S]))""",
    re.VERBOSE,
)
_NOTHING = re.compile(rf"(?<=\w){UNKNOWN}|{UNKNOWN}(?=\w)")
"""What is computed beside a letter, and may be nothing."""
_STARTS = re.compile(
    r"""(?:\b(?:system|popen|exec\w*|spawn\w*|shell[-\w]*|qx|syscmd|write18)\b
      | \b(?:run|call|check_\w+|getoutput|Popen|Command|cmd)\b(?=\s*\() | %x(?=[({\[]) | (?<![\w$])!
      | `|\|&?\s*(?=["']) | (?:^|(?<=[;{}\s\d$/]))e(?=\s))[\s(\[{"'`:,]{0,16}
      (?=(?P<code>[^"'`)\]}\n]{2,400}))""",
    re.VERBOSE,
)
"""Behind these, code of an interpreter or a console has a command."""
_LISTED = re.compile(r"""["']\s*,\s*["']""")
_TAIL = re.compile(r"""[=:!"']+""")
_RUN_LATER = re.compile(
    r"\w*(?:COMMAND|EDITOR|VISUAL|PAGER|BROWSER|SHELL|ENV|ASKPASS|PS\d|OPEN|SSH|RSH|DIFF)\w*="
)
"""What is set before a command, and some program or shell runs."""
_MAX_TAILS, _MAX_STARTS, _MAX_FED = 6, 64, 8
_MAX_EXPANDED = 8_192
"""Letters of a source in which variables are put in and braces are parted."""


class Suspicion(Struct, frozen=True):
    """All that a command might do, as far as one can see."""

    commands: tuple[tuple[str, ...], ...]
    """Candidate argvs, the program by its base name."""
    targets: tuple[str, ...]
    """Files that redirections might write."""


def suspect(text: str) -> Suspicion:
    """Everything that `text` might run or write."""
    commands: list[tuple[str, ...]] = []
    targets: list[str] = []
    pending = [(source, 0) for source in _joined(text)]
    while pending and len(commands) < _MAX_SUSPECTS:
        source, depth = pending.pop()
        found, written, fed, given = _read(source)
        targets += written
        for argv in found:
            commands += _unwrapped(argv)
        if depth < _MAX_NESTING:
            code = (*_code(found, fed), *_tails(given))
            inner = (source for each in code for source in _joined(each))
            pending += [(source, depth + 1) for source in dict.fromkeys(inner)]
    return Suspicion(tuple(dict.fromkeys(commands)), tuple(dict.fromkeys(targets)))


def loose_text(source: str) -> str:
    """A word's text as well as one can tell; `~` for the home folder."""
    return _NOTHING.sub("", "".join(_loose_piece(found) for found in _WORD.finditer(source)))


def _joined(source: str) -> Iterator[str]:
    """The text as it stands, and with the lines joined and the words parted as bash does it."""
    yield source
    joined = _DESCRIPTOR.sub("", source.replace("\\\n", "").replace('$"', '"'))
    parted = _BRACED.sub(lambda found: found[1].replace(",", " "), joined)
    found = [joined, parted]
    if len(source) <= _MAX_EXPANDED and not {"$", "{"}.isdisjoint(joined):
        found += [_parted_words(parted), _put_in(joined)]
    yield from dict.fromkeys(text for text in found if text != source)


def _parted_words(source: str) -> str:
    """The text with `a{b,c}` as `ab ac`; of what stands in braces again, a part."""
    for _ in range(2):
        source = _IN_WORD.sub(
            lambda found: " ".join(f"{found[1]}{each}{found[3]}" for each in found[2].split(",")),
            source,
        )
    return source


def _put_in(source: str) -> str:
    """The text with the variables put in that it sets itself."""
    values: dict[str, str] = {}
    for found in _ASSIGNED.finditer(source):
        name = found["name"] or found["each"] or "@"
        values[name] = found[found.lastgroup or 0]

    def value(found: re.Match[str]) -> str:
        name = found["list"] or found["name"] or "@"
        return values.get("@" if name == "*" else name, found[0])

    return _USED.sub(value, _USED.sub(value, source)) if values else source


def _read(source: str) -> tuple[list[tuple[str, ...]], list[str], list[str], list[str]]:
    """The commands in the text, the files that it writes, what it feeds and gives to programs."""
    source = _OUR_HOME.sub(".gonogo", _FIELD_SEPARATOR.sub(" ", source))
    if len(source) > _MAX_TREE:
        return [_split(part) for part in _SPLIT.split(source) if part.strip()], [], [], []
    data = source.encode("utf-8", "replace")
    commands: list[tuple[str, ...]] = []
    targets: list[str] = []
    fed: list[str] = []
    given: list[str] = []
    for node in nodes(syntax_tree(source)):
        if node.type == "command":
            commands += _argvs(node, data)
            given += filter(_RUN_LATER.match, (_text(child, data) for child in node.children))
        elif node.type == "file_redirect":
            targets += [_text(child, data) for child in node.children if child.is_named]
        elif node.type == "herestring_redirect":
            fed += [_text(child, data) for child in node.children if child.is_named]
        elif node.type == "heredoc_body":
            fed.append(data[node.start_byte : node.end_byte].decode("utf-8", "replace"))
        elif node.type in ("declaration_command", "test_command", "ERROR"):
            commands.append(
                _split(data[node.start_byte : node.end_byte].decode("utf-8", "replace"))
            )
    return [argv for argv in commands if argv], targets, fed, given


def _argvs(command: Node, data: bytes) -> Iterator[tuple[str, ...]]:
    """The words of a command; those after a line's end, which a tree may lose, as another one."""
    skipped = ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect")
    argv: list[str] = []
    end = command.start_byte
    for child in command.children:
        if b"\n" in data[end : child.start_byte].replace(b"\\\n", b""):
            yield tuple(argv)
            argv = []
        end = child.end_byte
        if child.type not in skipped:
            argv.append(_text(child, data))
    yield tuple(argv)


def _text(node: Node, data: bytes) -> str:
    return loose_text(data[node.start_byte : node.end_byte].decode("utf-8", "replace"))


def _split(source: str) -> tuple[str, ...]:
    return tuple(loose_text(word) for word in source.split())


def _loose_piece(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "ansi":
            return _ESCAPE.sub(_escaped, found["ansi"]).partition("\0")[0]
        case "home":
            return "~"
        case "here":
            return "."
        case "computed":
            return UNKNOWN
        case "quote":
            return ""
        case "escaped":
            return found["escaped"].strip("\n")
        case "said":
            return loose_text(found["said"])
        case group:
            return found[group or 0]


def _escaped(found: re.Match[str]) -> str:
    hexadecimal, octal, unicode, other = found.groups()
    if other is not None:
        return other
    code = int(octal, 8) & 0xFF if octal else int(hexadecimal or unicode, 16)
    return chr(min(code, sys.maxunicode))


def _unwrapped(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command itself, and each command that it would start for somebody else."""
    named = (base_name(argv[0]), *argv[1:])
    yield named
    if named[0] == "git":
        yield _without_git_options(named)
    for start in started_at(argv[:_MAX_WORDS]):
        yield (base_name(argv[start]), *argv[start + 1 :])
    launches = _launches(argv)
    ends = [*launches[1:], None][: len(launches)]
    for number, (position, following) in enumerate(zip(launches, ends, strict=True)):
        # Each may go on to the end; where there are very many, only to the next.
        end = None if number < _MAX_LAUNCHES else following
        rest = argv[position + 2 : end]
        ended = next((n for n, word in enumerate(rest) if word in (";", "+")), None)
        yield (base_name(argv[position + 1]), *rest[:ended])


def _launches(argv: tuple[str, ...]) -> list[int]:
    """Where options stand behind which a command follows."""
    program = family(argv[0])
    return [n for n, word in enumerate(argv[:-1]) if n and starts_others(word, program)]


def _without_git_options(argv: tuple[str, ...]) -> tuple[str, ...]:
    rest = list(argv[1:])
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GIT_VALUED else 1]
    return ("git", *rest)


def _code(commands: Iterable[tuple[str, ...]], fed: Sequence[str]) -> Iterator[str]:
    """What some program among the commands would read as commands."""
    found = [(*argv,) for argv in commands]
    for argv in found:
        launches = _launches((*argv, ""))
        yield from (argv[n].partition("=")[2] for n in launches if "=" in argv[n])
        if launches or reads_words(argv[0]):
            yield from _tails(argv[1:])
        elif argv[0] == "git":
            yield from _tails(argv[n] for n in started_at(argv[:_MAX_WORDS]))
    yield from _started(found, fed)
    yield from _completed(found)
    shells = {word for argv in found for word in argv[:6] if _is_shell(word)}
    if not shells and not any(argv[0] in (".", "source") for argv in found):
        return
    yield from fed
    for argv in found:
        if base_name(argv[0]) in ("eval", "echo", "printf") or not shells.isdisjoint(argv):
            yield " ".join(word for word in argv[1:] if not word.startswith("-"))
            yield from filter(_has_blank, argv[1:])


def _started(found: Sequence[tuple[str, ...]], fed: Sequence[str]) -> Iterator[str]:
    """What code in the words of interpreters and consoles starts, and in what they are fed."""
    told = [word for argv in found if reads_code(argv[0]) for word in (*argv[1:], *fed)]
    for text in dict.fromkeys(told):
        starts = _STARTS.finditer(_LISTED.sub(" ", text))
        yield from (start["code"] for start in islice(starts, _MAX_STARTS))


def _completed(found: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """What xargs makes of the words that it is fed."""
    said = [argv[1:] for argv in found if base_name(argv[0]) in ("echo", "printf")][:_MAX_FED]
    for argv in found if said else ():
        if family(argv[0]) in ("xargs", "parallel"):
            yield from (" ".join((*argv, *words)) for words in said)


def _is_shell(word: str) -> bool:
    return family(word) in SHELLS or base_name(word) in ("eval", "su")


def _tails(words: Iterable[str]) -> Iterator[str]:
    """Words that may be whole commands, and what follows in them behind an option or a name."""
    for word in filter(_has_blank, words):
        yield word
        head = word.split(None, 1)[0]
        yield from (word[end.end() :] for end in islice(_TAIL.finditer(head), _MAX_TAILS))
        if word.startswith("-") and not word.startswith("--"):
            yield from (word[n:] for n in (2, 3))


def _has_blank(word: str) -> bool:
    return re.search(r"\s", word) is not None
