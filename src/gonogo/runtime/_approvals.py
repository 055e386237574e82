"""Approvals as people are shown them: who sees which, and who is waited for."""

from collections.abc import Iterator

from gonogo.approvals import is_reviewer, objection
from gonogo.domain.errors import InvalidCursor, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Approval, Plan, Vote
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalFilter, ApprovalList, ApprovalView
from gonogo.runtime._questions import view_of
from gonogo.runtime._sessions import seen, seen_ids, seen_plan
from gonogo.store import Connection
from gonogo.store.approvals import reviewed_of_plan, votes_of
from gonogo.store.calls import approval_of, list_approvals
from gonogo.store.plans import plan_of
from gonogo.store.sessions import session_of

_AT_ONCE = 500
"""Rows that are in memory at once while a page is looked for."""


def may_see(conn: Connection, principal: Principal, approval: Approval) -> bool:
    """Whether the principal sees a question: the session's owner, admins, and its reviewers."""
    own = seen(conn, principal, approval.session_id) is not None
    return own or _reviews(conn, principal, approval)


def readable_approval(conn: Connection, principal: Principal, approval_id: str) -> Approval:
    """The question of that id, if the principal may see it.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    approval = approval_of(conn, approval_id)
    if approval is None or not may_see(conn, principal, approval):
        raise NotFound(f"No approval found with id={approval_id}")
    return approval


def readable_plan(conn: Connection, principal: Principal, plan_id: str) -> Plan:
    """The plan of that id, if the principal may look at it: reviewers of its questions may.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    plan = plan_of(conn, plan_id)
    reviewed = reviewed_of_plan(conn, plan_id) if plan is not None else []
    if plan is not None and any(may_see(conn, principal, approval) for approval in reviewed):
        return plan
    return seen_plan(conn, principal, plan_id)


def list_views(
    conn: Connection,
    principal: Principal,
    wanted: ApprovalFilter,
    before: str | None,
    limit: int | None,
) -> ApprovalList:
    """A page of the approvals that fit and that the principal may see.

    Raises:
        InvalidCursor: there is no approval of the id `before`.
    """
    place = approval_of(conn, before) if before is not None else None
    if before is not None and (place is None or not may_see(conn, principal, place)):
        raise InvalidCursor(f"before={before} is no approval; use the `before` of a page")
    views: list[ApprovalView] = []
    for view in _newest(conn, principal, wanted, place):
        if len(views) == limit:
            earlier = views[-1].approval_id
            return ApprovalList(approvals=views[::-1], count=len(views), before=earlier)
        views.append(view)
    return ApprovalList(approvals=views[::-1], count=len(views))


def _newest(
    conn: Connection, principal: Principal, wanted: ApprovalFilter, place: Approval | None
) -> Iterator[ApprovalView]:
    own = seen_ids(conn, principal)
    while True:
        found = list_approvals(
            conn, status=wanted.status, session_id=wanted.session_id, kind=wanted.kind,
            group=wanted.group, before=place, most=_AT_ONCE,
        )  # fmt: skip
        for approval in found:
            if approval.session_id not in own and not _reviews(conn, principal, approval):
                continue
            votes = votes_of(conn, approval.id) if approval.review else []
            if not wanted.mine or _waits_for(principal, approval, votes):
                yield view_of(conn, approval, votes)
        if len(found) < _AT_ONCE:
            return
        place = found[-1]


def _reviews(conn: Connection, principal: Principal, approval: Approval) -> bool:
    """Whether a review shows the principal a question of a session that may be somebody else's."""
    if not is_reviewer(principal, approval):
        return False
    session = session_of(conn, approval.session_id)
    return session is not None and not session.deleted


def _waits_for(principal: Principal, approval: Approval, votes: list[Vote]) -> bool:
    if approval.status is not ApprovalStatus.PENDING or principal.role < Role.OPERATOR:
        return False
    voted = any(vote.principal_id == principal.id for vote in votes)
    return objection(principal, approval) is None and not voted
