"""What people say of what they are asked: reviews, comments, and who hears of it."""

import base64
import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, cast

from msgspec import Struct, field

from gonogo.domain.base import Frozen, canonical_json
from gonogo.domain.errors import InvalidMessage, InvalidPlan, because
from gonogo.domain.findings import Overlaps, ProfileFacts, reach_of
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import COMMAND_TOOL, Subtask
from gonogo.domain.records import Comment
from gonogo.domain.tool_calls import Access, ToolClass

# Reviews: who may decide a question, how many of them have to agree, and who hears of it later.
#
# A review is bound to its question when that is opened; what a file says afterwards changes
# nothing. Reviewers are known by the ids of principals: `ann` in a file is the principal
# `user:ann`.

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
            return because("the rules of review name no reviewer in common{made}", made=made)
        return because(
            "{needed} approvals are needed, and {able} may approve{made}",
            needed=self.needed,
            able=len(able),
            made=made,
        )

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


class Deed(Struct, frozen=True, kw_only=True):
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


class Doings(Struct, frozen=True, kw_only=True):
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
        reach, checks = reach_of(subtask, self.agents, self.tools, overlaps), subtask.check_commands
        idle = self.always_ask if reach.commands else self.always_ask | {COMMAND_TOOL}
        checking = {COMMAND_TOOL} if checks else set[str]()
        return Deed(
            agent=subtask.agent, tools=reach.usable - idle | checking,
            commands=(*reach.commands, *checks),
            declared=True, paths=reach.writes,
        )  # fmt: skip


# Comments on a plan that waits for a person, and the answers that its planner owes.
#
# A comment decides nothing. A plan that is sent back with comments comes again as another revision,
# which has an answer to each of them; the answers are the agent's words, shown as such.

LONGEST = 4_000
"""Characters of a comment, and of an answer."""
MOST_OPEN = 100
"""Comments on one plan that have no answer yet."""


def checked_content(content: str) -> str:
    """What a person wrote, without blanks around it.

    Raises:
        InvalidMessage: there is nothing in it, or too much.
    """
    said = content.strip()
    if not said:
        raise InvalidMessage("content: it is empty; write a text")
    if len(said) > LONGEST:
        raise InvalidMessage(
            "content: at most {most} characters, not {count}; shorten it",
            most=LONGEST,
            count=len(said),
        )
    return said


def read_answers(raw: Any, wanted: Sequence[str]) -> dict[str, str]:  # noqa: ANN401 - a model's
    """The planner's answers, by the ids of the comments.

    Args:
        raw: `[{comment_id, answer}]`, as the model sent it.
        wanted: The comments that it was asked to answer.

    Raises:
        InvalidPlan: a comment has no answer or two, an answer no comment; the text names them.
    """
    found: dict[str, str] = {}
    for item in _objects(raw):
        key, answer = item.get("comment_id"), item.get("answer")
        if not isinstance(key, str):
            raise InvalidPlan("answers: each one is an object {shape}", shape=_SHAPE)
        if key not in wanted:
            raise InvalidPlan(
                "answers: there is no comment {key!r} to answer{wanted}",
                key=key, wanted=_choices(wanted),
            )  # fmt: skip
        if key in found:
            raise InvalidPlan("answers: comment {key} is answered twice; keep one answer", key=key)
        found[key] = _answer(key, answer)
    left = [key for key in wanted if key not in found]
    if left:
        raise InvalidPlan(
            "answers: comments without an answer: {left}; each needs {{comment_id, answer}}",
            left=", ".join(left),
        )
    return found


def standing_comments(comments: Sequence[Comment], revision: int) -> list[dict[str, Any]]:
    """The comments that are shown with a revision: those it answers, and those that are open."""
    return [
        comment_facts(comment)
        for comment in comments
        if comment.answer is None or comment.answered_revision == revision
    ]


def comment_facts(comment: Comment) -> dict[str, Any]:
    """A comment as clients are told of it; what it does not have is absent."""
    found = {
        "comment_id": comment.id, "author": comment.author, "revision": comment.revision,
        "subtask_id": comment.subtask_id, "content": comment.content, "answer": comment.answer,
        "answered_revision": comment.answered_revision,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


_SHAPE = "{comment_id, answer}"


def _objects(raw: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise InvalidPlan("answers: a list of {shape} is needed", shape=_SHAPE)
    items = cast("list[Any]", raw)
    if not all(isinstance(item, dict) for item in items):
        raise InvalidPlan("answers: each one is an object {shape}", shape=_SHAPE)
    return items


def _answer(key: str, answer: Any) -> str:  # noqa: ANN401
    if not isinstance(answer, str) or not answer.strip():
        raise InvalidPlan("answers: the answer to comment {key} is empty; write one", key=key)
    if len(answer) > LONGEST:
        raise InvalidPlan(
            "answers: the answer to comment {key} has more than {most} characters; shorten it",
            key=key,
            most=LONGEST,
        )
    return answer.strip()


def _choices(wanted: Collection[str]) -> str:
    return f"; those there are: {', '.join(wanted)}" if wanted else ""


# What goes out to people who are not at a client: deliveries to other programs, and links.
#
# A link lets one person decide one question once. Its token is the link's id and a signature over
# all that it stands for, so that no token is kept anywhere and none can be made without the key.

_TOKEN = re.compile(r"(link_[0-9a-f]{32})\.([A-Za-z0-9_-]{43})")


class DeliveryStatus(StrEnum):
    """Where a delivery stands. `failed`: it was tried often enough, and is given up."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class Delivery(Struct, frozen=True, kw_only=True):
    """One message for one hook, written with the change that it tells of."""

    id: str
    session_id: str
    approval_id: str
    hook: str
    event: str
    status: DeliveryStatus
    attempt: int
    """Attempts that were begun."""
    epoch: int
    body: dict[str, Any]
    """What is sent, without what only the sender knows; empty once it has arrived."""
    error: str | None
    """Why the last attempt did not arrive."""
    created_at: datetime
    not_before: datetime
    """When it may be tried; while it is being tried, when that has to be over."""
    finished_at: datetime | None


class DecisionLink(Struct, frozen=True, kw_only=True):
    """A right to decide one question once, in somebody's name."""

    id: str
    approval_id: str
    digest: str
    """Of what was asked when the link was made; it decides nothing else."""
    principal_id: str
    name: str
    role: int
    """What the person was when the link was made; it is over when they are less."""
    made_by: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


class LinkState(StrEnum):
    """What a link is good for."""

    OPEN = "open"
    VOTED = "voted"
    """Just used: the approval counts, and others have to approve too."""
    DONE = "done"
    """Just used: the question is decided."""
    USED = "used"
    DECIDED = "decided"
    """Somebody decided the question in another way."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    STALE = "stale"
    """What was asked has changed since."""
    REFUSED = "refused"
    """The person may not decide this any more."""


def link_token(link: DecisionLink, key: bytes) -> str:
    """The secret part of a link's address."""
    signed = canonical_json(
        [link.id, link.approval_id, link.digest, link.principal_id, link.expires_at.isoformat()]
    )
    mac = hmac.digest(key, signed.encode(), "sha256")
    return f"{link.id}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def link_id_of(token: str) -> str | None:
    """The link that a token is of, if it is one at all; whether it is genuine is not checked."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def is_genuine(token: str, link: DecisionLink, key: bytes) -> bool:
    """Whether a token is that of the link."""
    return hmac.compare_digest(token.encode(), link_token(link, key).encode())
