"""Waiting for what agents do, by following it: nothing is polled, and nothing is missed."""

from contextlib import aclosing

import anyio

from gonogo.client._plans import Plans
from gonogo.client._sessions import Sessions
from gonogo.domain.plan_views import PlanView
from gonogo.domain.states import ENDED

_TELLING = ("plan_", "approval_")
_OFTEN = frozenset({"plan_progress", "plan_commented"})
"""Events that end nothing."""


class Waiting(Sessions, Plans):
    """What can be waited for."""

    async def wait_for_plan(
        self, plan_id: str, *, limit: float | None = None, or_asked: bool = False
    ) -> PlanView:
        """Wait until a plan is over, however it ends; gives it as it is then.

        Args:
            limit: Seconds at most.
            or_asked: Wait only until a person is asked something in its session, too.

        Raises:
            TimeoutError: it was not over by then; it goes on.
            NotFound: there is no such plan, or its session was deleted meanwhile.
            Unreachable: the server went away and did not come back.
        """
        with anyio.fail_after(limit):
            graph = await self.plan_graph(plan_id)
            if found := await self._over(plan_id, graph.session_id, or_asked=or_asked):
                return found
            async with aclosing(self.follow(graph.session_id, graph.last_seq)) as events:
                async for event in events:
                    kind = str(event["type"])
                    if not kind.startswith(_TELLING) or kind in _OFTEN:
                        continue
                    if found := await self._over(plan_id, graph.session_id, or_asked=or_asked):
                        return found
        raise AssertionError("a session is followed without an end")

    async def _over(self, plan_id: str, session_id: str, *, or_asked: bool) -> PlanView | None:
        plan = await self.plan(plan_id)
        if plan.status in ENDED:
            return plan
        asked = or_asked and (await self.pending_approvals(session_id)).count
        return plan if asked else None
