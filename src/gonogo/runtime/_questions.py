"""A question as people are shown it, with what was said to it so far."""

from collections.abc import Sequence

from gonogo.domain.records import Approval, Vote
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.views import ApprovalView
from gonogo.runtime._views import approval_view
from gonogo.store import Connection
from gonogo.store.approvals import count_open_comments, owner_of, votes_of


def view_of(
    conn: Connection, approval: Approval, votes: Sequence[Vote] | None = None
) -> ApprovalView:
    """A question as it stands.

    Args:
        votes: The approvals that it has so far, if the caller knows them.
    """
    if votes is None:
        votes = votes_of(conn, approval.id) if approval.review else ()
    owner = owner_of(conn, approval.session_id) if approval.review else None
    is_open = approval.status is ApprovalStatus.PENDING
    if not is_open or approval.kind != ApprovalKind.PLAN or approval.plan_id is None:
        return approval_view(approval, votes, owner=owner)
    comments = count_open_comments(conn, approval.plan_id)
    return approval_view(approval, votes, comments, owner)
