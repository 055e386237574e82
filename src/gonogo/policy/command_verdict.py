"""The verdict on a command: its strictest part decides.

To deny, everything counts that the command might do. To allow, every part must be understood
completely, and then the canonical form runs.
"""

import glob
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from msgspec import Struct

from gonogo.domain.commands import MODULES
from gonogo.domain.errors import because, together
from gonogo.domain.network import network_covers
from gonogo.domain.paths import is_literal, spoofing, write_guard
from gonogo.domain.tool_calls import Call, Grant, Verdict
from gonogo.policy import kinds
from gonogo.policy.denials import refusal, words_of
from gonogo.policy.kinds import CommandPlace, guarded, inside_of
from gonogo.policy.products import products
from gonogo.policy.programs import Command, Part, matched_guard, read_command
from gonogo.policy.rules import (
    Conditions,
    Decision,
    Rule,
    Rules,
    TraceStep,
    VerdictStage,
    VerdictTrace,
    read_prefix,
)
from gonogo.policy.shell import Unparsed, Word

# Python code of the workspace that a plan declares, and which arguments it may get.
#
# Whoever approves `python -m notes` or `python tools/check.py` approves code that agents of the
# plan may write anyway, so more arguments do no more harm. Only paths still matter: none may lead
# out of the workspace, to a secret, or to a guarded name. Python itself reads no options after the
# module or the file (https://docs.python.org/3/using/cmdline.html).

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_PLAIN = re.compile(r"(?!!)[^\s;|&$`<>()'\"\\]*")
_PIECES = re.compile(r"[^\w./~*?-]+")
_ENDS = (".py", ".pyc", ".*so", "/__init__.*", "/__main__.*")
_SHORT = re.compile(r"-[^-]")


def names_script(words: Sequence[Word], place: CommandPlace, outside: Callable[[str], bool]) -> int:
    """How many first words of a command name a Python module or file of the workspace; or 0.

    Args:
        outside: `Conditions.outside`.
    """
    argv = [word.text for word in words]
    if len(argv) < 2 or not _PYTHON.fullmatch(argv[0]):
        return 0
    if argv[1] == "-m":
        found, count = _module("".join(argv[2:3]), place), 3
    else:
        found, count = _file(argv[1], place), 2
    lies_here = bool(found) and not any(guarded(each) or outside(each) for each in found)
    return count if lies_here else 0


def judge_told(words: Iterable[Word], place: CommandPlace) -> str | None:
    """What is wrong with the arguments of Python code of the workspace, if anything is."""
    return next(filter(None, (_judge(word, place) for word in words)), None)


def paths_in(text: str) -> Iterator[str]:
    """Every path that a word may name: the word, and parts after option letters, `=` and so on."""
    yield text
    yield from filter(None, _PIECES.split(text))
    head = _PIECES.split(text, maxsplit=1)[0]
    if head.startswith("-"):
        # In `-vo/etc` any rest may be the value; after two dashes the letters are one name.
        short = _SHORT.match(head) is not None
        yield from (head[n:] for n in range(2, len(head)) if short or head[n] in "/~.")


def _judge(word: Word, place: CommandPlace) -> str | None:
    if not _PLAIN.fullmatch(word.text):
        return because("{word!r} may not be harmless", word=word.text)
    for each in paths_in(word.text) if word.text else ():
        problem = kinds.path(each, word.is_glob, place) or guarded(inside_of(each, place))
        if problem:
            return problem
    return matched_guard(word, place)


def _file(word: str, place: CommandPlace) -> list[str]:
    if word.startswith("-") or kinds.path(word, False, place):
        return []
    return list(place.matching(glob.escape(inside_of(word, place))))


def _module(name: str, place: CommandPlace) -> list[str]:
    """The files from which Python would load a module; none if it may load it from elsewhere.

    Python's own modules may be loaded already, and a folder without `__init__.py` comes after all
    installed packages.
    """
    names = name.split(".")
    own = names[0] in sys.stdlib_module_names or names[0] in MODULES
    if own or not all(map(str.isidentifier, names)):
        return []
    base = "" if place.cwd == "." else place.cwd
    tops = [f"{names[0]}/__init__.py"] if names[1:] else [f"{names[0]}/__init__.py", f"{name}.py"]
    if not any(_at(place, posixpath.join(base, each)) for each in tops):
        return []
    found: list[str] = []
    for count in range(1, len(names) + 1):
        stem = posixpath.join(base, *names[:count])
        last = [each for end in _ENDS for each in _at(place, stem, end)]
        if not last:
            return []
        found += last
    return found


def _at(place: CommandPlace, stem: str, end: str = "") -> list[str]:
    return list(place.matching(glob.escape(stem) + end))


READERS = "builtin:readers"
"""The name of the rule that allows commands that only read."""
_MAX_READ = 250_000
_MAX_SHOWN = 200
"""How many characters of a part a reason shows; the question shows the whole command."""
_MOVING = frozenset({"cd", "pushd", "popd"})


class Cover(Struct, frozen=True):
    """A rule or grant that may allow a part."""

    rule: str
    reason: str
    words: int
    """How many first words of the part it names, and so allows."""
    misfit: str | None
    """Why it does not apply to the part; None if it applies."""
    by_grant: bool = False


class Objection(Struct, frozen=True):
    """Why one part of a command asks."""

    part: Part
    rule: str
    reason: str
    stage: VerdictStage = VerdictStage.ASK_BUILT_IN

    @property
    def grave(self) -> bool:
        """Whether the part may change something; a mere reader asks only for lack of a rule."""
        return self.stage is VerdictStage.ASK_BUILT_IN or not self.part.only_reads


def command_verdict(
    call: Call, rules: Rules, conditions: Conditions, grant: Grant | None, trace: VerdictTrace
) -> Verdict:
    """Judge a call that runs a command."""
    text = call.access.command or ""
    if found := _unreadable(text, trace):
        return found
    place = CommandPlace(
        workspace=conditions.workspace, cwd=call.access.cwd or ".", matching=conditions.matching,
        own_programs=conditions.own_programs,
    )  # fmt: skip
    command = read_command(text, place)
    judging = _Judging(command, call, rules, conditions, grant, place, trace)
    found = (
        _denied(command, call, rules, conditions, trace)
        or _asked(command, call, rules, trace)
        or judging.doubted()
        or _unbounded(call, conditions, grant, trace)
        or judging.checked()
        or judging.covered()
    )
    return _in_its_box(_unlooked(found, call, trace), command)


def _in_its_box(found: Verdict, command: Command) -> Verdict:
    """Add to the verdict how a command runs that writes in the repository."""
    if not command.writes_git or found.decision == "deny":
        return found
    if found.decision == "allow":
        return found.model_copy(update={"git_as": found.run_as})
    told = because("git runs it without hooks, filters, an editor or a signature")
    changed = {"reason": together((found.reason, told)), "git_as": command.render("person")}
    return found.model_copy(update=changed)


def _unreadable(text: str, trace: VerdictTrace) -> Verdict | None:
    step = trace.enter(VerdictStage.DENY_BUILT_IN)
    if odd := spoofing(text):
        return _builtin("deny", "spoofing", because("the command contains {odd}", odd=odd), step)
    if not text.strip():
        return _builtin("deny", "empty", because("the command is empty"), step)
    if len(text) > _MAX_READ:
        return _builtin("deny", "too-long", because("the command is too long"), step)
    return None


def _denied(
    command: Command, call: Call, rules: Rules, conditions: Conditions, trace: VerdictTrace
) -> Verdict | None:
    step = trace.enter(VerdictStage.DENY_BUILT_IN)
    if reason := refusal(command.text, command.suspicion, conditions.workspace, conditions.home):
        return _builtin("deny", "never", reason, step)
    return _by_rule(command, call, rules, "deny", trace.enter(VerdictStage.DENY))


def _unlooked(found: Verdict, call: Call, trace: VerdictTrace) -> Verdict:
    """The verdict if there are folders in which nobody looked for guarded names: it asks."""
    if not call.access.unlooked or found.decision == "deny":
        return found
    reason = because(
        "the workspace has too many files to find all that need protection; not checked: {folders}",
        folders=", ".join(call.access.unlooked),
    )
    if found.decision == "ask":
        return found.model_copy(update={"reason": together((found.reason, reason))})
    return _builtin("ask", "too-many-files", reason, trace.enter(VerdictStage.ASK_BUILT_IN))


def _asked(command: Command, call: Call, rules: Rules, trace: VerdictTrace) -> Verdict | None:
    step = trace.enter(VerdictStage.ASK_BUILT_IN)
    if isinstance(command.parsed, Unparsed):
        return _builtin(
            "ask", "unparsed", because("not understood: {why}", why=command.parsed.reason), step
        )
    if not command.parts:
        return _builtin("ask", "unparsed", because("it contains no command"), step)
    return _by_rule(command, call, rules, "ask", trace.enter(VerdictStage.ASK))


def _unbounded(
    call: Call, conditions: Conditions, grant: Grant | None, trace: VerdictTrace
) -> Verdict | None:
    """Ask if the command may reach more of the network than approved, or if nothing limits that."""
    granted = _network(grant)
    step = trace.enter(VerdictStage.ASK_BUILT_IN)
    if not conditions.sandboxed and (granted or call.access.network):
        reason = because(
            "it may reach the network, and without a sandbox nothing limits what it reaches"
        )
        return _builtin("ask", "no-sandbox", reason, step)
    if not network_covers(granted, call.access.network or False):
        hosts = ", ".join(call.access.network)
        return _builtin(
            "ask",
            "network",
            because("it would reach {hosts}, which no plan allows", hosts=hosts),
            step,
        )
    return None


def _network(grant: Grant | None) -> bool | tuple[str, ...]:
    return False if grant is None else grant.scope.network


def _by_rule(
    command: Command, call: Call, rules: Rules, decision: Decision, step: TraceStep
) -> Verdict | None:
    for rule in rules.of(decision):
        if step.take(rule.name, _misfit(rule, call, command)):
            return Verdict(decision=decision, reason=rule.reason, rule=rule.name)
    return None


def _misfit(rule: Rule, call: Call, command: Command) -> str | None:
    """Why a rule that forbids or asks does not apply to anything that the command might do."""
    if other := rule.unconcerned(call.tool, call.agent):
        return other
    if rule.words:
        understood = (part.argv for part in command.parts)
        met = any(map(rule.covers_argv, (*command.suspicion.commands, *understood)))
        begins = _begins(rule.words, rule.text.exact)
        return None if met else because("nothing in it {begins}", begins=begins)
    path = rule.text.path
    if path is None:
        return None
    cwd = call.access.cwd or "."
    named = (posixpath.normpath(posixpath.join(cwd, w)) for w in words_of(command.suspicion))
    met = any(map(rule.covers_path, named))
    return None if met else because("it names nothing that {path!r} covers", path=path)


@lru_cache(maxsize=1_024)
def _begins(words: tuple[str, ...], exact: bool) -> str:
    if exact:
        return because("is exactly {words!r}", words=" ".join(words))
    return because("begins with {words!r}", words=" ".join(words))


def shown(part: Part) -> str:
    """A part of a command as text for people."""
    return " ".join(word.text for word in part.simple.words)


def _doubt(part: Part, call: Call, conditions: Conditions) -> tuple[str, str] | None:
    if part.is_git and not conditions.repo_trusted:
        return "untrusted-repository", because(
            "git would apply the settings of an unvetted repository"
        )
    if part.is_git and (call.access.cwd or ".") != ".":
        return "git-folder", because("git in a subfolder may find another repository's settings")
    if part.runs_code and (found := _unheld(part, call, conditions)):
        return found
    touched = _touched(part.reading.files, part.reading.patterns, call.access.cwd or "", conditions)
    found = _leads_out(touched, conditions)
    return None if found is None else ("outside", found)


def _leads_out(paths: Iterable[str], conditions: Conditions) -> str | None:
    """Why a path of these leads on the disk to something that is not allowed; else None."""
    for path in dict.fromkeys(paths):
        if conditions.outside(path):
            return because(
                "{path!r} leads out of the workspace, to a secret or to no file at all", path=path
            )
    return None


def _unheld(part: Part, call: Call, conditions: Conditions) -> tuple[str, str] | None:
    """Why a part that may do more than read must ask, even if a rule or plan allows it."""
    program = part.argv[0]
    if not conditions.sandboxed:
        return "no-sandbox", because(
            "{program!r} runs the repository's code, and there is no sandbox", program=program
        )
    barred = conditions.writes_barred and not part.writes_git
    if conditions.max_write_globs is not None and not barred:
        return "profile", because(
            "{program!r} may write where the agent {agent!r} may not",
            program=program,
            agent=call.agent,
        )
    return None


def _touched(
    files: Iterable[str], patterns: Iterable[str], cwd: str, conditions: Conditions
) -> Iterator[str]:
    """All paths that words may name: literally, by a pattern, after an option.

    Each path is normalised, and relative to the workspace if it is inside. The folders above it are
    included: if one of them leads outside, so does everything below.
    """
    found = [posixpath.join(cwd, path) for path in files if path != "/dev/null"]
    for pattern in patterns:
        found += conditions.matching(posixpath.join(glob.escape(cwd), pattern))
    below = conditions.workspace.rstrip("/") + "/"
    for path in filter(None, found):
        whole = posixpath.normpath(path).removeprefix(below)
        yield whole
        if not whole.startswith("/"):
            yield from map(str, PurePosixPath(whole).parents[:-1])


class _Judging(Struct, frozen=True):
    """Judges the parts of one command one by one, then the command as a whole."""

    command: Command
    call: Call
    rules: Rules
    conditions: Conditions
    grant: Grant | None
    place: CommandPlace
    trace: VerdictTrace

    def doubted(self) -> Verdict | None:
        """Ask for parts that always ask, together with the other parts that ask; else None."""
        doubts = list(filter(None, map(self._doubt_of, self.command.parts)))
        if not doubts:
            return None
        doubted = [objection.part for objection in doubts]
        others = (self._cover_of(part) for part in self.command.parts if part not in doubted)
        return self._asks([*doubts, *(o for o in others if isinstance(o, Objection))])

    def checked(self) -> Verdict | None:
        """Allow a check of the approved plan, with exactly its words and without any writing."""
        grant = self.grant
        if grant is None or grant.words is None or grant.words != self.call.access.command:
            return None
        step = self.trace.enter(VerdictStage.GRANT)
        problem = self._beyond_check()
        if not step.take(grant.name, problem):
            return Verdict(decision="ask", reason=str(problem), rule="builtin:check")
        reason = because(
            "the approved plan uses it to check subtask {subtask!r}", subtask=grant.subtask_id
        )
        return Verdict(
            decision="allow", reason=reason, rule=grant.name, source="grant",
            run_as=self.command.render("nobody"), read_only=True,
        )  # fmt: skip

    def _beyond_check(self) -> str | None:
        """Why a command does more than a check may; None if it does not."""
        if self.call.access.network:
            return because("it needs the network")
        if any(part.writes_git for part in self.command.parts):
            return because("it writes to the repository, which no check may do")
        return None

    def covered(self) -> Verdict:
        """Allow the command if rules or the grant cover each part; otherwise ask."""
        found = list(map(self._cover_of, self.command.parts))
        objections = [one for one in found if isinstance(one, Objection)]
        if objections:
            return self._asks(objections)
        covers = [one for one in found if isinstance(one, Cover)]
        by_grant = any(cover.by_grant for cover in covers)
        vouched = zip(self.command.parts, covers, strict=True)
        reads = any(cover.rule == READERS for cover in covers)
        made = products(((part.argv, cover.words) for part, cover in vouched), self.place.cwd)
        # A rule allows a command without the network; only the grant includes it.
        granted = _network(self.grant) if all(cover.by_grant for cover in covers) else False
        return Verdict(
            decision="allow",
            reason=together(dict.fromkeys(cover.reason for cover in covers)),
            rule="+".join(dict.fromkeys(cover.rule for cover in covers)),
            source="grant" if by_grant else "rule",
            run_as=self.command.render("nobody" if reads else "rules"),
            network=self.call.access.network or granted,
            read_only=reads,
            expects=(*made, *_declared(self.grant if by_grant else None)),
        )

    def _doubt_of(self, part: Part) -> Objection | None:
        step = self.trace.enter(VerdictStage.ASK_BUILT_IN, shown(part))
        doubt = _doubt(part, self.call, self.conditions) or self._mixed(part)
        if doubt is None:
            return None
        step.take(f"builtin:{doubt[0]}")
        return Objection(part, f"builtin:{doubt[0]}", doubt[1])

    def _mixed(self, part: Part) -> tuple[str, str] | None:
        if not part.writes_git or self.command.writes_git:
            return None
        return "git-alone", because(
            "git may write to the repository only when nothing else runs: run 'git add' and"
            " 'git commit' as separate commands"
        )

    def _cover_of(self, part: Part) -> Cover | Objection:
        """The rule or grant that allows this part, or why the part asks."""
        why: str | None = None
        for stage, covers in self._covers_of(part):
            step = self.trace.enter(stage, shown(part))
            for cover in covers:
                problem = cover.misfit or self._unvouched(part, cover)
                if step.take(cover.rule, problem):
                    return cover
                why = why or (None if cover.misfit else problem)
        why = why or uncovered(self.call, _subject(part, self.place), self.grant)
        return Objection(part, f"default:{self.call.tool_class}", why, VerdictStage.DEFAULT)

    def _covers_of(self, part: Part) -> Iterator[tuple[VerdictStage, Iterable[Cover]]]:
        yield VerdictStage.ALLOW, _rule_covers(part, self.call, self.rules)
        yield VerdictStage.GRANT, _grant_covers(part, self.call, self.grant)
        if self.conditions.readers:
            reason = because("it only reads, and the sandbox allows nothing else")
            yield VerdictStage.READERS, [Cover(READERS, reason, 0, self._more_than_reads())]

    def _more_than_reads(self) -> str | None:
        """Why the command cannot run as a reader: a part does more than read, or shows too much."""
        if self.call.access.network:
            return because("it needs the network")
        for part in self.command.parts:
            if not part.only_reads:
                return because("{part!r} may do more than read", part=_briefly(shown(part)))
            if part.reveals:
                return because(
                    "{part!r} may show a secret under another name", part=_briefly(shown(part))
                )
        return None

    def _unvouched(self, part: Part, cover: Cover) -> str | None:
        """Why a part asks although its cover allows the first words of it; else None."""
        if self._is_script(part, cover):
            problem = self._told_script(part, cover.words)
        else:
            problem = part.unknown(cover.words, self.place)
        if problem:
            return problem
        if part.writes_git and not cover.by_grant:
            return because("it writes to the repository, which only a plan or a person can allow")
        unheld = None if part.only_reads else _unheld(part, self.call, self.conditions)
        return unheld[1] if unheld else None

    def _is_script(self, part: Part, cover: Cover) -> bool:
        """Whether the part runs Python code of the workspace that the plan declares."""
        # After a `cd` it is unknown here where Python would look for the code.
        if not cover.by_grant or part.known or self._moves:
            return False
        words = part.simple.words
        count = names_script(words, self.place, self.conditions.outside)
        return 0 < count <= cover.words and not any(word.is_glob for word in words[: cover.words])

    @property
    def _moves(self) -> bool:
        return any(part.argv[0] in _MOVING for part in self.command.parts)

    def _told_script(self, part: Part, vouched: int) -> str | None:
        words = part.simple.words[vouched:]
        if problem := judge_told(words, self.place):
            return problem
        named = [path for word in words for path in paths_in(word.text)]
        cwd = self.call.access.cwd or ""
        return _leads_out(_touched(named, (), cwd, self.conditions), self.conditions)

    def _asks(self, objections: Sequence[Objection]) -> Verdict:
        """Ask, with the reasons of the gravest parts."""
        deciding = [one for one in objections if one.grave] or objections
        for one in deciding:
            self.trace.enter(one.stage, shown(one.part)).take(one.rule)
        told = dict.fromkeys(map(self._told, deciding))
        return Verdict(decision="ask", reason=together(told), rule=deciding[0].rule)

    def _told(self, objection: Objection) -> str:
        if len(self.command.parts) == 1:
            return objection.reason
        return because(
            "{part!r}: {reason}", part=_briefly(shown(objection.part)), reason=objection.reason
        )


def _briefly(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _declared(grant: Grant | None) -> Iterator[str]:
    """The guarded names that the plan declares by their exact paths."""
    for path in (grant.scope.paths if grant else None) or ():
        if is_literal(path) and write_guard(path) == "ask":
            yield path


def _subject(part: Part, place: CommandPlace) -> str:
    if part.argv[0] not in place.own_programs:
        return repr(part.argv[0])
    return because("{program!r}, a program of the workspace itself,", program=part.argv[0])


def uncovered(call: Call, subject: str, grant: Grant | None) -> str:
    """The reason for a question about something that neither a rule nor the plan allows."""
    if grant is not None:
        return because(
            "{subject} is outside the scope of subtask {subtask!r}",
            subject=subject,
            subtask=grant.subtask_id,
        )
    if call.plan_id is not None:
        return because(
            "{subject} needs approval each time, whatever the plan allows", subject=subject
        )
    return because("no rule allows {subject}", subject=subject)


def _rule_covers(part: Part, call: Call, rules: Rules) -> Iterator[Cover]:
    text = shown(part)
    for rule in rules.of("allow"):
        misfit = rule.unconcerned(call.tool, call.agent)
        if not rule.words:
            misfit = misfit or because("it names no command")
        elif not rule.covers_argv(part.argv):
            misfit = misfit or because(
                "{part!r} does not fit: nothing in it {begins}",
                part=text,
                begins=_begins(rule.words, rule.text.exact),
            )
        yield Cover(rule.name, "" if misfit else rule.reason, len(rule.words), misfit)


def _grant_covers(part: Part, call: Call, grant: Grant | None) -> Iterator[Cover]:
    if grant is None:
        return
    scope = grant.scope
    if scope.tools is not None and call.tool not in scope.tools:
        yield Cover(
            grant.name, "", 0, because("the plan does not declare {tool!r}", tool=call.tool)
        )
        return
    if not scope.commands:
        yield Cover(grant.name, "", 0, because("the plan declares no commands"))
    for written in scope.commands:
        words = read_prefix(written)
        reason = because(
            "the approved plan allows {written!r} to subtask {subtask!r}",
            written=written,
            subtask=grant.subtask_id,
        )
        if isinstance(words, str):
            yield Cover(grant.name, reason, 0, words)
            continue
        misfit = (
            None
            if part.argv[: len(words)] == words
            else because("it does not begin with {written!r}", written=written)
        )
        yield Cover(grant.name, reason, len(words), misfit, by_grant=True)


def _builtin(decision: Decision, name: str, reason: str, step: TraceStep) -> Verdict:
    found = Verdict(decision=decision, reason=reason, rule=f"builtin:{name}")
    step.take(found.rule)
    return found
