"""What is known of one command: its parts with what is not known about each, and its suspicion.

This is the shared ground of rules, grants and verdicts: a part is covered by a beginning that
somebody allowed only if nothing beyond that beginning is unknown.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gonogo.domain.errors import because
from gonogo.policy._judge import judge, judge_argument, judge_unknown
from gonogo.policy._kinds import Place
from gonogo.policy._loose import Suspicion, suspect
from gonogo.policy._options import Known, Reading, Voucher, known
from gonogo.policy._shell import ParsedCommand, Simple, Unparsed, parse_command
from gonogo.policy._word import literal

Covers = Callable[[tuple[str, ...]], bool]


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command, looked up and read."""

    simple: Simple
    known: Known | None
    reading: Reading
    argv: tuple[str, ...]
    """As rules name it: without options of git that change nothing."""

    @property
    def runs_code(self) -> bool:
        """Whether it runs code of the repository, as far as one knows."""
        return self.known is None or self.known.table.runs_code

    @property
    def only_reads(self) -> bool:
        """Whether all of it is known to do nothing but read."""
        return not self.runs_code and not self.reading.problems

    @property
    def reveals(self) -> bool:
        """Whether it may show a secret that none of its words names, and that is not left out."""
        return self.known is not None and self.known.reveals(self.reading)

    @property
    def writes_git(self) -> bool:
        """Whether it writes in the repository, and git can do so without starting anything."""
        return self.known is not None and self.known.table.writes_git

    @property
    def is_git(self) -> bool:
        """Whether it reads the repository's own git settings."""
        return self.argv[0] == "git"

    def unknown(self, vouched: int, place: Place) -> str | None:
        """What is not known about it, but for its first `vouched` words."""
        if any(word.is_glob for word in self.simple.words[:vouched]):
            return because("a pattern stands among the words that are allowed")
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
        # Of what follows an option that no table knows, any word may be its value.
        rest = (self.known.words[n] for n in self.reading.operands if n >= within)
        return next(filter(None, (judge_argument(word, place) for word in rest)), None)

    def render(self, voucher: Voucher = "rules") -> str:
        """The source that runs: words quoted, with the options that keep it harmless."""
        if self.known is None:
            return self.simple.render()
        source = self.known.render(self.reading, voucher)
        return " ".join(["!"] * self.simple.negated + [source, *self.simple.redirects])


@dataclass(frozen=True, slots=True)
class Command:
    """A command as a whole."""

    text: str
    parsed: ParsedCommand | Unparsed
    parts: tuple[Part, ...]
    """Empty when it was not understood."""
    suspicion: Suspicion

    @property
    def writes_git(self) -> bool:
        """Whether all of it writes in the repository as `Part.writes_git` says."""
        return bool(self.parts) and all(part.writes_git for part in self.parts)

    def render(self, voucher: Voucher = "rules") -> str:
        """What runs in its place."""
        joiners = {"": "", ";": "; "}
        return "".join(
            joiners.get(part.simple.joined_by, f" {part.simple.joined_by} ") + part.render(voucher)
            for part in self.parts
        )


def read_command(text: str, place: Place) -> Command:
    """Find out all that is known of a command."""
    parsed = parse_command(text)
    parts = parsed.parts if isinstance(parsed, ParsedCommand) else ()
    return Command(text, parsed, tuple(_part(part, place) for part in parts), suspect(text))


def programs_of(text: str) -> dict[str, bool]:
    """The programs that a command names, and of each whether it is known to do nothing but read."""
    command = read_command(text, Place(workspace="/"))
    found: dict[str, bool] = {}
    for part in command.parts:
        found[part.argv[0]] = found.get(part.argv[0], False) or part.is_git or not part.runs_code
    for argv in () if command.parts else command.suspicion.commands:
        seen = known([literal(word) for word in argv])
        found[argv[0]] = argv[0] == "git" or (seen is not None and not seen.table.runs_code)
    return found


def covers_example(covers: Covers, words: int, decision: str, example: str) -> bool:
    """Whether a rule would apply to an example of a command."""
    place = Place(workspace="/")
    command = read_command(example, place)
    if decision != "allow":
        return any(covers(argv) for argv in command.suspicion.commands)
    return bool(command.parts) and all(
        covers(part.argv) and part.unknown(words, place) is None for part in command.parts
    )


def _part(simple: Simple, place: Place) -> Part:
    found = known(simple.words)
    if found and simple.argv[0] in place.own_programs and not found.table.runs_code:
        # Whatever is called so in the workspace need not be what the table is about.
        found = None
    reading = judge(found, place) if found else judge_unknown(simple.words[1:], place)
    argv = simple.argv
    if found and found.head[0] == "git":
        argv = (*found.head, *(word.text for word in found.words))
    return Part(simple, found, reading, argv)
