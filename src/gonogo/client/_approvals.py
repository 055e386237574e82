"""Approvals: what people are asked, and their answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from gonogo.client._wire import Wire, given, named
from gonogo.domain.views import (
    ApprovalList,
    ApprovalView,
    DecisionAnswer,
    DecisionAnswers,
    LinkView,
)


class Approvals(Wire):
    """What can be asked about approvals."""

    async def approvals(
        self,
        *,
        status: str | None = None,
        session_id: str | None = None,
        kind: str | None = None,
        group: str | None = None,
        mine: bool = False,
    ) -> ApprovalList:
        """All approvals that fit, oldest first, however many pages they are.

        Args:
            group: Only those that are identical, by the `group` that they have in common.
            mine: Only those that wait for whoever asks.
        """
        found: list[ApprovalView] = []
        before: str | None = None
        while True:
            page = await self._get(
                "/approvals", ApprovalList, status=status, session_id=session_id, kind=kind,
                group=group, mine="true" if mine else None, before=before,
            )  # fmt: skip
            found, before = [*page.approvals, *found], page.before
            if before is None:
                return ApprovalList(approvals=found, count=len(found))

    async def approval(self, approval_id: str) -> ApprovalView:
        """One approval."""
        return await self._get(f"/approvals/{named(approval_id)}", ApprovalView)

    async def decide(
        self,
        approval_id: str,
        decision: str,
        *,
        digest: str | None = None,
        modified_arguments: Mapping[str, Any] | None = None,
        feedback: str | None = None,
        for_session: bool = False,
        for_plan: bool = False,
    ) -> ApprovalView:
        """Answer one approval, without a stream of what follows.

        Args:
            digest: Of what was shown; given, the decision is refused if that has changed.
            for_session: With approve: a rule allows just this call for the rest of the session.
            for_plan: The same for the rest of its plan.

        Raises:
            AlreadyDecided: naming who decided, and when.
            Conflict: what was shown has changed.
            Expired: the question is over.
        """
        fields = {
            "decision": decision,
            "digest": digest,
            "modified_arguments": modified_arguments,
            "feedback": feedback,
            "for_session": for_session or None,
            "for_plan": for_plan or None,
        }
        path = f"/approvals/{named(approval_id)}/decision"
        return await self._post(path, ApprovalView, given(fields))

    async def decide_group(
        self, group: str, decision: str, *, feedback: str | None = None
    ) -> list[DecisionAnswer]:
        """Give one answer to all identical questions that are open now."""
        body = given({"group": group, "decision": decision, "feedback": feedback})
        return (await self._post("/approvals/decisions", DecisionAnswers, body)).answers

    async def make_link(self, approval_id: str, name: str | None = None) -> LinkView:
        """Make a link that decides an approval once.

        Args:
            name: Whose decision it will be; without it, one's own.
        """
        return await self._post(
            f"/approvals/{named(approval_id)}/links", LinkView, given({"name": name})
        )

    async def revoke_links(self, approval_id: str) -> None:
        """End the links of an approval."""
        await self._delete(f"/approvals/{named(approval_id)}/links")

    async def decide_many(self, decisions: Sequence[Mapping[str, Any]]) -> list[DecisionAnswer]:
        """Answer several approvals, each an object of `approval_id`, `decision` and the rest."""
        body = {"decisions": [dict(decision) for decision in decisions]}
        return (await self._post("/approvals/decisions", DecisionAnswers, body)).answers
