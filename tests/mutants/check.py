"""Judges mutants by the policy, and each that is allowed by bash and by the manuals."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from gonogo.domain.tool_calls import Verdict
from gonogo.policy import ParsedCommand, PolicyContext, check_command, load_contexts, parse_command
from mutants.bash import Ran, Traced, TracedBash
from mutants.manuals import complaint, place
from mutants.more import EVERYTHING, LINES, everything
from mutants.mutator import Seed
from mutants.reading import Pipeline, expected
from mutants.workspace import matching, outside

CASES = Path(__file__).parents[1] / "cases"
_ADDED = re.compile(
    r"--exclude(-dir)?=.*|--iglob=!.*|--no-(config|pager|optional-locks|ext-diff|textconv|show-signature|dereference)"
    r"|--no-(max-parents|fix|fix-only|cache)"
    r"|-c|[a-zA-Z0-9.]+=(false|cat|/dev/null|never|)"
)
"""The words that may be put into a command to keep it harmless."""
_ANYHOW = ("-P", "--no-pager", "--no-optional-locks")


@dataclass(frozen=True, slots=True)
class FalseAllow:
    """An allowed mutant that is not what it seems, and what is wrong with it."""

    text: str
    context: str
    run_as: str
    why: str


@dataclass(slots=True)
class Tally:
    """What came of all mutants."""

    decisions: Counter[str] = field(default_factory=Counter[str])
    programs: Counter[str] = field(default_factory=Counter[str])
    wrong: list[FalseAllow] = field(default_factory=list[FalseAllow])
    allowed: list[tuple[Seed, str]] = field(default_factory=list[tuple[Seed, str]])
    """With what would run."""


def cases() -> list[dict[str, object]]:
    lines = (CASES / "commands.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def written(text: object) -> str:
    """A case's command; long ones are written as formulas."""
    match text:
        case {"$concat": parts}:
            return "".join(map(written, parts))
        case {"$repeat": [part, times]}:
            return written(part) * times
        case _:
            return str(text)


def seeds() -> list[Seed]:
    """The cases to make mutants of."""
    more = [Seed(line, EVERYTHING, True) for line in LINES]
    return more + [
        Seed(written(case["cmd"]), str(case["policy_context"]), case["expect"] == "allow")
        for case in cases()
    ]


class Judge:
    """Asks the policy about mutants, and bash about those that it allows."""

    def __init__(self, bash: TracedBash, root: Path) -> None:
        self._bash, self._root = bash, root
        self._contexts = {
            name: _looking(context, root)
            for name, context in (
                *load_contexts(CASES / "policy_contexts.json").items(), (EVERYTHING, everything()),
            )
        }  # fmt: skip

    def judge(self, mutants: Iterable[Seed], tally: Tally) -> None:
        """Add what is found to the tally."""
        allowed: list[tuple[Seed, str]] = []
        for mutant in mutants:
            verdict = self.verdict(mutant)
            tally.decisions[verdict.decision] += 1
            if verdict.decision == "allow":
                allowed.append((mutant, verdict.run_as or ""))
        tally.allowed += allowed
        tally.wrong += self._wrong(allowed, tally)

    def verdict(self, mutant: Seed) -> Verdict:
        return check_command(mutant.text, self._contexts[mutant.context])

    def _wrong(self, allowed: Sequence[tuple[Seed, str]], tally: Tally) -> Iterator[FalseAllow]:
        runs = [
            (mutant, run_as, status) for mutant, run_as in allowed for status in _statuses(run_as)
        ]
        as_written = self._bash.run([(status, mutant.text) for mutant, _, status in runs])
        as_run = self._bash.run([(status, run_as) for _, run_as, status in runs])
        for (mutant, run_as, status), text, run in zip(runs, as_written, as_run, strict=True):
            command = parse_command(mutant.text)
            assert isinstance(command, ParsedCommand)
            reading = expected(command, status, self._root)
            tally.programs.update(each.argv[0] for group in reading for each in group)
            why = (
                compare(reading, text)
                or compare(reading, run, hardened=True)
                or _by_manual(command, run, self._contexts[mutant.context])
            )
            if why:
                yield FalseAllow(mutant.text, mutant.context, run_as, why)


def compare(reading: Sequence[Pipeline], traced: Traced, *, hardened: bool = False) -> str | None:
    """How what bash did differs from what was read."""
    if traced.said:
        return f"bash says {traced.said[:200]!r}"
    ran = list(traced.ran)
    for pipeline in reading:
        # The programs of a pipeline start in any order.
        group, ran = ran[: len(pipeline)], ran[len(pipeline) :]
        if not _same(list(pipeline), group, hardened=hardened):
            return f"bash runs {group}, read was {pipeline}"
    if ran:
        return f"bash also runs {ran}"
    count = sum(map(len, reading))
    return None if traced.commands == count else f"bash ran {traced.commands} commands, not {count}"


def _same(read: list[Ran], ran: list[Ran], *, hardened: bool) -> bool:
    left = list(ran)
    for one in read:
        match = next((each for each in left if _fits(one, each, hardened=hardened)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _fits(read: Ran, ran: Ran, *, hardened: bool) -> bool:
    if not hardened:
        return read == ran
    words = list(ran.argv)
    added: list[str] = []
    for word in _own(read.argv):
        while words and words[0] != word and _ADDED.fullmatch(words[0]):
            added.append(words.pop(0))
        if not words or not _means(word, words.pop(0)):
            return False
    return read.streams == ran.streams and all(map(_ADDED.fullmatch, words))


def _own(argv: Sequence[str]) -> list[str]:
    """The words without those options of git that are put there anyhow."""
    at = 1
    while argv[0] == "git" and at < len(argv) and argv[at] in _ANYHOW:
        at += 1
    return [argv[0], *argv[at:]]


def _means(word: str, found: str) -> bool:
    # Links are not followed: `-R` of grep runs as `-r`.
    return found in (word, word.replace("R", "r") if word[:1] == "-" else word) or (
        word == "--dereference-recursive" and found == "--recursive"
    )


def _by_manual(command: ParsedCommand, traced: Traced, context: PolicyContext) -> str | None:
    named = {word.text for part in command.parts for word in part.words if not word.is_glob}
    for ran in traced.ran:
        why = complaint(ran.argv, expanded=set(ran.argv) - named)
        if why and not _is_a_script_that_a_rule_names(ran.argv, context):
            return why
    return None


def _is_a_script_that_a_rule_names(argv: Sequence[str], context: PolicyContext) -> bool:
    """Whether a person's rule lets `npm run` do what a repository says; the manuals know nobody.

    Plain words behind a script's name are for the script; files among them have to be its to read.
    """
    named = (rule.words for rule in context.rules.of("allow"))
    if len(argv) < 3 or tuple(argv[:2]) != ("npm", "run") or ("npm", "run") not in named:
        return False
    return all(word[:1] != "-" and place(word) is None for word in argv[3:])


def _statuses(run_as: str) -> tuple[int, ...]:
    """Both ways that a program may end, where that decides what comes next."""
    return (0, 1) if "&&" in run_as or "||" in run_as else (0,)


def _looking(context: PolicyContext, root: Path) -> PolicyContext:
    """The context on a real disk, as the runtime has it."""
    look = replace(context.conditions, outside=outside(root), matching=matching(root))
    return replace(context, conditions=look)
