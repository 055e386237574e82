"""Plans: the verbs of people, and the queries."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, InvalidPlan, NotFound
from gonogo.domain.findings import FindingSeverity
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Revision, Subtask, critical_path
from gonogo.domain.plan_views import (
    CommentList,
    CommentView,
    FindingView,
    GraphNode,
    PlanCheck,
    PlanDiff,
    PlanGraph,
    PlanList,
    PlanStatusView,
    PlanView,
    RevisionView,
    Wait,
    plan_diff,
)
from gonogo.domain.records import Comment, Plan, SubtaskRow
from gonogo.domain.replanning import Used, in_force
from gonogo.domain.schedule import Span, actual_path, merged
from gonogo.domain.views import GrantView
from gonogo.execution.plans import LookedOver, Planning, Retry, in_words, undone
from gonogo.i18n import resolve
from gonogo.runtime.approvals import readable_plan
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, seen_plan, visible, whose
from gonogo.runtime.views import (
    comment_view,
    grant_view,
    plan_view,
    status_view,
    subtask_view,
    usage_view,
)
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.calls import SubtaskQuestion, comments_of, questions_of_plan, refused_calls
from gonogo.store.people import name_of
from gonogo.store.plans import (
    current_revision,
    grant_of,
    list_grants,
    list_plans,
    maker_of,
    plan_of,
    revisions_of,
    revoke_grant,
    subtask_rows,
)
from gonogo.store.reports import runs_of_plan, used_by_subtasks
from gonogo.store.sessions import session_of

# A plan as a graph with its times, for a drawing.


class Drawn(NamedTuple):
    """What the store has for a drawing, read in one transaction."""

    plan: Plan
    revision: Revision
    rows: list[SubtaskRow]
    questions: list[SubtaskQuestion]
    last_seq: int
    rolled_back: frozenset[str] = frozenset()


def graph_view(drawn: Drawn, now: datetime) -> PlanGraph:
    """A plan as nodes and edges, with the times when each node ran and waited."""
    plan, revision = drawn.plan, drawn.revision
    by_id = {row.subtask_id: row for row in drawn.rows}
    ran = {
        row.subtask_id: Span(row.started_at, row.finished_at or now)
        for row in drawn.rows
        if row.started_at
    }
    return PlanGraph(
        plan_id=plan.id,
        session_id=plan.session_id,
        revision=plan.revision,
        status=plan.status,
        as_of=now,
        last_seq=drawn.last_seq,
        started_at=plan.started_at,
        finished_at=plan.finished_at,
        nodes=[_node(s, by_id[s.id], drawn, now) for s in revision.subtasks],
        edges=[{"from": d, "to": s.id} for s in revision.subtasks for d in s.dependencies],
        critical_path=list(critical_path(revision.subtasks)),
        actual_path=list(actual_path(revision.subtasks, ran)),
    )


def _node(subtask: Subtask, row: SubtaskRow, drawn: Drawn, now: datetime) -> GraphNode:
    end = row.finished_at or now
    waits = merged(
        Span(asked.created_at, min(asked.decided_at or end, end))
        for asked in _about(row, drawn.questions)
        if asked.created_at <= end
    )
    return GraphNode(
        **subtask_view(subtask, row, drawn.rolled_back).model_dump(),
        waits=[Wait(since=span.since, until=span.until) for span in waits],
        waited_seconds=round(sum(span.seconds for span in waits), 6) if waits else None,
    )


def _about(row: SubtaskRow, questions: Iterable[SubtaskQuestion]) -> Iterable[SubtaskQuestion]:
    """The questions that a row waited for; a row from an earlier revision has that one's, too."""
    kept = row.epoch == 0 and row.attempt > 0
    for asked in questions:
        same = asked.revision == row.revision
        if asked.subtask_id == row.subtask_id and (same or kept):
            yield asked


Found = tuple[Plan, Revision, list[SubtaskRow], frozenset[str]]
"""A plan in its revision; the last item is the subtasks whose work was rolled back."""
Shown = tuple[Plan, Revision, list[SubtaskRow], frozenset[str], str | None]
"""What a plan's view is made of; the last item is the author, if a person wrote it."""
Verb = Callable[..., None]


class Plans(Struct, frozen=True):
    """The verbs and queries about plans and grants."""

    _parts: Parts

    async def page(
        self,
        principal: Principal,
        session_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> PlanList:
        """A page of the plans that the principal may see, newest first."""
        found, total = await self._parts.store.read(
            _plans, principal, session_id, status, limit, offset
        )
        return PlanList(plans=[plan_view(*each) for each in found], total=total)

    async def create(
        self, principal: Principal, session_id: str, goal: str, subtasks: Sequence[Any]
    ) -> PlanView:
        """Propose a plan that the principal wrote to whoever decides; no model is asked.

        Raises:
            NotFound: there is no such session that the principal may see.
            InvalidPlan: it has a defect, or a finding refuses it; nothing is stored.
            Conflict: the session has a plan that is not over, or answers a message.
        """
        principal.require(Role.OPERATOR)
        session = await self._parts.store.read(visible, principal, session_id)
        # This may take seconds: neither the event loop nor the database waits for it.
        own = await anyio.to_thread.run_sync(
            partial(self._parts.planning.own, goal, list(subtasks), unattended=session.unattended)
        )
        return await self._parts.store.write(self._create, principal, session_id, own)

    async def check_new(
        self,
        principal: Principal,
        goal: str,
        subtasks: Sequence[Any],
        *,
        unattended: bool = False,
    ) -> PlanCheck:
        """Check a plan that a person writes, as `create` would; nothing changes.

        Args:
            unattended: Nobody would be asked in its session.
        """
        principal.require(Role.OPERATOR)
        planning = self._parts.planning
        locale = resolve(None, self._parts.settings.locale, goal)
        draft = partial(planning.written, goal, list(subtasks))
        return await anyio.to_thread.run_sync(
            partial(looked_over, planning, draft, locale, unattended=unattended)
        )

    async def get(self, principal: Principal, plan_id: str) -> PlanView:
        """A plan in its current revision.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return await self._parts.store.read(_got, principal, plan_id)

    async def status(self, principal: Principal, plan_id: str) -> PlanStatusView:
        """The progress of a plan."""
        read = await self._parts.store.read(_in_all, principal, plan_id)
        found, runs, each, refused, of_session = read
        used = Used.total(each.values())
        usage = usage_view(found[0], runs, used, self._parts.store.clock())
        limits = in_force(self._parts.settings.budget, found[0].budget, of_session)
        return status_view(*found, usage=usage, each=each, limits=limits, refused=refused)

    async def graph(self, principal: Principal, plan_id: str) -> PlanGraph:
        """A plan as a graph to draw, with the times when its subtasks ran and waited."""
        drawn = await self._parts.store.read(_drawn, principal, plan_id)
        return graph_view(drawn, self._parts.store.clock())

    async def revisions(self, principal: Principal, plan_id: str) -> list[RevisionView]:
        """Every revision of a plan, oldest first."""
        found = await self._parts.store.read(_revisions, principal, plan_id)
        return [_revision_view(revision, row) for revision, row in found]

    async def revision(self, principal: Principal, plan_id: str, number: int) -> RevisionView:
        """One revision.

        Raises:
            NotFound: the plan has no such revision.
        """
        for view in await self.revisions(principal, plan_id):
            if view.revision == number:
                return view
        raise _no_revision(plan_id, number)

    async def diff(self, principal: Principal, plan_id: str, from_: int, to: int) -> PlanDiff:
        """What changed between two revisions.

        Raises:
            NotFound: the plan has no such revision.
        """
        found = await self._parts.store.read(_revisions, principal, plan_id)
        by_number = {revision.number: revision for revision, _ in found}
        for number in (from_, to):
            if number not in by_number:
                raise _no_revision(plan_id, number)
        return plan_diff(by_number[from_], by_number[to])

    async def start(self, principal: Principal, plan_id: str) -> PlanView:
        """Start a plan that was approved and held.

        Raises:
            Conflict: the plan is in another state; the text names it.
        """
        return await self._do(principal, plan_id, self._start)

    async def pause(self, principal: Principal, plan_id: str) -> PlanView:
        """Start nothing new; running subtasks come to their end."""
        return await self._do(principal, plan_id, self._parts.engine.controls.pause)

    async def resume(self, principal: Principal, plan_id: str) -> PlanView:
        """Go on with a paused plan."""
        return await self._do(principal, plan_id, self._parts.engine.controls.resume_plan)

    async def cancel(
        self, principal: Principal, plan_id: str, reason: str | None = None
    ) -> PlanView:
        """End a plan and everything that it runs."""
        return await self._do(
            principal, plan_id, partial(self._parts.engine.controls.cancel, reason=reason)
        )

    async def replan(self, principal: Principal, plan_id: str, reason: str) -> PlanView:
        """Have a running, paused or failed plan changed; running subtasks finish first.

        Raises:
            Conflict: the plan is in another state, or another plan is active; the text says which.
        """
        return await self._do(principal, plan_id, self._parts.replanning.start, reason)

    async def cancel_subtask(
        self, principal: Principal, plan_id: str, subtask_id: str, reason: str | None = None
    ) -> PlanView:
        """End one subtask; its siblings go on."""
        cancel = partial(self._parts.engine.controls.cancel_subtask, reason=reason)
        return await self._do(principal, plan_id, cancel, subtask_id)

    async def steer_subtask(
        self, principal: Principal, plan_id: str, subtask_id: str, content: str
    ) -> PlanView:
        """Say something to the agent of a subtask that is under way; nothing else changes.

        Raises:
            Conflict: no agent is at work in it that could hear it; the text says what to do.
        """
        principal.require(Role.OPERATOR)
        await self._parts.store.write(self._steer, principal, plan_id, subtask_id, content)
        return await self.get(principal, plan_id)

    async def skip_subtask(self, principal: Principal, plan_id: str, subtask_id: str) -> PlanView:
        """Leave one subtask out."""
        return await self._do(
            principal, plan_id, self._parts.engine.controls.skip_subtask, subtask_id
        )

    async def retry_subtask(self, principal: Principal, plan_id: str, subtask_id: str) -> PlanView:
        """Run a failed subtask again, and those that were skipped because of it.

        In a plan that goes on, it runs as soon as nothing of the plan is under way.
        """
        return await self._do(
            principal, plan_id, Retry(self._parts.engine.rounds).subtask, subtask_id
        )

    async def grants(self, principal: Principal, session_id: str | None = None) -> list[GrantView]:
        """What approved plans may do without a question."""
        found = await self._parts.store.read(_grants, principal, session_id)
        return [grant_view(grant) for grant in found]

    async def revoke_grant(self, principal: Principal, grant_id: str) -> None:
        """End a grant: from now on gonogo asks about the subtask's calls.

        Raises:
            NotFound: there is none of that id that the principal may see.
            Conflict: it has already ended.
        """
        principal.require(Role.OPERATOR)
        await self._parts.store.write(_revoke, principal, grant_id)

    # Edits and remarks --------------------------------------------------------------------------

    async def check(self, principal: Principal, plan_id: str, subtasks: Sequence[Any]) -> PlanCheck:
        """Check the subtasks of an edit, as the decision `edit` would; nothing changes.

        Raises:
            NotFound: there is no plan of that id that the principal may see.
        """
        return await self._parts.store.read(
            _checked, principal, plan_id, list(subtasks), self._parts.planning
        )

    async def comment(
        self,
        principal: Principal,
        plan_id: str,
        content: str,
        subtask_id: str | None = None,
        revision: int | None = None,
    ) -> CommentView:
        """Comment on a plan that waits for approval, or on one of its subtasks.

        Raises:
            Refused: this is not possible; the text says why.
        """
        principal.require(Role.OPERATOR)
        kept = await self._parts.store.write(
            self._comment, principal, plan_id, content, subtask_id, revision
        )
        return comment_view(kept)

    async def comments(self, principal: Principal, plan_id: str) -> CommentList:
        """The comments on a plan, with the planner's answers.

        Raises:
            NotFound: there is no such plan that the principal may see.
        """
        found = await self._parts.store.read(_comments, principal, plan_id)
        return CommentList(
            plan_id=plan_id,
            comments=[comment_view(comment) for comment in found],
            open=sum(comment.answer is None for comment in found),
        )

    async def revise(self, principal: Principal, plan_id: str) -> PlanView:
        """Send a plan that waits for approval back to its planner, to answer all open comments.

        Raises:
            Conflict: it does not wait, is with its planner already, or has no open comment.
        """
        principal.require(Role.OPERATOR)
        return await self._parts.store.write(self._send_back, principal, plan_id)

    # Inside -------------------------------------------------------------------------------------

    def _create(self, tx: Tx, principal: Principal, session_id: str, own: LookedOver) -> PlanView:
        session = visible(tx, principal, session_id)
        session = self._parts.inbox.heard(tx, session, own.revision.goal)
        return _view(tx, self._parts.planning.propose_own(tx, session, own, principal))

    def _comment(
        self,
        tx: Tx,
        principal: Principal,
        plan_id: str,
        content: str,
        subtask_id: str | None,
        revision: int | None,
    ) -> Comment:
        readable_plan(tx, principal, plan_id)
        return self._parts.answering.comment(
            tx, plan_id, content, principal, subtask_id=subtask_id, revision=revision
        )

    def _send_back(self, tx: Tx, principal: Principal, plan_id: str) -> PlanView:
        readable_plan(tx, principal, plan_id)
        self._parts.answering.send_back(tx, plan_id, principal)
        return _view(tx, plan_of(tx, plan_id))

    def _steer(
        self, tx: Tx, principal: Principal, plan_id: str, subtask_id: str, content: str
    ) -> None:
        seen_plan(tx, principal, plan_id)
        controls = self._parts.engine.controls
        controls.steer_subtask(tx, plan_id, subtask_id, content, principal)

    def _start(self, tx: Tx, plan_id: str, by: str) -> None:
        self._parts.engine.controls.start(tx, plan_id, by)
        plan = plan_of(tx, plan_id)
        if plan is not None:
            self._parts.inbox.plan_started(tx, plan.session_id)

    async def _do(self, principal: Principal, plan_id: str, verb: Verb, *what: str) -> PlanView:
        principal.require(Role.OPERATOR)
        await self._parts.store.write(_carry_out, principal, plan_id, verb, what)
        return await self.get(principal, plan_id)


def _no_revision(plan_id: str, number: int) -> NotFound:
    return NotFound(
        "Plan {plan_id} has no revision {number}; look at the plan: gonogo plans show {plan_id}",
        plan_id=plan_id, number=number,
    )  # fmt: skip


def _carry_out(
    tx: Tx, principal: Principal, plan_id: str, verb: Verb, what: tuple[str, ...]
) -> None:
    seen_plan(tx, principal, plan_id)
    verb(tx, plan_id, *what, principal.id)


def _found(tx: Tx, principal: Principal, plan_id: str) -> Found:
    return _whole(tx, readable_plan(tx, principal, plan_id))


def _got(tx: Tx, principal: Principal, plan_id: str) -> PlanView:
    return _view(tx, readable_plan(tx, principal, plan_id))


def _drawn(tx: Tx, principal: Principal, plan_id: str) -> Drawn:
    plan, revision, rows, gone = _found(tx, principal, plan_id)
    asked = questions_of_plan(tx, plan_id)
    return Drawn(plan, revision, rows, asked, log.last_seq(tx, plan.session_id), gone)


def _in_all(
    tx: Tx, principal: Principal, plan_id: str
) -> tuple[Found, int, dict[str | None, Used], int, dict[str, float] | None]:
    """A plan, its number of runs, the usage of its subtasks, the number of its refused calls.

    The last item is the limits with which its session was opened.
    """
    found = _found(tx, principal, plan_id)
    refused = refused_calls(tx, found[0].session_id, plan_id)
    session = session_of(tx, found[0].session_id)
    runs, each = runs_of_plan(tx, found[0]), used_by_subtasks(tx, plan_id)
    return found, runs, each, len(refused), session.limits if session else None


def _whole(tx: Tx, plan: Plan) -> Found:
    rows = subtask_rows(tx, plan.id, plan.revision)
    return plan, current_revision(tx, plan), rows, undone(tx, plan, rows)


def _shown(tx: Tx, plan: Plan) -> Shown:
    made_by = maker_of(tx, plan)
    return *_whole(tx, plan), None if made_by is None else name_of(tx, made_by)


def _plans(
    tx: Tx,
    principal: Principal,
    session_id: str | None,
    status: str | None,
    limit: int,
    offset: int,
) -> tuple[list[Shown], int]:
    if session_id is not None:
        visible(tx, principal, session_id)
    found, total = list_plans(
        tx, session_id=session_id, principal_id=whose(principal), status=status,
        limit=limit, offset=offset,
    )  # fmt: skip
    return [_shown(tx, plan) for plan in found], total


def _revisions(tx: Tx, principal: Principal, plan_id: str) -> list[tuple[Revision, Any]]:
    _found(tx, principal, plan_id)
    return revisions_of(tx, plan_id)


def _revision_view(revision: Revision, row: Any) -> RevisionView:  # noqa: ANN401 - a row
    return RevisionView.of(revision, row, revision=revision.number)


def _grants(tx: Tx, principal: Principal, session_id: str | None) -> list[Any]:
    if session_id is not None:
        visible(tx, principal, session_id)
    return list_grants(tx, session_id, whose(principal))


def _revoke(tx: Tx, principal: Principal, grant_id: str) -> None:
    grant = grant_of(tx, grant_id)
    session = seen(tx, principal, grant.session_id) if grant else None
    if grant is None or session is None:
        raise NotFound(
            "No grant found with id={grant_id}", see="gonogo plans show PLAN", grant_id=grant_id
        )
    if not revoke_grant(tx, grant_id, principal.name):
        raise Conflict(
            "Grant {grant_id} has already ended; there is nothing to revoke", grant_id=grant_id
        )
    log.note(
        tx, session.id, actor=principal.id, action="grant.revoked", subject=grant_id,
        plan_id=grant.plan_id, subtask_id=grant.subtask_id,
    )  # fmt: skip


def _checked(
    tx: Tx, principal: Principal, plan_id: str, raw: list[Any], planning: Planning
) -> PlanCheck:
    plan = readable_plan(tx, principal, plan_id)
    current = current_revision(tx, plan)
    session = visible(tx, principal, plan.session_id)
    return looked_over(
        planning, lambda: planning.drafted(plan, current, raw), session.spoken,
        unattended=session.unattended,
    )  # fmt: skip


def looked_over(
    planning: Planning, draft: Callable[[], Revision], locale: str, *, unattended: bool
) -> PlanCheck:
    """The findings about a revision that a person writes.

    Args:
        draft: Reads it, or raises `InvalidPlan`.
        unattended: Nobody is asked in its session.
    """
    try:
        read = draft()
    except InvalidPlan as problem:
        return PlanCheck(ok=False, problem=str(problem), subtask_id=problem.subtask_id)
    told = in_words(planning.proposals.noticed(read, unattended=unattended), locale)
    found = [FindingView(**each) for each in told]
    return PlanCheck(
        ok=all(finding.severity != FindingSeverity.ERROR for finding in found),
        findings=found, critical_path=list(critical_path(read.subtasks)),
    )  # fmt: skip


def _comments(tx: Tx, principal: Principal, plan_id: str) -> list[Comment]:
    readable_plan(tx, principal, plan_id)
    return comments_of(tx, plan_id)


def _view(tx: Tx, plan: Plan | None) -> PlanView:
    assert plan is not None  # noqa: S101 - found in this transaction
    return plan_view(*_shown(tx, plan))
