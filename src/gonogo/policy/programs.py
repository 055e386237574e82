"""Known programs: which options and operands need no question, read from tables.

An option that is not in a program's table asks, even an abbreviation; so does a word that its kind
refuses. Rendering adds options that keep a known program harmless, whatever the repository's own
settings are.
"""

import glob
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.errors import because
from gonogo.domain.paths import SECRET_DIRECTORIES, SECRET_FORMS
from gonogo.policy.kinds import KINDS, CommandPlace, Kind, argument, guarded, listing, named, none
from gonogo.policy.shell import (
    ParsedCommand,
    Simple,
    Suspicion,
    Unparsed,
    Word,
    literal,
    parse_command,
    quote,
    suspect,
)

_GIT_PLAIN = frozenset({"--no-pager", "-P", "--no-optional-locks"})
_GIT_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.sshCommand=false",
    "core.alternateRefsCommand=", "credential.helper=", "gpg.program=false",
    "gpg.ssh.program=false", "gpg.x509.program=false", "log.showSignature=false",
    "protocol.allow=never", "submodule.recurse=false",
)  # fmt: skip
_GIT_WRITING = (
    "core.editor=true", "core.attributesFile=/dev/null", "commit.gpgSign=false", "gc.auto=0",
    "maintenance.auto=false",
)  # fmt: skip
"""Settings against more programs that git would start when it writes."""
Voucher = Literal["nobody", "rules", "person"]
"""Who allows a command: rules and plans, a person who sees it, or nobody."""
_LETTERS = re.compile(r"\[([^\]]+)\]|[a-z]")
"""A letter, or a character class."""
_SETS = ("first", "lists", "needs", "recursive", "reveals")
_MODULES = frozenset({"pytest", "mypy"})
_PYTHONS = frozenset({"python", "python3"})
_GNU = frozenset(
    """ls cat head tail wc nl grep find stat du date sort uniq cut tr diff basename dirname sed cmp
    comm sha256sum md5sum tar""".split()
)
"""GNU programs that are called `gls` and so on where the system has its own `ls`."""


class Option(Struct, frozen=True):
    """The values of an option."""

    kinds: tuple[Kind, ...] = ()
    optional: bool = False


class Table(Struct, frozen=True, kw_only=True, eq=False):
    """The allowed words of one program, or of one of its subcommands; see programs.toml."""

    options: Mapping[str, Option]
    operands: tuple[Kind, ...]
    style: Literal["getopt", "apart", "bundle", "find", "words"] = "getopt"
    digits: bool = False
    names: bool = False
    runs_code: bool = False
    argfiles: bool = False
    stops: bool = False
    needs_operand: bool = False
    first: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    recursive: frozenset[str] = frozenset()
    hardened: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    exclude: str = ""
    exclude_directory: str = ""
    walking: str = ""
    reveals: frozenset[str] = frozenset()
    objects: str = ""
    history: bool = False
    writes_git: bool = False
    sweeps: bool = False

    @property
    def turns(self) -> frozenset[str]:
        """The options that change the meaning of operands."""
        return self.first | self.lists | self.needs


class ReadCommand(Struct):
    """What was found in a command's words."""

    seen: set[str] = field(default_factory=set[str])
    """The options that were found."""
    operands: list[int] = field(default_factory=list[int])
    """The positions of words that are neither options nor their values."""
    end: int | None = None
    """The position of the `--` after which no word is an option."""
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """For each problem, the position of the word, and what is wrong with it."""
    files: list[str] = field(default_factory=list[str])
    """The paths that its words may name."""
    patterns: list[str] = field(default_factory=list[str])
    """The patterns that the shell expands, in the form of Python's glob."""
    written: dict[int, str] = field(default_factory=dict[int, str])
    """Words that run in another form than they were written, by position."""

    def note(self, kind: Kind, word: str) -> None:
        """Record the path that a word of this kind names, if it names one."""
        path = named(kind, word)
        if path is not None:
            self.files.append(path)


class KnownCommand(Struct, frozen=True, kw_only=True):
    """A command whose program has a table."""

    table: Table
    head: tuple[str, ...]
    """Program and subcommand, as rules name them."""
    words: tuple[Word, ...]
    """What follows the head."""

    def render(self, reading: ReadCommand, voucher: Voucher = "rules") -> str:
        """The command as bash source, with the options that keep it harmless.

        Args:
            voucher: Who allows it. A command that shows a repository's history leaves out secrets
                if nobody does; one that adds files leaves them out unless a person has seen it.
        """
        program, *subcommand = self.head
        own = [
            quote(reading.written[n]) if n in reading.written else word.render()
            for n, word in enumerate(self.words)
        ]
        end = len(own) if reading.end is None else reading.end
        walks = _walks(self.table, reading.seen)
        guards = _excluded(self.table) if walks and self.table.exclude else []
        secrets = _unseen() if self._leaves_out(reading, voucher, walks=walks) else []
        # The difference of a submodule would show files that are left out here.
        flat = ("-c", "diff.submodule=short") if secrets and self.table.history else ()
        before = [program, *self._settings(), *flat, *subcommand]
        after = [*own[:end], *guards, *own[end:], *secrets]
        return " ".join([*before, *self._hardened(reading), *after])

    def _leaves_out(self, reading: ReadCommand, voucher: Voucher, *, walks: bool) -> bool:
        if self.table.history:
            return walks and voucher == "nobody"
        # Without words `git add` adds nothing; with only exclusions it would add everything.
        takes = self.table.sweeps and bool(reading.operands or reading.seen)
        return takes and voucher != "person"

    def _settings(self) -> Iterator[str]:
        if self.head[0] == "git":
            yield from _git_settings()
            yield from _as_options(_GIT_WRITING) if self.table.writes_git else ()

    def reveals(self, reading: ReadCommand) -> bool:
        """Whether it may show a secret that no word names, and that cannot be left out."""
        if not _walks(self.table, reading.seen):
            return False
        if not self.table.reveals.isdisjoint(reading.seen):
            return True
        revisions = (n for n in reading.operands if reading.end is None or n < reading.end)
        return bool(self.table.objects) and any(
            self.words[n].is_glob or re.search(self.table.objects, self.words[n].text)
            for n in revisions
        )

    def _hardened(self, reading: ReadCommand) -> Iterator[str]:
        # If somebody allows words that are not in the table of such a program, they mean it so.
        if not (self.table.runs_code and reading.problems):
            yield from (word for word in self.table.hardened if word not in reading.seen)


def known(words: Sequence[Word]) -> KnownCommand | None:
    """Look a command up; None if its program or subcommand has no table."""
    argv = [word.text for word in words]
    if argv[0] == "git":
        return _known_git(words)
    head = 1
    if argv[0] in _PYTHONS and argv[1:2] == ["-m"] and argv[2:3] and argv[2] in _MODULES:
        return KnownCommand(
            table=_programs()[argv[2]], head=tuple(argv[:3]), words=tuple(words[3:])
        )
    program = argv[0]
    if program not in _programs() and program.removeprefix("g") in _GNU:
        program = program[1:]
    table = _programs().get(program)
    if len(argv) > 1 and f"{program} {argv[1]}" in _programs():
        head, table = 2, _programs()[f"{program} {argv[1]}"]
    if table is None:
        return None
    return KnownCommand(table=table, head=tuple(argv[:head]), words=tuple(words[head:]))


def _known_git(words: Sequence[Word]) -> KnownCommand | None:
    rest = list(words[1:])
    while rest and rest[0].text in _GIT_PLAIN:
        del rest[0]
    table = _git().get(rest[0].text) if rest else None
    if table is None:
        return None
    return KnownCommand(table=table, head=("git", rest[0].text), words=tuple(rest[1:]))


def _walks(table: Table, seen: Iterable[str]) -> bool:
    return not table.recursive or not table.recursive.isdisjoint(seen)


@cache
def _excluded(table: Table) -> list[str]:
    written = str if "iglob" in table.exclude else _any_case
    forms = _braced(table.exclude.removesuffix("{}"), written)
    directories = [
        table.exclude_directory.format(written(name)) for name in (*SECRET_DIRECTORIES, ".git")
    ]
    return [*map(quote, table.walking.split()), *forms, *map(quote, directories)]


@cache
def _unseen() -> list[str]:
    """Pathspecs of git that leave out files that may contain secrets."""
    before = ":(exclude,icase,glob)**/"
    return [
        *_braced(before, str), *(quote(f"{before}{name}/**") for name in SECRET_DIRECTORIES)
    ]  # fmt: skip


def _braced(before: str, written: Callable[[str], str]) -> list[str]:
    """A word for each name of a secret or its copy, as braces that bash expands.

    There are some hundreds; with all of them written out, a script may be too long to start.
    """
    return [
        quote(before) + "".join(_one_of([written(each) for each in part]) for part in form)
        for form in SECRET_FORMS
    ]


def _one_of(parts: Sequence[str]) -> str:
    words = ",".join(map(quote, parts))
    return f"{{{words}}}" if len(parts) > 1 else words


def _any_case(name: str) -> str:
    # `.ENV` is as secret as `.env`, and without a box only these words keep it out.
    return _LETTERS.sub(_either_case, name)


def _either_case(found: re.Match[str]) -> str:
    letters = found[1] or found[0]
    return f"[{letters}{''.join(each.upper() for each in letters if each.isalpha())}]"


@cache
def _git_settings() -> tuple[str, ...]:
    return ("--no-pager", "--no-optional-locks", *_as_options(_GIT_SETTINGS))


def _as_options(settings: Iterable[str]) -> Iterator[str]:
    return (word for setting in settings for word in ("-c", quote(setting)))


@cache
def _programs() -> Mapping[str, Table]:
    return {name: _table(fields, "") for name, fields in _load("programs.toml").items()}


@cache
def _git() -> Mapping[str, Table]:
    sections = _load("git.toml")
    shared = {name: sections.pop(f"{name} options")["options"] for name in ("diff", "log")}
    return {
        name: _table(
            fields,
            f"{shared['diff'] if fields.pop('diffs', False) else ''} "
            f"{shared['log'] if fields.pop('commits', False) else ''}",
        )
        for name, fields in sections.items()
    }


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files("gonogo.policy").joinpath(name).read_text("utf-8"))


def _table(fields: Mapping[str, Any], more: str) -> Table:
    sets = {key: frozenset(fields.get(key, ())) for key in _SETS}
    plain = {"options", "operands", "hardened", *sets}
    return Table(
        options=dict(map(_option, f"{fields.get('options', '')} {more}".split())),
        operands=tuple(KINDS[name] for name in fields["operands"]),
        hardened=tuple(fields.get("hardened", "").split()),
        **sets,  # pyright: ignore[reportArgumentType] - the keys are those of the sets
        **{key: value for key, value in fields.items() if key not in plain},
    )


def _option(written: str) -> tuple[str, Option]:
    name, _, kinds = written.partition(":")
    values = tuple(KINDS[kind] for kind in kinds.split(",") if kind)
    return name.removesuffix("?"), Option(values, optional=name.endswith("?"))


# Reading the words of one known program by its table, to find what is not known about them.


def judge(command: KnownCommand, place: CommandPlace) -> ReadCommand:
    """Read the words of a known program."""
    table = command.table
    where = replace(place, names_only=table.names)
    reading = ReadCommand()
    _Words(command.words, table, where, reading).read()
    kinds = _kinds(table, reading)
    for place_of, number in enumerate(reading.operands):
        last = min(place_of, len(kinds) - 1)
        word = command.words[number]
        problem = kinds[last](word.text, word.is_glob, where)
        reading.note(kinds[last], word.text)
        if word.is_glob:
            reading.patterns.append(word.pattern)
        if word.is_glob and last < len(kinds) - 1:
            problem = because("{word!r} may expand to several words", word=word.text)
        if problem:
            reading.problems.append((number, problem))
    # A word that is not understood may be just what seems to be missing.
    missing = () if reading.problems else _missing(table, reading)
    reading.problems += [(-1, problem) for problem in missing]
    if table.argfiles:
        reading.problems += _argument_files(command.words)
    return reading


def judge_unknown(words: Sequence[Word], place: CommandPlace) -> ReadCommand:
    """Read the words after those that a rule names, for a program without a table."""
    found = [(n, judge_argument(word, place)) for n, word in enumerate(words)]
    return ReadCommand(
        problems=[(n, problem) for n, problem in found if problem],
        files=[word.text for word in words],
        patterns=[word.pattern for word in words if word.is_glob],
    )


def judge_argument(word: Word, place: CommandPlace) -> str | None:
    """What is wrong with a word whose meaning for the program is unknown."""
    return argument(word.text, word.is_glob, place) or matched_guard(word, place)


def matched_guard(word: Word, place: CommandPlace) -> str | None:
    """Why a pattern must not be used without a question, if it matches a guarded name."""
    folder = "" if place.cwd == "." else glob.escape(place.cwd)
    matched = place.matching(posixpath.join(folder, word.pattern)) if word.is_glob else ()
    return next(filter(None, map(guarded, matched)), None)


def _argument_files(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    for number, word in enumerate(words):
        if word.text.startswith("@"):
            yield number, because("{word!r} hides arguments", word=word.text.partition("::")[0])


def _kinds(table: Table, reading: ReadCommand) -> list[Kind]:
    kinds = list(table.operands)
    if len(kinds) > 1 and not table.first.isdisjoint(reading.seen):
        del kinds[0]
    if table.lists and table.lists.isdisjoint(reading.seen):
        return [none]
    return kinds


def _missing(table: Table, reading: ReadCommand) -> Iterator[str]:
    if table.needs and table.needs.isdisjoint(reading.seen):
        yield because("it is only known with {options}", options=" or ".join(sorted(table.needs)))
    if table.needs_operand and not reading.operands:
        yield because("it is only known with an operand")


class _Words(Struct):
    """One pass over the words, in the way in which the program itself reads them."""

    words: Sequence[Word]
    table: Table
    place: CommandPlace
    reading: ReadCommand
    at: int = 0

    def read(self) -> None:
        style, operands = self.table.style, self.reading.operands
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            dashed = word.text.startswith("-") and word.text != "-"
            if style == "bundle" and self.at == 1 and not dashed:
                self._bundle(word)
            elif style == "words" or not dashed:
                operands.append(self.at - 1)
            elif word.text == "--" and style != "find":
                self.reading.end = self.at - 1
                operands.extend(range(self.at, len(self.words)))
                return
            else:
                self._option(word.text)

    def _bundle(self, word: Word) -> None:
        """Read the first word of tar: option letters, whose values are the words after it."""
        if problem := listing(word.text, word.is_glob, self.place):
            self._problem(problem)
        else:
            self._cluster(word.text, apart=True)

    def _option(self, text: str) -> None:
        if self.table.digits and re.fullmatch(r"-\d{1,9}", text):
            return
        if self.table.style == "find":
            self._whole(text, None)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            self._whole(name, value if equals else None)
        else:
            self._cluster(text[1:], apart=self.table.style == "apart")

    def _whole(self, name: str, value: str | None) -> None:
        option = self._known(name)
        if option is None:
            return
        if name in self.table.instead:
            self.reading.written[self.at - 1] = self.table.instead[name]
        self._values(name, option, value)

    def _cluster(self, letters: str, *, apart: bool) -> None:
        """Read option letters; the value of one is the rest of the word, or the next words."""
        number = self.at - 1
        for place, letter in enumerate(letters):
            name = f"-{letter}"
            option = self._known(name)
            if option is None:
                return
            if name in self.table.instead:
                given = self.reading.written.get(number, f"-{letters}")
                other = self.table.instead[name][1:]
                self.reading.written[number] = f"{given[: place + 1]}{other}{given[place + 2 :]}"
            if option.kinds and apart:
                self._values(name, option, None)
            elif option.kinds:
                self._values(name, option, letters[place + 1 :] or None)
                return

    def _known(self, name: str) -> Option | None:
        option = self.table.options.get(name)
        if option is None:
            self._problem(because("{name!r} is not a known option", name=name))
            return None
        self.reading.seen.add(name)
        if self.reading.operands and (self.table.stops or name in self.table.turns):
            self._problem(because("{name!r} may come only before the operands", name=name))
        return option

    def _values(self, name: str, option: Option, value: str | None) -> None:
        if value is not None and not option.kinds:
            self._problem(because("{name!r} takes no value", name=name))
            return
        if value is not None and len(option.kinds) > 1:
            self._problem(because("{name!r} takes its values as separate words", name=name))
            return
        if value is None and option.optional:
            return
        for number, kind in enumerate(option.kinds):
            if number or value is None:
                self._next_value(name, kind)
            elif problem := kind(value, False, self.place):
                self._problem(problem)
            else:
                self.reading.note(kind, value)

    def _next_value(self, name: str, kind: Kind) -> None:
        if self.at >= len(self.words):
            self._problem(because("{name!r} needs a value", name=name))
            return
        word = self.words[self.at]
        self.at += 1
        if word.is_glob:
            self._problem(because("{word!r} may expand to several words", word=word.text))
        elif problem := kind(word.text, False, self.place):
            self._problem(problem)
        else:
            self.reading.note(kind, word.text)

    def _problem(self, problem: str) -> None:
        self.reading.problems.append((self.at - 1, problem))


# What is known about one command: its parts, with what is unknown about each, and its suspicion.
#
# Rules, grants and verdicts all use this: a prefix that somebody allowed covers a part only if
# nothing after the prefix is unknown.

Covers = Callable[[tuple[str, ...]], bool]


class Part(Struct, frozen=True):
    """One simple command, looked up and read."""

    simple: Simple
    known: KnownCommand | None
    reading: ReadCommand
    argv: tuple[str, ...]
    """The words as rules name them: without git's options that change nothing."""

    @property
    def runs_code(self) -> bool:
        """Whether it runs code of the repository, or may run it."""
        return self.known is None or self.known.table.runs_code

    @property
    def only_reads(self) -> bool:
        """Whether it is known to do nothing but read."""
        return not self.runs_code and not self.reading.problems

    @property
    def reveals(self) -> bool:
        """Whether it may show a secret that no word names, and that cannot be left out."""
        return self.known is not None and self.known.reveals(self.reading)

    @property
    def writes_git(self) -> bool:
        """Whether it writes in the repository, and git can do so without starting anything."""
        return self.known is not None and self.known.table.writes_git

    @property
    def is_git(self) -> bool:
        """Whether it reads the repository's own git settings."""
        return self.argv[0] == "git"

    def unknown(self, vouched: int, place: CommandPlace) -> str | None:
        """What is unknown about it, apart from its first `vouched` words, which are allowed."""
        if any(word.is_glob for word in self.simple.words[:vouched]):
            return because("the allowed words contain a pattern")
        if self.known is None:
            if self.is_git:
                return because(
                    "{command!r} is not in the closed set of git commands",
                    command=" ".join(self.argv[:2]),
                )
            found = judge_unknown(self.simple.words[vouched:], place).problems
            return found[0][1] if found else None
        within = 0 if self.is_git else vouched - len(self.known.head)
        problems = self.reading.problems
        own = next((why for n, why in problems if n < 0 or n >= within), None)
        if own or not problems:
            return own
        # Any word after an unknown option may be the value of the option.
        rest = (self.known.words[n] for n in self.reading.operands if n >= within)
        return next(filter(None, (judge_argument(word, place) for word in rest)), None)

    def render(self, voucher: Voucher = "rules") -> str:
        """The source that runs: words quoted, with the options that keep it harmless."""
        if self.known is None:
            return self.simple.render()
        source = self.known.render(self.reading, voucher)
        return " ".join(["!"] * self.simple.negated + [source, *self.simple.redirects])


class Command(Struct, frozen=True):
    """A whole command."""

    text: str
    parsed: ParsedCommand | Unparsed
    parts: tuple[Part, ...]
    """Empty if the command was not understood."""
    suspicion: Suspicion

    @property
    def writes_git(self) -> bool:
        """Whether every part is one that `Part.writes_git` is true for."""
        return bool(self.parts) and all(part.writes_git for part in self.parts)

    def render(self, voucher: Voucher = "rules") -> str:
        """The source that runs in place of the text."""
        joiners = {"": "", ";": "; "}
        return "".join(
            joiners.get(part.simple.joined_by, f" {part.simple.joined_by} ") + part.render(voucher)
            for part in self.parts
        )


def read_command(text: str, place: CommandPlace) -> Command:
    """Read a command, and find out everything that is known about it."""
    parsed = parse_command(text)
    parts = parsed.parts if isinstance(parsed, ParsedCommand) else ()
    return Command(text, parsed, tuple(_part(part, place) for part in parts), suspect(text))


@lru_cache(maxsize=64)
def programs_of(text: str) -> Mapping[str, bool]:
    """The programs that a command names, and whether each is known to do nothing but read.

    The tool and the gate ask about the same command in turn; the cache lets it be read only once.
    """
    command = read_command(text, CommandPlace(workspace="/"))
    found: dict[str, bool] = {}
    for part in command.parts:
        found[part.argv[0]] = found.get(part.argv[0], False) or part.is_git or not part.runs_code
    for argv in () if command.parts else command.suspicion.commands:
        seen = known([literal(word) for word in argv])
        found[argv[0]] = argv[0] == "git" or (seen is not None and not seen.table.runs_code)
    return MappingProxyType(found)


def covers_example(covers: Covers, words: int, decision: str, example: str) -> bool:
    """Whether a rule would apply to an example of a command."""
    place = CommandPlace(workspace="/")
    command = read_command(example, place)
    if decision != "allow":
        return any(covers(argv) for argv in command.suspicion.commands)
    return bool(command.parts) and all(
        covers(part.argv) and part.unknown(words, place) is None for part in command.parts
    )


def _part(simple: Simple, place: CommandPlace) -> Part:
    found = known(simple.words)
    if found and simple.argv[0] in place.own_programs and not found.table.runs_code:
        # A program of the workspace may be another one than the table describes.
        found = None
    reading = judge(found, place) if found else judge_unknown(simple.words[1:], place)
    argv = simple.argv
    if found and found.head[0] == "git":
        argv = (*found.head, *(word.text for word in found.words))
    return Part(simple, found, reading, argv)
