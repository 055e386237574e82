"""Rules of review: who answers which questions.

They are in the same files as the rules. Every rule of review that fits a question applies:

    [[review]]
    command = "git push"
    approvals = 2
    not_requester = true
    reviewers = ["ann", "bob", "eve"]
    escalate_after = "30m"
    escalate_to = ["lead"]

A rule of review says who answers a question, not whether it is asked. A file with a defect is
refused as a whole.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct
from pydantic import Field, StringConstraints, ValidationError

from gonogo.domain.base import Frozen
from gonogo.domain.errors import because, defect_of
from gonogo.domain.findings import EVERYTHING, Finding, FindingSeverity, Overlaps
from gonogo.domain.identity import Principal, Role
from gonogo.domain.paths import folded, misread
from gonogo.domain.reviews import Deed, Review, RoleWord, reviewer_id, reviewer_name, strictest
from gonogo.policy.denials import words_of
from gonogo.policy.kinds import CommandPlace
from gonogo.policy.programs import Command, read_command
from gonogo.policy.rules import COMMAND_TOOL, RULES_FILE, BadRules, plain_prefix
from gonogo.policy.shell import UNKNOWN

# Which paths in the workspace the words of a command may name: to ask more people, never to allow.
#
# A word that the shell computes, or that leads out of the workspace, may mean any path in it: the
# values of variables, and the place of the workspace on the machine, are unknown here.

_SYSTEM = re.compile(r"/(?:bin|dev|etc|lib|lib32|lib64|proc|sbin|sys|usr)(?:/|$)")
"""Folders of the machine that cannot contain a workspace."""
_CLASS = re.compile(r"\[[^]/]*\]")
_OPTION = re.compile(r"-[A-Za-z]")


def places(words: Iterable[str], cwd: str) -> Iterator[str]:
    """Globs of the paths that words may name, relative to the workspace; `**` for any path."""
    for word in words:
        for piece in _pieces(word):
            yield from _place(piece, cwd)


def _pieces(word: str) -> Iterator[str]:
    """The word, and the values in it: after an option's letter, after `=` and after `:`."""
    yield word
    if _OPTION.match(word):
        yield word[2:]
    yield from (piece for piece in re.split("[=:]", word)[1:] if not piece.startswith("//"))


def _place(piece: str, cwd: str) -> Iterator[str]:
    if not piece:
        return
    path = posixpath.normpath(posixpath.join(cwd, _as_glob(piece)))
    if _SYSTEM.match(path) and UNKNOWN not in path:
        return
    if UNKNOWN in path or path.startswith(("/", "~")) or path.split("/")[0] == "..":
        yield EVERYTHING
        return
    yield path
    if "*" in path or "?" in path:
        # If it matches a folder, everything below counts too.
        yield f"{path}/{EVERYTHING}"


def _as_glob(piece: str) -> str:
    """A pattern of the shell as one of our globs: a class becomes `?`, braces become `**`."""
    head, brace, _ = piece.partition("{")
    if brace:
        return EVERYTHING if ".." in piece else f"{posixpath.dirname(head) or '.'}/{EVERYTHING}"
    return _CLASS.sub("?", piece)


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SELECTORS = ("kind", "tool", "agent", "command", "path")

Words = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Who = Annotated[str, StringConstraints(max_length=200, pattern=r"^[\w.@:|/-]+$")]
Span = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}[smhd]$")]


class ReviewText(Frozen):
    """One rule of review as it is written."""

    kind: Words | None = None
    """`plan`, `tool`, `subtask`, `intervention` or another kind of question; None: any."""
    tool: Words | None = None
    agent: Words | None = None
    command: Words | None = None
    """The first words of a command."""
    path: Words | None = None
    """A glob, relative to the workspace, of paths that are read, written or deleted."""
    approvals: Annotated[int, Field(ge=1, le=100)] = 1
    role: RoleWord = "operator"
    reviewers: Annotated[tuple[Who, ...], Field(min_length=1, max_length=100)] | None = None
    not_requester: bool = False
    expires_after: Span | None = None
    escalate_after: Span | None = None
    escalate_to: Annotated[tuple[Who, ...], Field(max_length=100)] = ()
    escalate_role: RoleWord | None = None


@dataclass(frozen=True)
class ReadDeed:
    """A deed with its commands, which are parsed once, and only if a rule needs them."""

    deed: Deed

    @cached_property
    def commands(self) -> list[Command]:
        """The commands of the deed."""
        return [read_command(text, CommandPlace(workspace="/")) for text in self.deed.commands]


class ReviewRule(Struct, frozen=True, kw_only=True):
    """One rule of review, checked. `name` is its tier and number: `admin:review:1`."""

    name: str
    text: ReviewText
    review: Review
    where: str
    """File and line."""
    words: tuple[str, ...] = ()
    """The words of `command`."""

    def fits(self, kind: str, deeds: Collection[ReadDeed], overlaps: Overlaps) -> bool:
        """Whether it applies to a question."""
        if self.text.kind not in (None, "*", kind):
            return False
        if all(getattr(self.text, name) is None for name in _SELECTORS[1:]):
            return True
        return any(self._fits_deed(deed, overlaps) for deed in deeds)

    def within(self, other: "ReviewRule") -> bool:
        """Whether the other rule applies to every question to which this one applies."""
        mine, theirs = self.text, other.text
        return all(getattr(theirs, name) in (None, "*", getattr(mine, name)) for name in _SELECTORS)

    def _fits_deed(self, read: ReadDeed, overlaps: Overlaps) -> bool:
        deed = read.deed
        if self.text.agent not in (None, "*", deed.agent):
            return False
        if self.text.tool not in (None, "*") and self.text.tool not in deed.tools:
            return False
        if self.words and not any(self._begins(command, deed) for command in read.commands):
            return False
        return self.text.path is None or self._touches(deed, read.commands, overlaps)

    def _begins(self, command: Command, deed: Deed) -> bool:
        argvs = (*command.suspicion.commands, *(part.argv for part in command.parts))
        return any(_may_begin(argv, self.words, deed.declared) for argv in argvs)

    def _touches(self, deed: Deed, commands: list[Command], overlaps: Overlaps) -> bool:
        named = [word for command in commands for word in words_of(command.suspicion)]
        inside = places(dict.fromkeys(named), deed.cwd)
        named = [folded(path) for path in (*deed.paths, *inside)]
        found = overlaps.any((folded(self.text.path or ""),), named)
        return found is not None or overlaps.exhausted


class Reviews(Struct, frozen=True, kw_only=True):
    """All rules of review: the administrator's, then the user's."""

    rules: tuple[ReviewRule, ...] = ()

    def of(self, kind: str, deeds: Collection[Deed]) -> Review | None:
        """Who decides a question, by all rules that fit; None if no rule fits."""
        overlaps, read = Overlaps(), [ReadDeed(deed) for deed in deeds]
        found = [rule.review for rule in self.rules if rule.fits(kind, read, overlaps)]
        return strictest(found) if found else None

    @property
    def of_places(self) -> "Reviews":
        """The rules that name a path and apply to plans and calls alike."""
        named = (rule for rule in self.rules if rule.text.path is not None)
        return Reviews(rules=tuple(rule for rule in named if rule.text.kind in (None, "*")))

    def check_kinds(self, kinds: Collection[str]) -> None:
        """Refuse rules about kinds of questions that do not exist: they would never apply.

        Raises:
            BadRules: it names file and line.
        """
        for rule in self.rules:
            if rule.text.kind not in (None, "*", *kinds):
                known = ", ".join(sorted(kinds))
                raise BadRules(
                    "{where}: there is no kind {kind!r}; use {known}",
                    where=rule.where,
                    kind=rule.text.kind,
                    known=known,
                )


def load_reviews(admin: Path | None, user: Path | None) -> Reviews:
    """Read the rules of review from the rules files.

    Raises:
        BadRules: it names file and line of the first defect.
    """
    rules = (*_read_file(admin, "admin"), *_read_file(user, "user"))
    for one, other in combinations(rules, 2):
        _check_together(one, other)
    return Reviews(rules=rules)


def _read_file(path: Path | None, tier: str) -> Iterator[ReviewRule]:
    for number, (item, where) in enumerate(RULES_FILE.read(path, "review"), 1):
        rule = _one(item, f"{tier}:review:{number}", where)
        if isinstance(rule, str):
            raise BadRules(
                "{where}: review {number}: {rule}", where=where, number=number, rule=rule
            )
        yield rule


def _one(item: Any, name: str, where: str) -> ReviewRule | str:  # noqa: ANN401 - a stranger's
    try:
        text = ReviewText.model_validate(item)
    except ValidationError as error:
        return defect_of(error, "review")
    words = plain_prefix(text.command) if text.command else ()
    if isinstance(words, str):
        return words
    review = _review(text, name)
    defect = _defect(text) or review.problem()
    return defect or ReviewRule(name=name, text=text, review=review, where=where, words=words)


def _defect(text: ReviewText) -> str | None:
    for name in _SELECTORS:
        if said := misread(name, getattr(text, name) or ""):
            return said
    if text.command is not None and text.tool not in (None, COMMAND_TOOL):
        return because("the tool {tool!r} takes no commands", tool=text.tool)
    later = bool(text.escalate_to) or text.escalate_role is not None
    if later and text.escalate_after is None:
        return because("escalate_after is missing: say when they can decide too")
    if text.escalate_after is not None and not later:
        return because("escalate_to or escalate_role is missing: say who can decide too")
    return None


def _review(text: ReviewText, name: str) -> Review:
    named = text.reviewers
    return Review(
        needed=text.approvals,
        role=text.role,
        reviewers=tuple(dict.fromkeys(map(reviewer_id, named))) if named is not None else None,
        not_requester=text.not_requester,
        expires_after=_span(text.expires_after),
        escalate_after=_span(text.escalate_after),
        escalate_to=tuple(dict.fromkeys(map(reviewer_id, text.escalate_to))),
        escalate_role=text.escalate_role,
        rules=(name,),
    )


def _span(written: str | None) -> float | None:
    return None if written is None else float(int(written[:-1]) * _SECONDS[written[-1]])


def _check_together(one: ReviewRule, other: ReviewRule) -> None:
    """Check that two rules that always apply together leave somebody who can decide."""
    if not (one.within(other) or other.within(one)):
        return
    problem = strictest((one.review, other.review)).problem()
    if problem:
        raise BadRules(
            "{where}: {problem}; see {other}", where=other.where, problem=problem, other=one.where
        )


def _may_begin(argv: tuple[str, ...], words: tuple[str, ...], declared: bool) -> bool:
    """Whether a command begins with these words, as far as one can see."""
    if len(argv) < len(words) and not declared:
        return UNKNOWN in argv
    pairs = zip(argv, words, strict=False)
    return all(said == word or UNKNOWN in said for said, word in pairs)


# Whether rules of review leave somebody to decide, given the known people.
#
# A file that contradicts itself is refused when it is read. A file that needs more people than
# there are is only a finding, since people come and go.

_PROVIDER = "oidc:"
_MOST_NAMED = 5


class KnownPeople(Struct, frozen=True, kw_only=True):
    """The people who could ask and decide."""

    people: Mapping[str, Role]
    """The ids of principals, each with the highest role of their tokens."""
    others: bool = False
    """There is an identity provider, so people may come who are not known yet."""

    def someone(self, principal_id: str) -> bool:
        """Whether somebody has that id, or may have it."""
        return principal_id in self.people or (self.others and principal_id.startswith(_PROVIDER))

    def principals(self) -> Iterator[Principal]:
        """The people whose roles are known."""
        for who, role in self.people.items():
            yield Principal(id=who, name=reviewer_name(who), role=role)


def review_findings(reviews: Reviews, known: KnownPeople) -> list[Finding]:
    """The warnings about rules of review, such as people who do not exist."""
    return [found for rule in reviews.rules for found in _of_rule(rule, reviews, known)]


def _of_rule(rule: ReviewRule, reviews: Reviews, known: KnownPeople) -> Iterator[Finding]:
    review = rule.review
    named = [("reviewers", who) for who in review.reviewers or ()]
    named += [("escalate_to", who) for who in review.escalate_to]
    for field, who in named:
        fields = {"field": field, "name": reviewer_name(who), "role": review.role}
        if not known.someone(who):
            yield _finding(rule, "review_nobody", fields)
        elif known.people.get(who, Role.ADMIN) < Role[review.role.upper()]:
            yield _finding(rule, "review_weak", fields)
    yield from _too_few(rule, reviews, known)


def _too_few(rule: ReviewRule, reviews: Reviews, known: KnownPeople) -> Iterator[Finding]:
    """Findings about too few people: how many can approve may depend on who asks."""
    held = strictest([other.review for other in reviews.rules if rule.within(other)]).escalated()
    if known.others and (held.reviewers is None or held.also_role is not None):
        return
    asking = [who for who in known.principals() if who.role >= Role.OPERATOR]
    able = {who.name: _able(held, who, known) for who in asking}
    short = [name for name, count in able.items() if count < held.needed]
    fields = {"needed": str(held.needed), "able": str(max(able.values(), default=0))}
    if len(short) == len(able):
        yield _finding(rule, "review_too_few", fields)
    elif short:
        more = ["…"] if len(short) > _MOST_NAMED else []
        fields["names"] = ", ".join([*short[:_MOST_NAMED], *more])
        yield _finding(rule, "review_too_few_when", fields)


def _able(held: Review, asks: Principal, known: KnownPeople) -> int:
    """How many people could approve what somebody asks for in their own session."""
    everybody = [
        who
        for who in known.principals()
        if held.admits(who) and held.has_role(who) and not held.bars(who, asks.id)
    ]
    if held.reviewers is None:
        return sum(who.role >= Role.ADMIN or who.id == asks.id for who in everybody)
    coming = {*held.reviewers, *held.also} - set(known.people)
    return len(everybody) + sum(map(known.someone, coming))


def _finding(rule: ReviewRule, code: str, fields: Mapping[str, str]) -> Finding:
    named = {"rule": rule.name, "where": rule.where, **fields}
    return Finding(severity=FindingSeverity.WARNING, code=code, fields=named)
