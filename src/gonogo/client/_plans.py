"""Plans: look at them, decide about them, steer them."""

from collections.abc import Sequence
from typing import Any

from gonogo.client._wire import Wire, given, named
from gonogo.domain.messages import PlanDecision
from gonogo.domain.plan_views import (
    CommentList,
    CommentView,
    PlanCheck,
    PlanDiff,
    PlanGraph,
    PlanList,
    PlanStatusView,
    PlanView,
    RevisionView,
)
from gonogo.domain.views import Revisions


class Plans(Wire):
    """What can be asked about plans."""

    async def plans(
        self,
        *,
        session_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> PlanList:
        """Plans, newest first."""
        return await self._get(
            "/plans", PlanList, session_id=session_id, status=status, limit=limit, offset=offset
        )

    async def plan(self, plan_id: str) -> PlanView:
        """One plan in its current revision."""
        return await self._get(f"/plans/{named(plan_id)}", PlanView)

    async def plan_status(self, plan_id: str) -> PlanStatusView:
        """How far a plan is."""
        return await self._get(f"/plans/{named(plan_id)}/status", PlanStatusView)

    async def plan_graph(self, plan_id: str) -> PlanGraph:
        """A plan as nodes, edges and its critical path."""
        return await self._get(f"/plans/{named(plan_id)}/graph", PlanGraph)

    async def plan_revisions(self, plan_id: str) -> list[RevisionView]:
        """A plan's revisions, oldest first."""
        return (await self._get(f"/plans/{named(plan_id)}/revisions", Revisions)).revisions

    async def plan_revision(self, plan_id: str, number: int) -> RevisionView:
        """One revision of a plan."""
        return await self._get(f"/plans/{named(plan_id)}/revisions/{number}", RevisionView)

    async def plan_diff(self, plan_id: str, from_: int, to: int) -> PlanDiff:
        """What changed between two revisions."""
        return await self._get(f"/plans/{named(plan_id)}/diff", PlanDiff, from_=from_, to=to)

    async def decide_plan(self, decision: PlanDecision) -> PlanView:
        """Answer a plan, without a stream of what follows."""
        body = decision.model_dump(mode="json", exclude_unset=True, exclude={"type", "plan_id"})
        return await self._post(f"/plans/{named(decision.plan_id)}/decision", PlanView, body)

    async def check_plan(self, plan_id: str, subtasks: Sequence[Any]) -> PlanCheck:
        """What would be said of an edit; nothing changes."""
        body = {"modified_subtasks": list(subtasks)}
        return await self._post(f"/plans/{named(plan_id)}/check", PlanCheck, body)

    async def comment_plan(
        self,
        plan_id: str,
        content: str,
        *,
        subtask_id: str | None = None,
        revision: int | None = None,
    ) -> CommentView:
        """Say something of a plan that waits for approval; it decides nothing."""
        body = given({"content": content, "subtask_id": subtask_id, "revision": revision})
        return await self._post(f"/plans/{named(plan_id)}/comments", CommentView, body)

    async def plan_comments(self, plan_id: str) -> CommentList:
        """What people said of a plan, with the planner's answers."""
        return await self._get(f"/plans/{named(plan_id)}/comments", CommentList)

    async def revise_plan(self, plan_id: str) -> PlanView:
        """Send a plan back to its planner, who answers every open comment."""
        return await self._post(f"/plans/{named(plan_id)}/revise", PlanView)

    async def start_plan(self, plan_id: str) -> PlanView:
        """Start a plan that is approved and on hold."""
        return await self._post(f"/plans/{named(plan_id)}/start", PlanView)

    async def pause_plan(self, plan_id: str) -> PlanView:
        """Let nothing new start."""
        return await self._post(f"/plans/{named(plan_id)}/pause", PlanView)

    async def resume_plan(self, plan_id: str) -> PlanView:
        """Go on with a paused plan."""
        return await self._post(f"/plans/{named(plan_id)}/resume", PlanView)

    async def cancel_plan(self, plan_id: str, *, reason: str | None = None) -> PlanView:
        """Stop a plan for good."""
        body = given({"reason": reason})
        return await self._post(f"/plans/{named(plan_id)}/cancel", PlanView, body)

    async def replan(self, plan_id: str, reason: str) -> PlanView:
        """Have a plan changed; its next revision is put before a person."""
        return await self._post(f"/plans/{named(plan_id)}/replan", PlanView, {"reason": reason})

    async def retry_subtask(self, plan_id: str, subtask_id: str) -> PlanView:
        """Run a failed subtask again."""
        return await self._post(
            f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/retry", PlanView
        )

    async def skip_subtask(self, plan_id: str, subtask_id: str) -> PlanView:
        """Leave a subtask out."""
        return await self._post(
            f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/skip", PlanView
        )

    async def cancel_subtask(
        self, plan_id: str, subtask_id: str, *, reason: str | None = None
    ) -> PlanView:
        """Stop one subtask; its siblings go on."""
        path = f"/plans/{named(plan_id)}/subtasks/{named(subtask_id)}/cancel"
        return await self._post(path, PlanView, given({"reason": reason}))
