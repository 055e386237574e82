"""Rules: what an administrator, a user and a session's owner have decided before anybody is asked.

A rules file is TOML, never from a workspace. Each rule may have examples, which are tried when the
file is loaded. If a rule is too broad, or does not do what its examples say, the whole file is
refused.

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

# How a verdict was reached: each step in order, and each rule that was checked.
#
# The functions that judge a call write this down as they run, so the explanation is what happened.


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
    """One rule, grant or check, and whether it applies to the call."""

    rule: str
    misfit: str | None = None
    """Why it does not apply to the call; None if it applies."""


class TraceStep(Struct):
    """One step: what was checked, and what decided, if anything did."""

    stage: VerdictStage
    part: str | None = None
    """The part of a compound command that it is about; None: the whole call."""
    looks: list[RuleLook] = field(default_factory=list[RuleLook])
    decided: str | None = None
    """The rule, grant or default that decided here."""

    def take(self, rule: str, misfit: str | None = None) -> bool:
        """Record a check, and return whether it decided."""
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
        """The names of everything that was checked."""
        return {look.rule for step in self.steps for look in step.looks}


# The conditions under which a call is judged.

ALWAYS_ASK = frozenset({"delete_file"})


def nothing_is_outside(path: str) -> bool:
    """The default for a caller that cannot look at the disk."""
    del path
    return False


class Conditions(Struct, frozen=True, kw_only=True):
    """What the runtime knows but the call does not say."""

    workspace: str
    """Absolute path of the workspace's folder."""
    home: str = ""
    """Absolute path of the folder with gonogo's state."""
    attended: bool = True
    """Somebody can be asked; if not, `ask` becomes `deny`."""
    repo_trusted: bool = True
    """The repository's own git settings were checked; if not, each git command asks."""
    sandboxed: bool = True
    """Commands run in a sandbox; if not, those that run the repository's code ask."""
    auto_approve: bool = True
    """The plan's grant allows calls; if not, each call asks."""
    max_write_globs: tuple[str, ...] | None = None
    """The only paths that the agent's profile may write; None: any."""
    readers: bool = False
    """A command whose parts are all known to only read needs no question; the caller must then run
    it where it can write nothing and reach nothing."""
    writes_barred: bool = False
    """Commands that no person has seen run where the workspace cannot be written."""
    changed: str | None = None
    """What has changed since the call's tool was allowed; that permission no longer counts."""
    always_ask: frozenset[str] = ALWAYS_ASK
    """Tools that no grant covers."""
    own_programs: Collection[str] = ()
    """Names of programs of the workspace itself: they are code of the repository."""
    tools: frozenset[str] | None = None
    """The tools that exist; None if the caller has checked that."""
    outside: Callable[[str], bool] = nothing_is_outside
    """Whether a relative path that a command names is not a file or folder inside the workspace,
    but a link that leads out or to a secret, a pipe, or a device."""
    matching: Callable[[str], Iterable[str]] = nothing_matches
    """The relative paths on the disk that match a pattern of Python's glob."""


# Which prefixes of commands a rule or a plan may allow: none that would allow anything at all.

_FLAGS = frozenset(
    """-q --quiet -v --verbose -y --yes --silent --offline --frozen --locked --isolated --no-sync
    --no-install --all-extras""".split()
)
"""Options of package tools without a value; after another option the next word may be its value."""
_FARTHER = frozenset({"exec", "dlx"})
"""After these a program follows, whatever comes before them: `yarn workspace a exec`."""
_NETWORK = frozenset(
    """curl wget nc ncat netcat socat telnet ftp sftp scp rsync ping ping6 nslookup dig host
    traceroute whois http https httpie xh""".split()
)


def read_prefix(written: str) -> tuple[str, ...] | str:
    """Read a prefix of commands as words; a final `*` makes no difference.

    Returns:
        The words, or the reason why such a prefix may not be allowed.
    """
    words = plain_prefix(written)
    if isinstance(words, str):
        return words
    return too_broad(words) or words


def plain_prefix(written: str) -> tuple[str, ...] | str:
    """Read a prefix of commands as words, without checking whether it is too broad."""
    command = parse_command(re.sub(r"\s\*\s*$", "", written))
    if not isinstance(command, ParsedCommand) or len(command.parts) != 1:
        return because("{written!r} is not one simple command", written=written)
    part = command.parts[0]
    if part.redirects or part.negated or any(word.is_glob for word in part.words):
        return because("{written!r} is not plain words", written=written)
    return part.argv


def too_broad(words: Sequence[str]) -> str | None:
    """Why allowing all commands that begin with `words` would allow anything at all; else None."""
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
    """Why it is unknown what code a shell, an interpreter or a builder would run; else None."""
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
        # The first word of tar is a group of option letters, with or without a dash.
        bundled = kind == "tar" and number == 0
        if starts_others(word, kind) or (bundled and starts_others(f"-{word}", kind)):
            return because(
                "{option!r} of {program!r} runs other commands", option=word, program=program
            )
    return None


def _launched(kind: str, program: str, rest: Sequence[str]) -> str | None:
    """Why it is unknown or too broad what a runner of other programs would run; else None."""
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


# The file with rules and reviews.


class BadRules(InvalidMessage):
    """A rules file has a defect; the message begins with file and line."""


RULES_FILE = TableFile(what=because("a rules file"), names=("rule", "review"), refusal=BadRules)

COMMAND_TOOL = "execute_command"
Decision = Literal["allow", "ask", "deny"]


class RuleText(Frozen):
    """One rule as it is written."""

    decision: Decision
    tool: str | None = None
    """A tool's name; None: any tool for which the other fields make sense."""
    agent: str | None = None
    command: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """The first words of a command; a final `*` changes nothing."""
    exact: bool = False
    """The command has exactly these words, or the path is exactly this one."""
    path: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """A glob, relative to the workspace, of paths that the tool reads, writes or deletes."""
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
    """Where it is written (file and line), or who made it."""

    @property
    def reason(self) -> str:
        """The reason that people see for its verdict."""
        subject = self.text.command or self.text.path or self.text.tool or "every call"
        return self.text.reason or because(
            "rule {rule}: {decision} {subject}",
            rule=self.name,
            decision=self.text.decision,
            subject=subject,
        )

    def unconcerned(self, tool: str, agent: str) -> str | None:
        """Why the rule does not apply to this tool and agent; None if it applies."""
        if self.text.tool not in (None, "*", tool):
            return because("it is about the tool {tool!r}", tool=self.text.tool)
        if self.text.agent not in (None, "*", agent):
            return because("it is about the agent {agent!r}", agent=self.text.agent)
        return None

    def covers_path(self, path: str) -> bool:
        """Whether the rule's glob covers a path; a rule without a glob covers every path.

        A rule that forbids or asks also covers every spelling that some file system takes for the
        same path.
        """
        glob = self.text.path or "**"
        if self.text.decision != "allow":
            glob, path = folded(glob), folded(path)
        return glob == path if self.text.exact else covers((glob,), path)

    def names_path(self, path: str) -> bool:
        """Whether the rule names exactly this path, without a wildcard."""
        return self.text.path is not None and is_literal(self.text.path) and self.text.path == path

    def covers_argv(self, argv: tuple[str, ...]) -> bool:
        """Whether a command begins with the rule's words; for an exact rule, equals them."""
        if self.text.exact:
            return argv == self.words
        return argv[: len(self.words)] == self.words


class Rules(Struct, frozen=True, kw_only=True):
    """All rules: the administrator's, then the user's, then the session's."""

    admin: tuple[Rule, ...] = ()
    user: tuple[Rule, ...] = ()
    session: tuple[Rule, ...] = ()
    version: str = digest([])
    """Digest of the rules; every approval is bound to it."""

    def of(self, decision: Decision) -> Iterator[Rule]:
        """The rules with this decision, in order."""
        return (rule for rule in self.all() if rule.text.decision == decision)

    def all(self) -> tuple[Rule, ...]:
        """Every rule, in the order of the tiers."""
        return (*self.admin, *self.user, *self.session)

    def with_session(self, rules: Sequence[Rule]) -> "Rules":
        """These rules and, after them, those of a session.

        An approval stays valid if more is allowed later. So it is bound only to those rules of a
        session that forbid or ask.
        """
        strict = [r.text.model_dump(mode="json") for r in rules if r.text.decision != "allow"]
        version = digest({"files": self.version, "session": strict}) if strict else self.version
        return replace(self, session=(*self.session, *rules), version=version)

    def strict(self) -> "Rules":
        """Only the rules that forbid or ask; the version stays the same."""
        tiers = {
            tier: tuple(r for r in rules if r.text.decision != "allow")
            for tier, rules in (("admin", self.admin), ("user", self.user))
        }
        return replace(self, **tiers)

    def where(self, name: str) -> tuple[str, ...]:
        """Where the deciding rules are written; `name` may name several, joined by `+`."""
        names = name.split("+")
        return tuple(rule.where for rule in self.all() if rule.name in names and rule.where)


def load_rules(admin: Path | None, user: Path | None) -> Rules:
    """Read the rules files; a file that does not exist has no rules.

    Raises:
        BadRules: naming file and line of the first defect.
    """
    return make_rules(_read_file(admin, "admin"), _read_file(user, "user"))


def make_rules(admin: Iterable[Rule], user: Iterable[Rule]) -> Rules:
    """Combine checked rules."""
    tiers = {"admin": tuple(admin), "user": tuple(user)}
    shown = {t: [r.text.model_dump(mode="json") for r in rules] for t, rules in tiers.items()}
    return Rules(admin=tiers["admin"], user=tiers["user"], version=digest(shown))


def make_rule(name: str, text: RuleText, where: str = "") -> Rule | str:
    """Check one rule and its examples; return the rule, or its defect."""
    if odd := _odd(text) or _pattern(text):
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
    """What in a rule looks different to a reader than it is, if anything does."""
    fields = ("tool", "agent", "command", "path", "reason")
    found = (misread(name, getattr(text, name) or "") for name in fields)
    return next(filter(None, found), None)


def _pattern(text: RuleText) -> str | None:
    """A tool or agent that is written as a pattern: it would match none, also where it denies."""
    for word in (text.tool, text.agent):
        if word is not None and word != "*" and not {"*", "?"}.isdisjoint(word):
            return because("{word!r} is not a name: write one name, or '*' for any", word=word)
    return None


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


# Rules of one session: what its owner decides while it runs; all rules of files come before them.
#
# The narrowest rule for a call covers only this call of this agent; for some calls there is none.


def session_rule(position: int, text: RuleText, made_by: str) -> Rule | str:
    """Check a new rule of a session like one in a file; return the rule, or its defect."""
    return make_rule(f"session:{position}", text, f"of the session, made by {made_by}")


def kept_rule(position: int, fields: Mapping[str, Any], made_by: str) -> Rule | None:
    """A stored rule of a session, which was checked when it was made.

    If it would not be accepted any more, it allows nothing (None). But if it forbids or asks, it
    does so for everything that it may have meant.
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
    """How a call can be approved for longer than once: `for_plan`, `for_session` (wire words).

    Only if a rule may be able to allow exactly this call.
    """
    has_words = "words_for_plan" in approval.details
    if has_words:
        yield "for_plan"
    is_simple = has_words or (not approval.plan_id and len(approval.details.get("parts", ())) == 1)
    is_command = approval.tool_name == "execute_command"
    if is_simple if is_command else approval.tool_name not in ALWAYS_ASK:
        yield "for_session"


def narrowest(call: Call, always_ask: frozenset[str]) -> RuleText | str:
    """The rule that allows only this call, or the reason why there is none."""
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
