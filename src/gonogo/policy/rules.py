"""Rules: what an administrator and a user have decided before anybody asks, and who looked at them.

A rules file is TOML, never from a workspace. Each rule may bring examples, which are tried when
the file loads: a file with a rule that is too broad, or that does not do what its examples say,
is refused whole.

    [[rule]]
    command = "pytest"
    decision = "allow"
    reason = "tests run in the sandbox"
    match = ["pytest -q tests"]
    not_match = ["pytest -p evil"]
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field, ValidationError

from gonogo.domain.base import Frozen, digest
from gonogo.domain.commands import (
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
from gonogo.domain.errors import InvalidMessage, because, defect_of
from gonogo.domain.findings import irreversible
from gonogo.domain.paths import covers, folded, is_literal, misread
from gonogo.domain.tool_calls import Call, ToolClass
from gonogo.domain.views import ApprovalView
from gonogo.policy.kinds import CommandPlace, nothing_matches
from gonogo.policy.programs import covers_example, read_command
from gonogo.policy.shell import ParsedCommand, Unparsed, parse_command
from gonogo.tables import TableFile

# What a verdict was made of: each step in order, and each rule that was looked at.
#
# The functions that judge a call write this down as they go, so what is explained is what happened.


class VerdictStage(StrEnum):
    """A step of the verdict's order."""

    DENY_BUILT_IN = "built-in deny"
    DENY = "deny rules"
    ASK_BUILT_IN = "built-in ask"
    ASK = "ask rules"
    ALLOW = "allow rules"
    GRANT = "grant"
    READERS = "readers"
    DEFAULT = "default"
    UNATTENDED = "unattended"


class RuleLook(Struct, frozen=True):
    """One rule, grant or check, and what it says of the call."""

    rule: str
    misfit: str | None = None
    """Why it does not speak of the call; None where it does."""


class TraceStep(Struct):
    """One step: what was looked at, and what decided, if anything did."""

    stage: VerdictStage
    part: str | None = None
    """The part of a compound command that it is about; None is the call as a whole."""
    looks: list[RuleLook] = field(default_factory=list[RuleLook])
    decided: str | None = None
    """The rule, grant or default that decided here."""

    def take(self, rule: str, misfit: str | None = None) -> bool:
        """Write down a look; gives whether it decided."""
        self.looks.append(RuleLook(rule, misfit))
        if misfit is None:
            self.decided = rule
        return misfit is None


class VerdictTrace(Struct):
    """The steps of one verdict, in order."""

    steps: list[TraceStep] = field(default_factory=list[TraceStep])

    def enter(self, stage: VerdictStage, part: str | None = None) -> TraceStep:
        """Begin a step."""
        step = TraceStep(stage, part)
        self.steps.append(step)
        return step

    @property
    def looked_at(self) -> set[str]:
        """The names of all that was looked at."""
        return {look.rule for step in self.steps for look in step.looks}


# Under which conditions a call is judged.

ALWAYS_ASK = frozenset({"delete_file"})


def nothing_is_outside(path: str) -> bool:
    """The judgement of a caller that cannot look at the disk."""
    del path
    return False


class Conditions(Struct, frozen=True, kw_only=True):
    """What the runtime knows and the call does not say."""

    workspace: str
    """Absolute path of the workspace's folder."""
    home: str = ""
    """Absolute path of the folder that holds gonogo's state."""
    attended: bool = True
    """Somebody can be asked; else asking is denying."""
    repo_trusted: bool = True
    """The repository's own git settings were vetted; else each git command asks."""
    sandboxed: bool = True
    """Commands run in a sandbox; else those that run the repository's code ask."""
    auto_approve: bool = True
    """The plan's grant allows calls; else each asks."""
    max_write_globs: tuple[str, ...] | None = None
    """The only paths that the agent's profile may write; None is any."""
    readers: bool = False
    """A command of which each part is known to only read needs no question: whoever asks runs it
    where nothing can be written and nothing reached."""
    writes_barred: bool = False
    """Commands that nobody looks at run where the workspace cannot be written."""
    changed: str | None = None
    """What is not as it was when the call's tool was allowed; what allowed it then is left out."""
    always_ask: frozenset[str] = ALWAYS_ASK
    """Tools that no grant covers."""
    own_programs: Collection[str] = ()
    """Names that stand for programs of the workspace itself: they are code of the repository."""
    tools: frozenset[str] | None = None
    """The tools that exist; None when the caller has checked."""
    outside: Callable[[str], bool] = nothing_is_outside
    """Whether a relative path that a command names is something else on the disk than a file or
    folder inside the workspace: a link that leads out or to a secret, a pipe, a device."""
    matching: Callable[[str], Iterable[str]] = nothing_matches
    """The relative paths on the disk that a pattern, as Python's glob reads it, matches."""


# Which beginnings of commands a rule or a plan may allow: none that would allow anything.

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
        return because(
            "{program!r} reaches the network: name its allowed arguments", program=program
        )
    if kind in SHELLS | INTERPRETERS and (open_ended := _unnamed(kind, program, rest)):
        return open_ended
    return _starting_option(kind, program, rest) or _launched(kind, program, rest)


def _unnamed(kind: str, program: str, rest: Sequence[str]) -> str | None:
    """Why nobody can tell what code a shell, an interpreter or a builder would run."""
    if list(rest[:1]) == ["-m"] and (len(rest) == 1 or (len(rest) == 2 and rest[1] in MODULES)):
        return because("{program!r} can run any module: name one", program=program)
    named = rest and (not rest[0].startswith("-") or rest[0] in ("-m", "-jar"))
    if not named or (len(rest) == 1 and rest[0] in RUNNERS.get(kind, ())):
        return because(
            "{program!r} alone can run any code; add what it should run", program=program
        )
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
        return because("{program!r} can run other commands: name one", program=program)
    if inner[0].startswith("-"):
        return because(
            "{program!r} can run other commands: name one, without {option!r} before it",
            program=program,
            option=inner[0],
        )
    verbs = RUNNERS[kind]
    told = not verbs or not verbs.isdisjoint(rest[: len(rest) - len(inner)])
    return too_broad(inner) if told or kind in TAKE_ANY else None


# The file that rules and reviews stand in.


class BadRules(InvalidMessage):
    """A rules file has a defect; the message begins with file and line."""


RULES_FILE = TableFile(what=because("a rules file"), names=("rule", "review"), refusal=BadRules)

COMMAND_TOOL = "execute_command"
Decision = Literal["allow", "ask", "deny"]


class RuleText(Frozen):
    """One rule as it is written."""

    decision: Decision
    tool: str | None = None
    """A tool's name; None is any tool that the other fields fit."""
    agent: str | None = None
    command: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """How a command begins, word by word; a final `*` changes nothing."""
    exact: bool = False
    """The command has just these words; the path is just this one."""
    path: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """Glob, relative to the workspace, of what the tool reads, writes or deletes."""
    reason: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


class Rule(Struct, frozen=True, kw_only=True):
    """One rule, checked. `name` is its tier and number: `user:3`."""

    name: str
    text: RuleText
    words: tuple[str, ...] = ()
    """The words of `command`."""
    where: str = ""
    """Where it is written: file and line, or who made it."""

    @property
    def reason(self) -> str:
        """What people are told of it."""
        subject = self.text.command or self.text.path or self.text.tool or "every call"
        return self.text.reason or because(
            "rule {rule}: {decision} {subject}",
            rule=self.name,
            decision=self.text.decision,
            subject=subject,
        )

    def unconcerned(self, tool: str, agent: str) -> str | None:
        """Why the rule does not speak of this tool in the hands of this agent, if it does not."""
        if self.text.tool not in (None, "*", tool):
            return because("it is about the tool {tool!r}", tool=self.text.tool)
        if self.text.agent not in (None, "*", agent):
            return because("it is about the agent {agent!r}", agent=self.text.agent)
        return None

    def covers_path(self, path: str) -> bool:
        """Whether the rule's glob covers a path; a rule without one covers each.

        What forbids or asks speaks of every spelling that some file system takes for the path.
        """
        glob = self.text.path or "**"
        if self.text.decision != "allow":
            glob, path = folded(glob), folded(path)
        return glob == path if self.text.exact else covers((glob,), path)

    def names_path(self, path: str) -> bool:
        """Whether the rule names this very path, without a wildcard."""
        return self.text.path is not None and is_literal(self.text.path) and self.text.path == path

    def covers_argv(self, argv: tuple[str, ...]) -> bool:
        """Whether a command begins with the rule's words, or is just them."""
        if self.text.exact:
            return argv == self.words
        return argv[: len(self.words)] == self.words


class Rules(Struct, frozen=True, kw_only=True):
    """All rules, the administrator's before the user's before the session's."""

    admin: tuple[Rule, ...] = ()
    user: tuple[Rule, ...] = ()
    session: tuple[Rule, ...] = ()
    version: str = digest([])
    """Digest of the rules; part of what every approval binds."""

    def of(self, decision: Decision) -> Iterator[Rule]:
        """The rules with this decision, in order."""
        return (rule for rule in self.all() if rule.text.decision == decision)

    def all(self) -> tuple[Rule, ...]:
        """Every rule, in the order of the tiers."""
        return (*self.admin, *self.user, *self.session)

    def with_session(self, rules: Sequence[Rule]) -> "Rules":
        """These rules and, below them, those of a session.

        What a person approved holds whatever else is allowed later; so an approval binds only
        those rules of a session that forbid or ask.
        """
        strict = [r.text.model_dump(mode="json") for r in rules if r.text.decision != "allow"]
        version = digest({"files": self.version, "session": strict}) if strict else self.version
        return replace(self, session=(*self.session, *rules), version=version)

    def strict(self) -> "Rules":
        """Those that forbid or ask; what an approval binds stays the same."""
        tiers = {
            tier: tuple(r for r in rules if r.text.decision != "allow")
            for tier, rules in (("admin", self.admin), ("user", self.user))
        }
        return replace(self, **tiers)

    def where(self, name: str) -> tuple[str, ...]:
        """Where what decided is written; `name` may name several, joined by `+`."""
        names = name.split("+")
        return tuple(rule.where for rule in self.all() if rule.name in names and rule.where)


def load_rules(admin: Path | None, user: Path | None) -> Rules:
    """Read the rules files; a file that does not exist has no rules.

    Raises:
        BadRules: naming file and line of the first defect.
    """
    return make_rules(_read_file(admin, "admin"), _read_file(user, "user"))


def make_rules(admin: Iterable[Rule], user: Iterable[Rule]) -> Rules:
    """Put checked rules together."""
    tiers = {"admin": tuple(admin), "user": tuple(user)}
    shown = {t: [r.text.model_dump(mode="json") for r in rules] for t, rules in tiers.items()}
    return Rules(admin=tiers["admin"], user=tiers["user"], version=digest(shown))


def make_rule(name: str, text: RuleText, where: str = "") -> Rule | str:
    """Check one rule and its examples; the defect if it has one."""
    if odd := _odd(text):
        return odd
    if text.command is None:
        return _without_command(name, text, where)
    if text.path is not None:
        return because("give a rule a command or a path, not both")
    if text.tool not in (None, COMMAND_TOOL):
        return because("the tool {tool!r} takes no commands", tool=text.tool)
    whole = text.exact or text.decision != "allow"
    words = plain_prefix(text.command) if whole else read_prefix(text.command)
    if isinstance(words, str):
        return words
    rule = Rule(name=name, text=text, words=words, where=where)
    return _broken_example(rule) or rule


def _odd(text: RuleText) -> str | None:
    """What in a rule shows its reader something else than what it says, if anything does."""
    fields = ("tool", "agent", "command", "path", "reason")
    found = (misread(name, getattr(text, name) or "") for name in fields)
    return next(filter(None, found), None)


def _without_command(name: str, text: RuleText, where: str) -> Rule | str:
    if text.exact and text.path is None:
        return because("'exact' needs a command or a path")
    if text.decision == "allow" and text.tool in (COMMAND_TOOL, "*"):
        return because("this would allow every use of {tool!r}: name a command", tool=text.tool)
    if text.decision == "allow" and text.tool is None:
        return because("a rule that allows must name a tool or a command")
    rule = Rule(name=name, text=text, where=where)
    return _broken_example(rule) or rule


def _broken_example(rule: Rule) -> str | None:
    for example in rule.text.match:
        if not _fits(rule, example):
            return because("the rule does not match its example {example!r}", example=example)
    for example in rule.text.not_match:
        if _fits(rule, example):
            return because("the rule matches {example!r}, which it should not", example=example)
    return None


def _fits(rule: Rule, example: str) -> bool:
    if rule.text.command is not None:
        return covers_example(rule.covers_argv, len(rule.words), rule.text.decision, example)
    if rule.text.path is not None:
        return rule.covers_path(example)
    return rule.text.tool in (None, "*", example)


def _read_file(path: Path | None, tier: str) -> Iterator[Rule]:
    for number, (item, where) in enumerate(RULES_FILE.read(path, "rule"), 1):
        rule = _one(item, f"{tier}:{number}", where)
        if isinstance(rule, str):
            raise BadRules("{where}: rule {number}: {rule}", where=where, number=number, rule=rule)
        yield rule


def _one(item: Any, name: str, where: str) -> Rule | str:  # noqa: ANN401 - as a stranger wrote it
    try:
        return make_rule(name, RuleText.model_validate(item), where)
    except ValidationError as error:
        return defect_of(error, "rule")


# Rules of one session: what its owner decided while it goes on, below all rules of files.
#
# The narrowest rule for a call covers just this call in the hands of just this agent; where there
# is none so narrow, there is none.


def session_rule(position: int, text: RuleText, made_by: str) -> Rule | str:
    """Check a new rule of a session, as one in a file is checked; the defect if it has one."""
    return make_rule(f"session:{position}", text, f"of the session, made by {made_by}")


def kept_rule(position: int, fields: Mapping[str, Any], made_by: str) -> Rule | None:
    """A rule that was checked when it was made.

    One that would not be taken any more allows nothing; where it forbids or asks, it does so for
    everything that it may have meant.
    """
    text = RuleText.model_validate({**fields, "match": (), "not_match": ()})
    rule = session_rule(position, text, made_by)
    if isinstance(rule, Rule):
        return rule
    if text.decision == "allow":
        return None
    wider = text.model_copy(update={"command": None, "exact": False})
    return Rule(name=f"session:{position}", text=wider, where=rule)


def lasting(approval: ApprovalView) -> Iterator[str]:
    """How a call can be approved for longer than once: `for_plan`, `for_session`; as the wire says.

    Only where a rule may be able to allow just this call.
    """
    has_words = "words_for_plan" in approval.details
    if has_words:
        yield "for_plan"
    is_simple = has_words or (not approval.plan_id and len(approval.details.get("parts", ())) == 1)
    is_command = approval.tool_name == "execute_command"
    if is_simple if is_command else approval.tool_name not in ALWAYS_ASK:
        yield "for_session"


def narrowest(call: Call, always_ask: frozenset[str]) -> RuleText | str:
    """The rule that allows just this call, or why there is none."""
    if call.tool in always_ask or call.tool_class is ToolClass.IRREVERSIBLE:
        return because("{tool} needs approval each time", tool=call.tool)
    if call.access.command is not None:
        return _of_command(call, call.access.command)
    paths = {*call.access.reads, *call.access.writes, *call.access.deletes}
    if len(paths) != 1:
        return because("only a call that touches one path can get a rule of its own")
    (path,) = paths
    if not is_literal(path):
        return because("{path!r} would be read as a pattern", path=path)
    return RuleText(decision="allow", tool=call.tool, agent=call.agent, path=path, exact=True)


def _of_command(call: Call, text: str) -> RuleText | str:
    if final := irreversible(text):
        return because("{final!r} cannot be undone, so each call needs approval", final=final)
    command = read_command(text, CommandPlace(workspace="/"))
    if isinstance(command.parsed, Unparsed) or len(command.parts) != 1:
        return because("only one simple command can get a rule of its own")
    (part,) = command.parts
    words = shlex.join(part.argv)
    return RuleText(decision="allow", tool=call.tool, agent=call.agent, command=words, exact=True)
