"""Plans: what people do to them, and what is asked about them."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Revision
from gonogo.domain.plan_views import (
    PlanDiff,
    PlanGraph,
    PlanList,
    PlanStatusView,
    PlanView,
    RevisionView,
    plan_diff,
)
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.replanning import Used, in_force
from gonogo.domain.views import GrantView
from gonogo.orchestrator import Retry
from gonogo.runtime._approvals import readable_plan
from gonogo.runtime._parts import Parts
from gonogo.runtime._sessions import seen, seen_ids, seen_plan, visible
from gonogo.runtime._timeline import Drawn, graph_view
from gonogo.runtime._views import grant_view, plan_view, status_view, usage_view
from gonogo.store import Connection
from gonogo.store import events as log
from gonogo.store.calls import questions_of_plan, refused_calls
from gonogo.store.plans import (
    current_revision,
    grant_of,
    list_grants,
    list_plans,
    plan_of,
    revisions_of,
    revoke_grant,
    subtask_rows,
)
from gonogo.store.reports import runs_of_plan, used_by_plan

Found = tuple[Plan, Revision, list[SubtaskRow]]
Verb = Callable[..., None]


class Plans:
    """The verbs and queries about plans and grants."""

    parts: Parts

    async def plans(
        self,
        principal: Principal,
        session_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> PlanList:
        """A page of the plans that the principal may see, newest first."""
        found, total = await self.parts.store.read(
            _plans, principal, session_id, status, slice(offset, offset + limit)
        )
        return PlanList(plans=[plan_view(*each) for each in found], total=total)

    async def plan(self, principal: Principal, plan_id: str) -> PlanView:
        """A plan in its current revision.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return plan_view(*await self.parts.store.read(_found, principal, plan_id))

    async def plan_status(self, principal: Principal, plan_id: str) -> PlanStatusView:
        """How far a plan is."""
        found, runs, used, refused = await self.parts.store.read(_in_all, principal, plan_id)
        usage = usage_view(found[0], runs, used, self.parts.clock())
        limits = in_force(self.parts.settings.budget, found[0].budget)
        return status_view(*found, usage=usage, limits=limits, refused=refused)

    async def plan_graph(self, principal: Principal, plan_id: str) -> PlanGraph:
        """A plan as a graph to draw, with when its subtasks ran and waited."""
        drawn = await self.parts.store.read(_drawn, principal, plan_id)
        return graph_view(drawn, self.parts.clock())

    async def revisions(self, principal: Principal, plan_id: str) -> list[RevisionView]:
        """Every revision of a plan, oldest first."""
        found = await self.parts.store.read(_revisions, principal, plan_id)
        return [_revision_view(revision, row) for revision, row in found]

    async def revision(self, principal: Principal, plan_id: str, number: int) -> RevisionView:
        """One revision.

        Raises:
            NotFound: the plan has no such revision.
        """
        for view in await self.revisions(principal, plan_id):
            if view.revision == number:
                return view
        raise NotFound(f"Plan {plan_id} has no revision {number}")

    async def plan_diff(self, principal: Principal, plan_id: str, from_: int, to: int) -> PlanDiff:
        """What changed between two revisions.

        Raises:
            NotFound: the plan has no such revision.
        """
        found = await self.parts.store.read(_revisions, principal, plan_id)
        by_number = {revision.number: revision for revision, _ in found}
        for number in (from_, to):
            if number not in by_number:
                raise NotFound(f"Plan {plan_id} has no revision {number}")
        return plan_diff(by_number[from_], by_number[to])

    async def start_plan(self, principal: Principal, plan_id: str) -> PlanView:
        """Start a plan that was approved and held.

        Raises:
            Conflict: the plan is in another state, which is named.
        """
        return await self._do(principal, plan_id, self._start)

    async def pause_plan(self, principal: Principal, plan_id: str) -> PlanView:
        """Start nothing new; what runs comes to its end."""
        return await self._do(principal, plan_id, self.parts.engine.pause)

    async def resume_plan(self, principal: Principal, plan_id: str) -> PlanView:
        """Go on with a paused plan."""
        return await self._do(principal, plan_id, self.parts.engine.resume_plan)

    async def cancel_plan(
        self, principal: Principal, plan_id: str, reason: str | None = None
    ) -> PlanView:
        """End a plan and everything that it runs."""
        return await self._do(principal, plan_id, partial(self.parts.engine.cancel, reason=reason))

    async def replan(self, principal: Principal, plan_id: str, reason: str) -> PlanView:
        """Have a running, paused or failed plan changed: what runs finishes first.

        Raises:
            Conflict: the plan is in another state, which is named, or another plan is active.
        """
        return await self._do(principal, plan_id, self.parts.replanning.start, reason)

    async def cancel_subtask(
        self, principal: Principal, plan_id: str, subtask_id: str, reason: str | None = None
    ) -> PlanView:
        """End one subtask; its siblings go on."""
        cancel = partial(self.parts.engine.cancel_subtask, reason=reason)
        return await self._do(principal, plan_id, cancel, subtask_id)

    async def skip_subtask(self, principal: Principal, plan_id: str, subtask_id: str) -> PlanView:
        """Leave one subtask out."""
        return await self._do(principal, plan_id, self.parts.engine.skip_subtask, subtask_id)

    async def retry_subtask(self, principal: Principal, plan_id: str, subtask_id: str) -> PlanView:
        """Do a failed subtask again, and those that were skipped for it.

        In a plan that goes on, it is done as soon as nothing of the plan runs or waits.
        """
        return await self._do(principal, plan_id, Retry(self.parts.planning).subtask, subtask_id)

    async def grants(self, principal: Principal, session_id: str | None = None) -> list[GrantView]:
        """What approved plans may do without a question."""
        found = await self.parts.store.read(_grants, principal, session_id)
        return [grant_view(grant) for grant in found]

    async def revoke_grant(self, principal: Principal, grant_id: str) -> None:
        """End a grant: from now on the subtask asks.

        Raises:
            NotFound: there is none of that id that the principal may see.
            Conflict: it had ended already.
        """
        principal.require(Role.OPERATOR)
        await self.parts.store.write(_revoke, principal, grant_id, self.parts.clock())

    def _start(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        self.parts.engine.start(conn, plan_id, by, now)
        plan = plan_of(conn, plan_id)
        if plan is not None:
            self.parts.inbox.plan_started(conn, plan.session_id, now)

    async def _do(self, principal: Principal, plan_id: str, verb: Verb, *what: str) -> PlanView:
        principal.require(Role.OPERATOR)
        await self.parts.store.write(_carry_out, principal, plan_id, verb, what, self.parts.clock())
        return await self.plan(principal, plan_id)


def _carry_out(
    conn: Connection,
    principal: Principal,
    plan_id: str,
    verb: Verb,
    what: tuple[str, ...],
    now: datetime,
) -> None:
    seen_plan(conn, principal, plan_id)
    verb(conn, plan_id, *what, principal.id, now)


def _found(conn: Connection, principal: Principal, plan_id: str) -> Found:
    return _whole(conn, readable_plan(conn, principal, plan_id))


def _drawn(conn: Connection, principal: Principal, plan_id: str) -> Drawn:
    plan, revision, rows = _found(conn, principal, plan_id)
    asked = questions_of_plan(conn, plan_id)
    return Drawn(plan, revision, rows, asked, log.last_seq(conn, plan.session_id))


def _in_all(conn: Connection, principal: Principal, plan_id: str) -> tuple[Found, int, Used, int]:
    """A plan, how many runs it has begun, what it took, and what it did not get."""
    found = _found(conn, principal, plan_id)
    refused = refused_calls(conn, found[0].session_id, plan_id)
    return found, runs_of_plan(conn, found[0]), used_by_plan(conn, plan_id), len(refused)


def _whole(conn: Connection, plan: Plan) -> Found:
    return plan, current_revision(conn, plan), subtask_rows(conn, plan.id, plan.revision)


def _plans(
    conn: Connection,
    principal: Principal,
    session_id: str | None,
    status: str | None,
    page: slice,
) -> tuple[list[Found], int]:
    if session_id is not None:
        visible(conn, principal, session_id)
        found = list_plans(conn, [session_id], status)
    else:
        ids = seen_ids(conn, principal)
        found = [plan for plan in list_plans(conn, None, status) if plan.session_id in ids]
    return [_whole(conn, plan) for plan in found[page]], len(found)


def _revisions(conn: Connection, principal: Principal, plan_id: str) -> list[tuple[Revision, Any]]:
    _found(conn, principal, plan_id)
    return revisions_of(conn, plan_id)


def _revision_view(revision: Revision, row: Any) -> RevisionView:  # noqa: ANN401 - a row
    return RevisionView(
        plan_id=revision.plan_id,
        revision=revision.number,
        digest=revision.digest,
        goal=revision.goal,
        subtasks=list(revision.subtasks),
        created_at=row.created_at,
        created_by=row.created_by,
        reason=row.reason,
    )


def _grants(conn: Connection, principal: Principal, session_id: str | None) -> list[Any]:
    if session_id is not None:
        visible(conn, principal, session_id)
        return list_grants(conn, session_id)
    ids = seen_ids(conn, principal)
    return [grant for grant in list_grants(conn, None) if grant.session_id in ids]


def _revoke(conn: Connection, principal: Principal, grant_id: str, now: datetime) -> None:
    grant = grant_of(conn, grant_id)
    session = seen(conn, principal, grant.session_id) if grant else None
    if grant is None or session is None:
        raise NotFound(f"No grant found with id={grant_id}")
    if not revoke_grant(conn, grant_id, now, principal.name):
        raise Conflict(f"Grant {grant_id} has ended already")
    log.note(
        conn, session.id, now, actor=principal.id, action="grant.revoked", subject=grant_id,
        plan_id=grant.plan_id, subtask_id=grant.subtask_id,
    )  # fmt: skip
