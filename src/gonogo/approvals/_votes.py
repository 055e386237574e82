"""Quorum: approvals are counted as votes until there are enough of them for one and the same thing.

What is counted are different people who may approve, for what the question says now. A vote that
wants every tool to be asked about is not loosened by another, and what is allowed for the rest of a
session is what all of them allow.
"""

from dataclasses import replace
from datetime import datetime

from gonogo.approvals._notices import tell_voted
from gonogo.approvals._question import Ruling
from gonogo.approvals._rights import review_of
from gonogo.domain.records import Approval, Vote
from gonogo.store import Connection
from gonogo.store.approvals import keep_vote, votes_of


def counted(conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> Ruling | None:
    """Count an approval. Gives what was decided; None while others have to agree."""
    needed = review_of(approval).needed
    if needed == 1:
        return ruling
    vote, before = _vote(approval, ruling, now), votes_of(conn, approval.id)
    others = [each for each in before if each.principal_id != vote.principal_id]
    same = [each for each in others if each.ruling["ballot"] == vote.ruling["ballot"]]
    if len(same) + 1 < needed and any(_stands(each, vote) for each in before):
        return None
    keep_vote(conn, vote)
    if len(same) + 1 >= needed:
        return _together(ruling, same)
    tell_voted(conn, approval, ruling, [*same, vote], needed, now)
    return None


def has_voted(conn: Connection, approval: Approval, ruling: Ruling) -> bool:
    """Whether this approval was one of those that decided."""
    return any(
        vote.principal_id == ruling.by.id and ruling.repeats(vote.ruling)
        for vote in votes_of(conn, approval.id)
    )


def _vote(approval: Approval, ruling: Ruling, now: datetime) -> Vote:
    said = {
        **ruling.as_json(), "ballot": ruling.ballot(approval), "start": ruling.start,
        "auto_approve_tools": ruling.auto_approve_tools,
    }  # fmt: skip
    return Vote(
        approval_id=approval.id, principal_id=ruling.by.id, name=ruling.by.name, ruling=said,
        created_at=now,
    )  # fmt: skip


def _stands(kept: Vote, vote: Vote) -> bool:
    """Whether the same person has said just this before."""
    told = ("ballot", "decision", "rule", "for_plan", "start", "auto_approve_tools")
    return kept.principal_id == vote.principal_id and all(
        kept.ruling.get(name) == vote.ruling.get(name) for name in told
    )


def _together(ruling: Ruling, others: list[Vote]) -> Ruling:
    free = all(vote.ruling["auto_approve_tools"] for vote in others)
    rule = ruling.as_json().get("rule")
    return replace(
        ruling,
        rule=ruling.rule if all(vote.ruling.get("rule") == rule for vote in others) else None,
        for_plan=ruling.for_plan or any(vote.ruling.get("for_plan") for vote in others),
        auto_approve_tools=ruling.auto_approve_tools and free,
        agreed=(*(vote.name for vote in others), ruling.by.name),
    )
