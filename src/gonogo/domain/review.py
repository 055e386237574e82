"""Reviews: who may decide a question, how many of them have to agree, and who hears of it later.

A review is bound to its question when that is opened; what a file says afterwards changes nothing.
Reviewers are known by the ids of principals: `ann` in a file is the principal `user:ann`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gonogo.domain._reach import ProfileFacts, reach_of
from gonogo.domain.base import Frozen
from gonogo.domain.gate import Access, ToolClass
from gonogo.domain.globs import Overlaps
from gonogo.domain.kinds import COMMAND_TOOL
from gonogo.domain.plan import Subtask
from gonogo.domain.principal import Principal, Role

RoleWord = Literal["operator", "admin"]
_HERE = "local"


class Review(Frozen):
    """Who decides one question."""

    needed: int = 1
    """So many different people approve it before it is approved."""
    role: RoleWord = "operator"
    """Nobody with less decides."""
    reviewers: tuple[str, ...] | None = None
    """Nobody else approves; None: whoever sees the question."""
    not_requester: bool = False
    """Who asked for the work, or wrote or ordered a change of it, does not approve it."""
    expires_after: float | None = None
    """Seconds."""
    escalate_after: float | None = None
    """Seconds until those of `escalate_to` and `escalate_role` are let in."""
    escalate_to: tuple[str, ...] = ()
    escalate_role: RoleWord | None = None
    also: tuple[str, ...] = ()
    """Who was let in."""
    also_role: RoleWord | None = None
    asked_too: tuple[str, ...] = ()
    """Who asked besides the sender of the message: for what is asked about as it is now."""
    rules: tuple[str, ...] = ()
    """The rules that made it: `admin:review:1`."""

    def names(self, principal: Principal) -> bool:
        """Whether the principal is let in by the review, although the session is not theirs."""
        if principal.id in (*(self.reviewers or ()), *self.also):
            return True
        return self.also_role is not None and principal.role >= _role(self.also_role)

    def admits(self, principal: Principal) -> bool:
        """Whether the principal is one of those who decide, whatever their role."""
        return self.reviewers is None or self.names(principal)

    def has_role(self, principal: Principal) -> bool:
        """Whether the principal's role is enough."""
        return principal.role >= _role(self.role)

    def bars(self, principal: Principal, requested_by: str | None) -> bool:
        """Whether the principal may not approve because it was them who asked."""
        return self.not_requester and principal.id in (requested_by, *self.asked_too)

    def problem(self, requested_by: str | None = None) -> str | None:
        """Why nobody can bring this question to an approval as things stand, if nobody can."""
        if self.reviewers is None or self.also_role is not None:
            return None
        barred = {requested_by, *self.asked_too} if self.not_requester else set[str | None]()
        able = {*self.reviewers, *self.also} - barred
        if len(able) >= self.needed:
            return None
        made = f" ({', '.join(self.rules)})" if self.rules else ""
        if not self.reviewers and not self.also:
            return f"the rules of review name no reviewer in common{made}"
        return f"{self.needed} approvals are needed, and {len(able)} may approve{made}"

    def escalated(self) -> "Review":
        """The review once those are let in who hear of the question later."""
        return self.model_copy(update={"also": self.escalate_to, "also_role": self.escalate_role})


NO_REVIEW = Review()
"""Anybody who sees the question decides it alone."""


def strictest(reviews: Sequence[Review]) -> Review:
    """What holds where several reviews apply: each of them.

    Who is let in later must be admitted by all, and comes in at the latest of the times.
    """
    named = [r.reviewers for r in reviews if r.reviewers is not None]
    common = [who for who in named[0] if all(who in each for each in named)] if named else None
    role = _highest(review.role for review in reviews)
    to, to_role = _let_in(reviews)
    later = [r.escalate_after for r in reviews if r.escalate_after is not None]
    return Review(
        needed=max((review.needed for review in reviews), default=1),
        role=role or "operator",
        reviewers=None if common is None else tuple(sorted(common)),
        not_requester=any(review.not_requester for review in reviews),
        expires_after=min((r.expires_after for r in reviews if r.expires_after), default=None),
        escalate_after=max(later) if later and (to or to_role) else None,
        escalate_to=to,
        escalate_role=to_role,
        rules=tuple(dict.fromkeys(name for review in reviews for name in review.rules)),
    )


def reviewer_id(written: str) -> str:
    """The id of the principal that a file names."""
    return written if ":" in written or written == _HERE else f"user:{written}"


def reviewer_name(principal_id: str) -> str:
    """The principal as people write it."""
    return principal_id.removeprefix("user:")


def _let_in(reviews: Sequence[Review]) -> tuple[tuple[str, ...], RoleWord | None]:
    strict = [review for review in reviews if review.reviewers is not None]
    wanted = dict.fromkeys(name for review in reviews for name in review.escalate_to)
    people = tuple(
        name
        for name in wanted
        if all(name in (*(review.reviewers or ()), *review.escalate_to) for review in strict)
    )
    if any(review.escalate_role is None for review in strict):
        return people, None
    return people, _highest(review.escalate_role for review in reviews)


def _highest(words: Iterable[RoleWord | None]) -> RoleWord | None:
    return max((word for word in words if word is not None), key=_role, default=None)


def _role(word: RoleWord) -> Role:
    return Role[word.upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What a question is about, as reviews look at it: a call, or what a subtask could do."""

    agent: str | None = None
    tools: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()
    declared: bool = False
    """The commands are beginnings: what follows them is not known yet."""
    paths: tuple[str, ...] = ()
    """Paths or globs, relative to the workspace."""
    cwd: str = "."


def deed_of(agent: str, tool: str, access: Access) -> Deed:
    """What a call does."""
    return Deed(
        agent=agent, tools=frozenset({tool}),
        commands=(access.command,) if access.command is not None else (),
        paths=(*access.reads, *access.writes, *access.deletes), cwd=access.cwd or ".",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Doings:
    """Finds what subtasks could do once their plan is approved."""

    agents: Mapping[str, ProfileFacts] = field(default_factory=dict[str, ProfileFacts])
    tools: Mapping[str, ToolClass] = field(default_factory=dict[str, ToolClass])
    always_ask: frozenset[str] = frozenset()
    """Tools that no plan allows."""

    def of(self, subtasks: Sequence[Subtask]) -> tuple[Deed, ...]:
        """What each of them could do without a further question."""
        overlaps = Overlaps()
        return tuple(self._deed(subtask, overlaps) for subtask in subtasks)

    def _deed(self, subtask: Subtask, overlaps: Overlaps) -> Deed:
        reach = reach_of(subtask, self.agents, self.tools, overlaps)
        idle = self.always_ask if reach.commands else self.always_ask | {COMMAND_TOOL}
        return Deed(
            agent=subtask.agent, tools=reach.usable - idle, commands=reach.commands,
            declared=True, paths=reach.writes,
        )  # fmt: skip
