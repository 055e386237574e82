"""Shell commands, read by a closed grammar: everything outside it counts as not understood.

The grammar has literal words, quotes without expansion, globs after a literal start, `&&`, `||`,
`;`, `|`, new lines, `!`, comments, and redirection to or from `/dev/null` or between standard
output and error. tree-sitter finds the structure; each word is read again from its own source, and
the tokens must cover the whole input. Only `ParsedCommand.render()` runs, never the input: so if
bash reads the input differently, nothing runs that was not judged.
"""

import glob
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import tree_sitter_bash
from msgspec import Struct
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from gonogo.domain.commands import (
    CALLERS,
    SHELLS,
    base_name,
    family,
    here,
    reads_code,
    reads_words,
    started_at,
    starts_others,
)
from gonogo.domain.errors import because
from gonogo.domain.paths import doubtful, spoofing

# Words of a command, read from their source and written again so that bash reads the same words.
#
# A word is known completely or not at all: quotes without expansion, escapes and globs are read;
# everything that the shell would compute is refused.

_BARE = re.compile(r"[A-Za-z0-9_@%+:,./-]+")
_RESERVED = frozenset(
    """if then else elif fi case esac for select while until do done in function time coproc
    declare typeset export readonly local let unset eval exec source""".split()
)
_TOKEN = re.compile(
    r"""
      '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\[\s\S]|\$(?=["\s|)]))*)"
    | \\(?P<escaped>[\s\S])
    | (?P<glob>[*?]|\[[!^]?[A-Za-z0-9_.-]+\])
    | (?P<plain>[^\s'"\\$`;&|<>()*?\[]+)
    """,
    re.VERBOSE,
)
_IN_DOUBLE = re.compile(r"\\([$`\"\\\n])")
_OPTION_VALUE = re.compile(r"--[a-z][a-z-]*=")
_TILDE = re.compile(r"(?:^|[=:])~")


class Piece(Struct, frozen=True):
    """A run of characters: literal, or a pattern that the shell matches against names."""

    text: str
    pattern: bool = False


class Word(Struct, frozen=True):
    """One word of argv; with a pattern, it stands for all matching names."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The word's characters, patterns as written."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def is_glob(self) -> bool:
        """Whether the shell may replace it by several words."""
        return any(piece.pattern for piece in self.pieces)

    @property
    def pattern(self) -> str:
        """The word as a pattern for Python's glob."""
        return "".join(
            piece.text.replace("[^", "[!") if piece.pattern else glob.escape(piece.text)
            for piece in self.pieces
        )

    def render(self) -> str:
        """The word as bash source that means exactly this word."""
        if not self.pieces:
            return "''"
        return "".join(p.text if p.pattern else quote(p.text) for p in self.pieces)


def literal(text: str) -> Word:
    """A word without patterns."""
    return Word((Piece(text),) if text else ())


def quote(text: str) -> str:
    """Bash source of `text`, quoted unless every shell reads it the same without quotes."""
    if _BARE.fullmatch(text) and text not in _RESERVED:
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def read_word(source: str) -> Word | str:
    """Read one word from its source; a reason if the shell would compute the word."""
    if _BARE.fullmatch(source):
        return literal(source)
    pieces: list[Piece] = []
    unquoted = ""
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            return because("{text!r} is computed by the shell", text=source[at : at + 12])
        piece, bare = _piece(found)
        pieces.append(piece)
        unquoted += bare
        at = found.end()
    if _braces(unquoted) or _TILDE.search(unquoted):
        return because("{text!r} is expanded by the shell", text=source[:40])
    return _word(pieces)


def _braces(text: str) -> bool:
    """Whether there are braces that the shell would expand to several words."""
    inner = text.partition("{")[2].rpartition("}")[0]
    return "," in inner or ".." in inner


def _piece(found: re.Match[str]) -> tuple[Piece, str]:
    """The piece, and its unquoted text (a space for quoted text)."""
    match found.lastgroup:
        case "single":
            return Piece(found["single"]), " "
        case "double":
            return Piece(_IN_DOUBLE.sub(_unescaped, found["double"])), " "
        case "escaped":
            return Piece("" if found["escaped"] == "\n" else found["escaped"]), " "
        case "glob":
            return Piece(found["glob"], pattern=True), "*"
        case _:
            return Piece(found["plain"]), found["plain"]


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _word(pieces: list[Piece]) -> Word | str:
    text = "".join(piece.text for piece in pieces)
    if not any(piece.pattern for piece in pieces):
        return literal(text)
    if _OPTION_VALUE.match(text) and not pieces[0].pattern:
        # `--include=*.py` names no file, so it is literal, as in bash if nothing matches.
        return literal(text)
    if text.startswith("-"):
        return because("{text!r} could match a name that starts with '-'", text=text)
    if pieces[0].pattern:
        return because("{text!r} could match a name that starts with '-'", text=text)
    if ".." in text.split("/"):
        return because("{text!r} mixes a pattern and '..'", text=text)
    return Word(_merged(pieces))


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    merged: list[Piece] = []
    for piece in pieces:
        if merged and not piece.pattern and not merged[-1].pattern:
            merged[-1] = Piece(merged[-1].text + piece.text)
        else:
            merged.append(piece)
    return tuple(merged)


MAX_LENGTH = 8_192
MAX_PARTS = 32

_LANGUAGE = Language(tree_sitter_bash.language())
_CONTAINERS = frozenset({"program", "list", "pipeline", "redirected_statement", "negated_command"})
_OPERATORS = frozenset({"&&", "||", ";", "|"})
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
_REDIRECT = re.compile(r"(?:[12]?(?:>>?|>\|)|&>>?|<)[ \t]*/dev/null|2>&1|1?>&2")


class Simple(Struct, frozen=True):
    """One program with its arguments, without quotes."""

    words: tuple[Word, ...]
    redirects: tuple[str, ...] = ()
    """`>/dev/null`, `2>&1` and the like, as bash source."""
    negated: bool = False
    joined_by: str = ""
    """The operator before it; empty for the first."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words' texts."""
        return tuple(word.text for word in self.words)

    def render(self) -> str:
        """The canonical source of this part, without its operator."""
        words = [word.render() for word in self.words]
        return " ".join([*(["!"] if self.negated else []), *words, *self.redirects])


class ParsedCommand(Struct, frozen=True):
    """A command that was understood completely; its parts in order."""

    parts: tuple[Simple, ...]

    def render(self) -> str:
        """The command as it is run: each word quoted, one line, no comments."""
        return "".join(_joined(part) for part in self.parts)


class Unparsed(Struct, frozen=True):
    """A command that is outside the grammar, with the first reason that was found."""

    reason: str


def parse_command(text: str) -> ParsedCommand | Unparsed:
    """Read a command by the closed grammar."""
    if len(text) > MAX_LENGTH:
        return Unparsed(because("longer than {most} characters", most=MAX_LENGTH))
    odd = spoofing(text) or doubtful(text)
    if odd:
        return Unparsed(because("contains {odd}", odd=odd))
    try:
        return ParsedCommand(tuple(_TreeReader(text).parts()))
    except _NotUnderstood as why:
        return Unparsed(why.reason)


def syntax_tree(text: str) -> Node:
    """tree-sitter's tree of `text`, whatever it is; offsets are of UTF-8 bytes."""
    # For bash these bytes are letters. For some of them the parser reads beyond the end of the
    # table of C's `isalnum`, and the process crashes.
    letters = _NOT_ASCII.sub(b"x", text.encode("utf-8", "replace"))
    return Parser(_LANGUAGE).parse(letters).root_node


def nodes(root: Node) -> Iterator[Node]:
    """Every node below `root`, in the order of the source, without recursion."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


class _NotUnderstood(Exception):
    """The input leaves the grammar; the reason says where."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _require(ok: bool, otherwise: str, /, **fields: object) -> None:
    """Leave the grammar unless `ok`. Some checks only matter if tree-sitter should change."""
    if not ok:
        raise _NotUnderstood(because(otherwise, **fields))


class _TreeReader:
    """Goes through one tree, and keeps track of how much of the input it has covered."""

    def __init__(self, text: str) -> None:
        self._source = text.encode()
        self._root = syntax_tree(text)
        self._covered = 0
        self._operator: str | None = None
        self._negated = False
        self._parts: list[Simple] = []

    def parts(self) -> list[Simple]:
        _require(not self._root.has_error, "not valid shell syntax, or syntax that is not known")
        pending = [self._root]
        while pending:
            node = pending.pop()
            if node.type in _CONTAINERS:
                pending.extend(reversed(node.children))
            else:
                self._take(node)
        self._finish()
        return self._parts

    def _take(self, node: Node) -> None:
        match node.type:
            case "command":
                self._command(node)
            case "file_redirect":
                self._redirect(node)
            case "comment":
                self._skip(node, lines=True)
            case "!":
                self._negate(node)
            case kind if kind in _OPERATORS:
                self._operate(node)
            case kind:
                _require(False, "uses {kind!r}, which gonogo does not parse", kind=kind)

    def _command(self, node: Node) -> None:
        _require(len(self._parts) < MAX_PARTS, "has more than {most} parts", most=MAX_PARTS)
        gap = self._gap(node, lines=True)
        if not self._negated:
            self._begin(gap)
        words = tuple(self._words(node))
        self._parts.append(Simple(words, (), self._negated, self._operator or ""))
        self._operator, self._negated = None, False

    def _begin(self, gap: str) -> None:
        if self._parts and self._operator is None:
            _require("\n" in gap, "two commands without an operator")
            self._operator = ";"

    def _words(self, command: Node) -> Iterator[Word]:
        self._covered = command.start_byte
        for number, child in enumerate(command.children):
            gap = self._gap(child, lines=False)
            _require(not number or gap != "", "words without a space between them")
            source = self._slice(child.start_byte, child.end_byte)
            _require(not source.endswith("\\\n"), "a word that continues on the next line")
            word = read_word(source)
            if isinstance(word, str):
                raise _NotUnderstood(word)
            plain = child.type == "command_name" and not word.is_glob
            _require(number > 0 or plain, "the program's name is not plain")
            self._covered = child.end_byte
            yield word

    def _redirect(self, node: Node) -> None:
        # In `2>` the digit is not part of a word, in `x2>` it is; tree-sitter may confuse them.
        after = self._source[: self._covered][-1:]
        gap = self._skip(node, lines=False)
        _require(gap != "" or not (after.isdigit() or after == b"}"), "a word before '>'")
        source = self._slice(node.start_byte, node.end_byte)
        known = _REDIRECT.fullmatch(source) and self._parts and self._operator is None
        _require(bool(known), "redirects: {text!r}", text=source[:40])
        canonical = re.sub(r"[ \t]|\|", "", source)
        part = self._parts[-1]
        self._parts[-1] = replace(part, redirects=(*part.redirects, canonical))

    def _negate(self, node: Node) -> None:
        gap = self._skip(node, lines=True)
        # `!x` is a word, even if the `x` is quoted.
        apart = self._source[node.end_byte : node.end_byte + 1].isspace()
        _require(apart, "'!' without a space before the next word")
        _require(self._operator != "|" and not self._negated, "'!' inside a pipeline")
        self._begin(gap)
        self._negated = True

    def _operate(self, node: Node) -> None:
        self._skip(node, lines=False)
        follows = self._parts and self._operator is None and not self._negated
        _require(bool(follows), "{operator!r} without a command before it", operator=node.type)
        self._operator = node.type

    def _finish(self) -> None:
        rest = self._slice(self._covered, len(self._source))
        _require(not rest.strip(" \t\n"), "text that belongs to no command")
        complete = not self._negated and self._operator in (None, ";")
        _require(complete, "an operator without a command after it")

    def _skip(self, node: Node, *, lines: bool) -> str:
        gap = self._gap(node, lines=lines)
        self._covered = node.end_byte
        return gap

    def _gap(self, node: Node, *, lines: bool) -> str:
        """The text between the covered part and `node`: it may have only spaces."""
        gap = self._slice(self._covered, node.start_byte)
        blank = (_LINES if lines else _BLANKS).fullmatch(gap)
        _require(blank is not None, "text that belongs to no command")
        # Bash joins words that only a continued line separates; tree-sitter does not.
        _require(
            not gap or gap.strip("\\\n") != "" or "\\" not in gap,
            "parts without a space between them",
        )
        return gap

    def _slice(self, start: int, end: int) -> str:
        return self._source[start:end].decode()


def _joined(part: Simple) -> str:
    before = {"": "", ";": "; "}.get(part.joined_by, f" {part.joined_by} ")
    return before + part.render()


# What a command might run, read generously: to refuse commands, never to allow them.
#
# Where the closed grammar gives up, this reader continues: into substitutions, wrappers, nested
# shells and broken syntax. It may find commands that would not run. Text that it cannot read
# becomes `UNKNOWN`.

UNKNOWN = "\ufffd"
_SETS = "variable_assignment"
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
"""A computed text beside a letter, which may be empty."""
_STARTS, _CALLED = (
    re.compile(rf"""(?x)(?:\b(?:system|popen|exec\w*|spawn\w*|shell[-\w]*|qx|syscmd|write18)\b{behind}
      | \b(?:run|call|check_\w+|getoutput|Popen|Command|cmd)\b(?=\s*\() | %x(?=[({{\[])|(?<![\w$])!
      | `|\|&?\s*(?=["']) | (?:^|(?<=[;{{}}\s\d$/]))e(?=\s))[\s(\[{{"'`:,]{{0,16}}
      (?=(?P<code>[^"'`)\]}}\n]{{2,400}}))""")
    for behind in ("", r"(?=\s*\()")
)
"""After these, code of an interpreter or a console has a command; `_CALLED` also needs a `(`."""
_LISTED = re.compile(r"""["']\s*,\s*["']""")
_TAIL = re.compile(r"""[=:!"']+""")
_RUN_LATER = re.compile(
    r"\w*(?:COMMAND|EDITOR|VISUAL|PAGER|BROWSER|SHELL|ENV|ASKPASS|PS\d|OPEN|SSH|RSH|DIFF)\w*="
)
"""Variables, set before a command, whose values some program or shell runs."""
_MAX_TAILS, _MAX_STARTS, _MAX_FED = 6, 64, 8
_MAX_EXPANDED = 8_192
"""In longer sources, variables and braces are not expanded."""


class Suspicion(Struct, frozen=True):
    """Everything that a command might do, as far as it can be seen."""

    commands: tuple[tuple[str, ...], ...]
    """Possible argvs, with the base name of the program."""
    targets: tuple[str, ...]
    """Files that redirections might write."""


def suspect(text: str) -> Suspicion:
    """Everything that `text` might run or write."""
    commands: list[tuple[str, ...]] = []
    targets: list[str] = []
    pending = [(source, 0) for source in _unbroken(text)]
    while pending and len(commands) < _MAX_SUSPECTS:
        source, depth = pending.pop()
        found, written, fed, given = _read(source)
        targets += written
        commands += (("=", setting) for setting in given)
        for argv in found:
            commands += _unwrapped(argv)
        if depth < _MAX_NESTING:
            code = (*_code(found, fed), *_tails(filter(_RUN_LATER.match, given)))
            inner = (source for each in code for source in _unbroken(each))
            pending += [(source, depth + 1) for source in dict.fromkeys(inner)]
    return Suspicion(tuple(dict.fromkeys(commands)), tuple(dict.fromkeys(targets)))


def loose_text(source: str) -> str:
    """The text of a word, as far as it can be told; `~` for the home folder."""
    if _BARE.fullmatch(source):
        return source
    return _NOTHING.sub("", "".join(_loose_piece(found) for found in _WORD.finditer(source)))


def _unbroken(source: str) -> Iterator[str]:
    """The text itself, and its forms with lines joined, and braces and variables expanded."""
    yield source
    joined = _DESCRIPTOR.sub("", source.replace("\\\n", "").replace('$"', '"'))
    parted = _BRACED.sub(lambda found: found[1].replace(",", " "), joined)
    found = [joined, parted]
    if len(source) <= _MAX_EXPANDED and not {"$", "{"}.isdisjoint(joined):
        found += [_parted_words(parted), _put_in(joined)]
    yield from dict.fromkeys(text for text in found if text != source)


def _parted_words(source: str) -> str:
    """The text with `a{b,c}` as `ab ac`; nested braces are expanded only in part."""
    for _ in range(2):
        source = _IN_WORD.sub(
            lambda found: " ".join(f"{found[1]}{each}{found[3]}" for each in found[2].split(",")),
            source,
        )
    return source


def _put_in(source: str) -> str:
    """The text with variables replaced, if the text itself sets them."""
    values: dict[str, str] = {}
    for found in _ASSIGNED.finditer(source):
        name = found["name"] or found["each"] or "@"
        values[name] = found[found.lastgroup or 0]

    def value(found: re.Match[str]) -> str:
        name = found["list"] or found["name"] or "@"
        return values.get("@" if name == "*" else name, found[0])

    return _USED.sub(value, _USED.sub(value, source)) if values else source


def _read(source: str) -> tuple[list[tuple[str, ...]], list[str], list[str], list[str]]:
    """The commands in the text, the files it writes, the input it feeds, the variables it sets."""
    source = _OUR_HOME.sub(".gonogo", _FIELD_SEPARATOR.sub(" ", source))
    if len(source) > _MAX_TREE:
        return [_split(part) for part in _SPLIT.split(source) if part.strip()], [], [], []
    data = source.encode("utf-8", "replace")
    commands: list[tuple[str, ...]] = []
    targets, fed, given = list[str](), list[str](), list[str]()
    named = {"file_redirect": targets, "herestring_redirect": fed}
    for node in nodes(syntax_tree(source)):
        if node.type == "command":
            commands += _argvs(node, data)
            words = ((child.type, _text(child, data)) for child in node.children)
            given += [word for kind, word in words if kind == _SETS or _RUN_LATER.match(word)]
        elif (into := named.get(node.type)) is not None:
            into += [_text(child, data) for child in node.children if child.is_named]
        elif node.type == "heredoc_body":
            fed.append(data[node.start_byte : node.end_byte].decode("utf-8", "replace"))
        elif node.type in ("declaration_command", "test_command", "ERROR"):
            commands.append(
                _split(data[node.start_byte : node.end_byte].decode("utf-8", "replace"))
            )
    return [argv for argv in commands if argv], targets, fed, given


def _argvs(command: Node, data: bytes) -> Iterator[tuple[str, ...]]:
    """The words of a command; words after a line's end, which a tree may miss, as another one."""
    skipped = (_SETS, "file_redirect", "herestring_redirect", "heredoc_redirect")
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
    """The command itself, and each other command that it would start."""
    named = (base_name(argv[0]), *argv[1:])
    yield named
    if named[0] == "git":
        yield _without_git_options(named)
    argv = (*here(argv),)
    for start in started_at(argv[:_MAX_WORDS]):
        yield (base_name(argv[start]), *argv[start + 1 :])
    launches = _launches(argv)
    ends = [*launches[1:], None][: len(launches)]
    for number, (position, following) in enumerate(zip(launches, ends, strict=True)):
        # Each may reach to the end; if there are very many, only to the next one.
        end = None if number < _MAX_LAUNCHES else following
        rest = argv[position + 2 : end]
        ended = next((n for n, word in enumerate(rest) if word in (";", "+")), None)
        yield (base_name(argv[position + 1]), *rest[:ended])


def _launches(argv: tuple[str, ...]) -> list[int]:
    """The positions of options after which a command follows."""
    program = family(argv[0])
    return [n for n, word in enumerate(argv[:-1]) if n and starts_others(word, program)]


def _without_git_options(argv: tuple[str, ...]) -> tuple[str, ...]:
    rest = list(argv[1:])
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GIT_VALUED else 1]
    return ("git", *rest)


def _code(commands: Iterable[tuple[str, ...]], fed: Sequence[str]) -> Iterator[str]:
    """The texts that some program among the commands would run as commands."""
    found = [(*here(argv),) for argv in commands]
    for argv in found:
        launches = _launches((*argv, ""))
        yield from (argv[n].partition("=")[2] for n in launches if "=" in argv[n])
        if launches or reads_words(argv[0]):
            yield from _tails(argv[1:])
        elif argv[0] == "git":
            yield from _tails(argv[n] for n in started_at(argv[:_MAX_WORDS]))
    yield from _started(found, fed)
    yield from _completed(found)
    shells = {word for argv in found for word in argv[:6] if family(word) in SHELLS}
    programs = (argv[n] for argv in found for n in (0, *started_at(argv[:_MAX_WORDS])))
    shells |= {word for word in programs if base_name(word) in ("eval", "su")}
    if not shells and not any(argv[0] in (".", "source") for argv in found):
        return
    yield from fed
    for argv in found:
        if base_name(argv[0]) in ("eval", "echo", "printf") or not shells.isdisjoint(argv):
            yield " ".join(word for word in argv[1:] if not word.startswith("-"))
            yield from filter(_has_blank, argv[1:])


def _started(found: Sequence[tuple[str, ...]], fed: Sequence[str]) -> Iterator[str]:
    """The commands that code in the words or input of interpreters and consoles starts."""
    told = [
        (word, _CALLED if family(argv[0]) in CALLERS else _STARTS)
        for argv in found if reads_code(argv[0]) for word in (*argv[1:], *fed)
    ]  # fmt: skip
    for text, code in dict.fromkeys(told):
        starts = code.finditer(_LISTED.sub(" ", text))
        yield from (start["code"] for start in islice(starts, _MAX_STARTS))


def _completed(found: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The commands that xargs makes from the words of its input."""
    said = [argv[1:] for argv in found if base_name(argv[0]) in ("echo", "printf")][:_MAX_FED]
    for argv in found if said else ():
        if family(argv[0]) in ("xargs", "parallel"):
            yield from (" ".join((*argv, *words)) for words in said)


def _tails(words: Iterable[str]) -> Iterator[str]:
    """Words that may be whole commands, and their rests after an option or a name."""
    for word in filter(_has_blank, words):
        yield word
        head = word.split(None, 1)[0]
        yield from (word[end.end() :] for end in islice(_TAIL.finditer(head), _MAX_TAILS))
        if word.startswith("-") and not word.startswith("--"):
            yield from (word[n:] for n in (2, 3))


def _has_blank(word: str) -> bool:
    return re.search(r"\s", word) is not None
