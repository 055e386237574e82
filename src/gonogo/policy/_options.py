"""Known programs: which options and operands need no question, read from tables.

An option that is not in a program's table asks, abbreviations included; so does a word that its
kind refuses. Rendering adds the options that keep a known program harmless whatever the
repository's own settings say.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from gonogo.domain.paths import SECRET_DIRECTORIES, SECRET_NAMES
from gonogo.policy._kinds import KINDS, Kind, named
from gonogo.policy._word import Word, quote

_GIT_HARMLESS = frozenset({"--no-pager", "-P", "--no-optional-locks"})
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
"""What git would start besides, where it writes."""
Voucher = Literal["nobody", "rules", "person"]
"""Who lets a command run: rules and plans, or a person who sees it, or none of them."""
_LETTER = re.compile("[a-z]")
_SETS = ("first", "lists", "needs", "recursive", "reveals")
_MODULES = frozenset({"pytest", "mypy"})
_PYTHONS = frozenset({"python", "python3"})
_GNU = frozenset(
    """ls cat head tail wc nl grep find stat du date sort uniq cut tr diff basename dirname sed cmp
    comm sha256sum md5sum tar""".split()
)
"""Programs that are called `gls` and so on where the system has others of its own."""


@dataclass(frozen=True, slots=True)
class Option:
    """What stands after an option."""

    kinds: tuple[Kind, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """What one program, or one of its subcommands, may be told; see programs.toml."""

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
        """The options that change what operands are taken for."""
        return self.first | self.lists | self.needs


@dataclass(slots=True)
class Reading:
    """What was found in a command's words."""

    seen: set[str] = field(default_factory=set[str])
    """Options that were given."""
    operands: list[int] = field(default_factory=list[int])
    """Places of the words that are neither options nor their values."""
    end: int | None = None
    """Place of the `--` behind which no word is an option."""
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Place of the word, and what is wrong with it."""
    files: list[str] = field(default_factory=list[str])
    """Paths that its words may name, one by one."""
    patterns: list[str] = field(default_factory=list[str])
    """Those that the shell looks for, as Python's glob reads them."""
    written: dict[int, str] = field(default_factory=dict[int, str])
    """Words that run in another form than they were given."""

    def note(self, kind: Kind, word: str) -> None:
        """Keep the path that a word of this kind names, if it names one."""
        path = named(kind, word)
        if path is not None:
            self.files.append(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A command whose program has a table."""

    table: Table
    head: tuple[str, ...]
    """Program and subcommand, as rules name them."""
    words: tuple[Word, ...]
    """What follows the head."""

    def render(self, reading: Reading, voucher: Voucher = "rules") -> str:
        """The command as bash source, with the options that keep it harmless.

        Args:
            voucher: Who allows it. What shows a repository's history leaves out secrets unless
                somebody does, and what takes files in unless a person looks at it.
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
        # A submodule's own difference would show what is left out here.
        flat = ("-c", "diff.submodule=short") if secrets and self.table.history else ()
        before = [program, *self._settings(), *flat, *subcommand]
        after = [*own[:end], *guards, *own[end:], *secrets]
        return " ".join([*before, *self._hardened(reading), *after])

    def _leaves_out(self, reading: Reading, voucher: Voucher, *, walks: bool) -> bool:
        if self.table.history:
            return walks and voucher == "nobody"
        # Without a word `git add` takes in nothing, and with these everything.
        takes = self.table.sweeps and bool(reading.operands or reading.seen)
        return takes and voucher != "person"

    def _settings(self) -> Iterator[str]:
        if self.head[0] == "git":
            yield from _git_settings()
            yield from _as_options(_GIT_WRITING) if self.table.writes_git else ()

    def reveals(self, reading: Reading) -> bool:
        """Whether it may show a secret that no word names, and that is not left out."""
        if not _walks(self.table, reading.seen):
            return False
        if not self.table.reveals.isdisjoint(reading.seen):
            return True
        revisions = (n for n in reading.operands if reading.end is None or n < reading.end)
        return bool(self.table.objects) and any(
            self.words[n].is_glob or re.search(self.table.objects, self.words[n].text)
            for n in revisions
        )

    def _hardened(self, reading: Reading) -> Iterator[str]:
        # Who vouches for what is not in the table of a program that runs code means what it does.
        if not (self.table.runs_code and reading.problems):
            yield from (word for word in self.table.hardened if word not in reading.seen)


def known(words: Sequence[Word]) -> Known | None:
    """Look a command up; None when its program, or its subcommand, has no table."""
    argv = [word.text for word in words]
    if argv[0] == "git":
        return _known_git(words)
    head = 1
    if argv[0] in _PYTHONS and argv[1:2] == ["-m"] and argv[2:3] and argv[2] in _MODULES:
        return Known(table=_programs()[argv[2]], head=tuple(argv[:3]), words=tuple(words[3:]))
    program = argv[0]
    if program not in _programs() and program.removeprefix("g") in _GNU:
        program = program[1:]
    table = _programs().get(program)
    if len(argv) > 1 and f"{program} {argv[1]}" in _programs():
        head, table = 2, _programs()[f"{program} {argv[1]}"]
    if table is None:
        return None
    return Known(table=table, head=tuple(argv[:head]), words=tuple(words[head:]))


def _known_git(words: Sequence[Word]) -> Known | None:
    rest = list(words[1:])
    while rest and rest[0].text in _GIT_HARMLESS:
        del rest[0]
    table = _git().get(rest[0].text) if rest else None
    if table is None:
        return None
    return Known(table=table, head=("git", rest[0].text), words=tuple(rest[1:]))


def _walks(table: Table, seen: Iterable[str]) -> bool:
    return not table.recursive or not table.recursive.isdisjoint(seen)


@cache
def _excluded(table: Table) -> list[str]:
    named = str if "iglob" in table.exclude else _any_case
    names = [table.exclude.format(named(name)) for name in SECRET_NAMES]
    directories = [
        table.exclude_directory.format(named(name)) for name in (*SECRET_DIRECTORIES, ".git")
    ]
    return [quote(word) for word in (*table.walking.split(), *names, *directories)]


@cache
def _unseen() -> list[str]:
    """Pathspecs of git that leave out what may hold secrets."""
    globs = (*SECRET_NAMES, *(f"{name}/**" for name in SECRET_DIRECTORIES))
    return [quote(f":(exclude,icase,glob)**/{glob}") for glob in globs]


def _any_case(name: str) -> str:
    # `.ENV` is as secret as `.env`, and where nothing hides it these words alone keep it out.
    return _LETTER.sub(lambda found: f"[{found[0]}{found[0].upper()}]", name)


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
