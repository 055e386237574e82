"""Comments on plans: the verbs of those who may see a plan that waits."""

from datetime import datetime

from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan_views import CommentList, CommentView, PlanView
from gonogo.domain.records import Comment, Plan
from gonogo.runtime._approvals import readable_plan
from gonogo.runtime._parts import Parts
from gonogo.runtime._views import comment_view, plan_view
from gonogo.store import Connection
from gonogo.store.approvals import comments_of
from gonogo.store.plans import current_revision, plan_of, subtask_rows


class Comments:
    """The verbs and the query about comments on plans."""

    parts: Parts

    async def comment_plan(
        self,
        principal: Principal,
        plan_id: str,
        content: str,
        subtask_id: str | None = None,
        revision: int | None = None,
    ) -> CommentView:
        """Say something of a plan that waits for approval, or of one of its subtasks.

        Raises:
            Refused: it cannot be said; the text says why.
        """
        principal.require(Role.OPERATOR)
        kept = await self.parts.store.write(
            self._comment, principal, plan_id, content, subtask_id, revision, self.parts.clock()
        )
        return comment_view(kept)

    async def plan_comments(self, principal: Principal, plan_id: str) -> CommentList:
        """What was said of a plan, with the planner's answers.

        Raises:
            NotFound: there is no such plan that the principal may see.
        """
        found = await self.parts.store.read(_comments, principal, plan_id)
        return CommentList(
            plan_id=plan_id,
            comments=[comment_view(comment) for comment in found],
            open=sum(comment.answer is None for comment in found),
        )

    async def revise_plan(self, principal: Principal, plan_id: str) -> PlanView:
        """Send a plan that waits back to its planner, who answers every open comment.

        Raises:
            Conflict: it does not wait, is with its planner already, or has no open comment.
        """
        principal.require(Role.OPERATOR)
        return await self.parts.store.write(self._send_back, principal, plan_id, self.parts.clock())

    def _comment(
        self,
        conn: Connection,
        principal: Principal,
        plan_id: str,
        content: str,
        subtask_id: str | None,
        revision: int | None,
        now: datetime,
    ) -> Comment:
        readable_plan(conn, principal, plan_id)
        return self.parts.answering.comment(
            conn, plan_id, content, principal, now, subtask_id=subtask_id, revision=revision
        )

    def _send_back(
        self, conn: Connection, principal: Principal, plan_id: str, now: datetime
    ) -> PlanView:
        readable_plan(conn, principal, plan_id)
        self.parts.answering.send_back(conn, plan_id, principal, now)
        return _view(conn, plan_of(conn, plan_id))


def _comments(conn: Connection, principal: Principal, plan_id: str) -> list[Comment]:
    readable_plan(conn, principal, plan_id)
    return comments_of(conn, plan_id)


def _view(conn: Connection, plan: Plan | None) -> PlanView:
    assert plan is not None  # noqa: S101 - sent back in this transaction
    return plan_view(plan, current_revision(conn, plan), subtask_rows(conn, plan.id, plan.revision))
