"""Reconciliation: what a chain says is held against what the database holds, both ways.

A chain whose end was cut off with its head, or that was emptied, is whole by its hashes. But what
people decided and what ran is in the database too, and each of those needs its entry; and whatever
an entry speaks of has to be there.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.audit_chain import DELETED, OPENED, SYSTEM, ChainLink
from gonogo.domain.states import ApprovalStatus

_ASKED, ALLOWED = "asked", "tool.allowed"
_CLOSED = frozenset(str(status) for status in ApprovalStatus if status != ApprovalStatus.PENDING)
_ABOUT = {
    ALLOWED: "call_id", "tool.denied": "call_id", "rule.made": "rule_id",
    "link.made": "link_id", "plan.commented": "comment_id",
}  # fmt: skip
"""By action, the name under which an entry's details have the id of what it is about."""
_OF_SUBJECTS = frozenset({OPENED, DELETED, "token.created", "token.revoked", "grant.revoked"})
"""Actions whose subject is the id of what they are about."""
_REFERENCES = ("approval_id", "call_id", "plan_id", "rule_id", "link_id", "comment_id")


class Claim(Struct, frozen=True):
    """That something was done, as an entry or a row of the database says it."""

    action: str
    about: str
    """The id of what was asked, ran, was made or ended."""
    by: str = ""
    """Who decided, where both say it."""
    digest: str = ""
    """Of what was decided or ran, where both say it."""


class Holding(Struct, frozen=True):
    """A claim of the database."""

    claim: Claim
    at: str
    """When; entries from before some time may have been removed."""


class Reconciliation:
    """What one chain says, to be held against the database once all of it was seen."""

    def __init__(self) -> None:
        self._claims: dict[Claim, int] = {}
        self._references: dict[str, int] = {}

    def take(self, link: ChainLink) -> None:
        """Look at the next entry."""
        given: object = link.details
        if not isinstance(given, dict):
            return
        details = cast("Mapping[str, Any]", given)
        claim = _claim(link, details)
        if claim is not None:
            self._claims.setdefault(claim, link.seq)
        if link.chain != SYSTEM:
            for name in _REFERENCES:
                if name in details:
                    self._references.setdefault(str(details[name]), link.seq)

    def problems(
        self, chain: str, facts: Iterable[Holding], known: Iterable[str], since: str
    ) -> Iterator[str]:
        """What one side says and the other does not.

        Args:
            facts: What the database holds that the chain has to tell of.
            known: The ids of all that its entries may be about.
            since: Entries from before this may have been removed.
        """
        held = {fact.claim: fact.at for fact in facts}
        for claim in sorted(held.keys() - self._claims.keys(), key=lambda each: each.about):
            if held[claim] >= since:
                yield f"{chain}: {claim.about} is in the database, and no entry {claim.action} is"
        missing = {
            seq: claim.about
            for claim, seq in self._claims.items()
            # What was allowed need not have run.
            if claim not in held and claim.action != ALLOWED
        }
        there = {*known, *(claim.about for claim in held)}
        missing |= {seq: about for about, seq in self._references.items() if about not in there}
        for seq, about in sorted(missing.items()):
            yield f"{chain} #{seq}: the database does not hold what it says of {about}"


def _claim(link: ChainLink, details: Mapping[str, Any]) -> Claim | None:
    if link.action in _OF_SUBJECTS:
        return Claim(link.action, link.subject)
    if "approval_id" in details and link.action.rpartition(".")[2] in {_ASKED, *_CLOSED}:
        return claim_of_question(
            link.action, details["approval_id"], link.actor, details.get("digest")
        )
    about = details.get(_ABOUT.get(link.action, ""))
    if about is None:
        return None
    digest = details.get("digest") if link.action == ALLOWED else None
    return Claim(link.action, str(about), digest=str(digest or ""))


def claim_of_question(action: str, approval_id: object, by: str, digest: object) -> Claim:
    """That a question was asked, or closed by somebody."""
    decided = "" if action.endswith(f".{_ASKED}") else by
    return Claim(action, str(approval_id), decided, str(digest or ""))
