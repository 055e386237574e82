"""The end of a plan: the account of its results, and the end of everything begun for it."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise, starmap
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.base import elapsed
from gonogo.domain.errors import Conflict, ToolFailed, because
from gonogo.domain.events import AgentSwitched, PlanEnded, PlanEndedFacts, SwitchFacts
from gonogo.domain.plan import Revision, Subtask, dependants, no_subtask, worker_name
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import MAIN, Approval, FileChange, GrantRow, Plan, Session, SubtaskRow
from gonogo.domain.replanning import Used
from gonogo.domain.schedule import count_settled
from gonogo.domain.states import (
    ENDED,
    SUBTASK,
    ApprovalKind,
    ApprovalStatus,
    CallStatus,
    PlanStatus,
    SubtaskStatus,
)
from gonogo.domain.text_safety import visible_json
from gonogo.domain.tool_calls import PlanAccount, Reply
from gonogo.domain.undo import net_changes, shown_path
from gonogo.execution.agent import drop_call, end_call
from gonogo.execution.agent.inbox import ORCHESTRATOR, next_turn, wake
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.scheduling import REPLAN
from gonogo.i18n import say, told
from gonogo.i18n.texts import account
from gonogo.store import Store, Tx, new_id, stop
from gonogo.store import events as log
from gonogo.store.calls import (
    RefusedCall,
    decided_of_plan,
    open_calls,
    open_calls_below,
    pending_of_plan,
    refused_calls,
)
from gonogo.store.checkpoints import changes_after, undone_subtasks
from gonogo.store.people import names
from gonogo.store.plans import (
    account_kept,
    add_grants,
    add_revision,
    check_approved,
    count_revisions,
    current_revision,
    end_grants,
    end_revising,
    keep_account,
    lock_plan,
    plan_of,
    revise_plan,
    revisions_of,
    revoked_subtasks,
    subtask_rows,
    thread_name,
)
from gonogo.store.reports import used_by_plan
from gonogo.store.sessions import append_message, session_of, set_session, spoken_in, turn_of
from gonogo.workspace import Snapshots

# The account of a plan: the results of its subtasks, for clients and for agents.
#
# Agents see it at the place in their conversation where the plan ended, as data: a line of JSON for
# the plan, for each answer and change of a person, and for each subtask. It is made from the record
# when a model is next asked, so that nobody waits for it, and stored, so that it stays the same.

_S = SubtaskStatus
_TOLD = 300
"""Characters of what a refused call was about, and of the reason."""
_MOST_REFUSED = 50
_MOST = 16_000
"""Characters of an account."""
_MOST_COUNTED = 2_000
"""Files of a plan, at most, whose changed lines are counted."""


def told_refusals(calls: Sequence[RefusedCall]) -> list[dict[str, str]]:
    """Calls that were denied, rejected or left unanswered, as results show them."""
    return [
        {
            "call_id": call.call_id,
            "tool_name": call.tool,
            "about": _aim(call.arguments)[:_TOLD],
            "error": call.error[:_TOLD],
        }
        for call in calls[:_MOST_REFUSED]
    ]


def _aim(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("command") or arguments.get("path") or "")


def execution_result(tx: Tx, plan: Plan) -> dict[str, Any]:
    """What `execute_plan` answers when the plan is over."""
    facts = account_of(tx, plan)
    rows = subtask_rows(tx, plan.id, plan.revision)
    return {
        **facts.model_dump(mode="json", exclude_none=True),
        "success_rate": round(facts.completed / facts.total, 4),
        "errors": [
            {"subtask_id": row.subtask_id, "message": row.error["message"]}
            for row in rows
            if row.status is _S.FAILED and row.error
        ],
        "subtasks": {row.subtask_id: _subtask_result(row) for row in rows},
    }


def _subtask_result(row: SubtaskRow) -> dict[str, Any]:
    found = {"status": row.status, "result": row.result, "error": row.error, "reason": row.reason}
    return {name: value for name, value in found.items() if value is not None}


def account_of(tx: Tx, plan: Plan) -> PlanEndedFacts:
    """How many of the plan's subtasks ended how; the numbers add up to the total."""
    rows = subtask_rows(tx, plan.id, plan.revision)
    refused = refused_calls(tx, plan.session_id, plan.id)
    began, ended = plan.started_at, plan.finished_at
    return PlanEndedFacts(
        plan_id=plan.id,
        status=plan.status,
        total=len(rows),
        completed=_count(rows, _S.COMPLETED),
        failed=_count(rows, _S.FAILED),
        skipped=_count(rows, _S.SKIPPED),
        cancelled=_count(rows, _S.CANCELLED),
        refused=len(refused) or None,
        duration_seconds=round(elapsed(began, ended), 6) if began and ended else 0.0,
        revision=plan.revision,
    )


def _count(rows: list[SubtaskRow], status: SubtaskStatus) -> int:
    return sum(row.status is status for row in rows)


class Measure(NamedTuple):
    """How much an account shows of each thing; the largest measure that fits is used."""

    letters: int
    """Characters of a text."""
    items: int
    """Files, and refused calls."""


_CLOSED = {
    PlanStatus.COMPLETED: because("the plan is completed"),
    PlanStatus.PARTIAL: because("the plan is partial"),
    PlanStatus.FAILED: because("the plan failed"),
    PlanStatus.CANCELLED: because("the plan is cancelled"),
    PlanStatus.REJECTED: because("the plan was rejected"),
    PlanStatus.EXPIRED: because("the plan expired"),
}
"""Why a plan's grants end, by the plan's last status."""
_MEASURES = (Measure(2_000, 40), Measure(600, 20), Measure(200, 8), Measure(80, 3))


class Made(NamedTuple):
    """A revision, its author, and the reason for it."""

    revision: Revision
    by: str
    reason: str


class PlanRecord(Struct, frozen=True, kw_only=True):
    """The stored facts about a plan that its account shows."""

    plan: Plan
    ended: PlanEndedFacts
    used: Used
    revisions: Sequence[Made]
    rows: Sequence[SubtaskRow]
    answers: Sequence[Approval]
    refused: Sequence[RefusedCall]
    changes: Sequence[FileChange]

    @property
    def revision(self) -> Revision:
        """The revision that was carried out."""
        return next(m.revision for m in self.revisions if m.revision.number == self.plan.revision)


class Accounts(Struct, frozen=True, kw_only=True):
    """The accounts of ended plans, for agents."""

    store: Store
    snapshots: Snapshots

    async def text(self, plan_id: str, locale: str) -> str:
        """The account of a plan; it is stored when made, unless the plan has gone on meanwhile."""
        kept = await self.store.read(account_kept, plan_id)
        return kept or await self._made(plan_id, locale)

    async def _made(self, plan_id: str, locale: str) -> str:
        record = await self.store.read(_record, plan_id)
        files = await anyio.to_thread.run_sync(self._files, record.changes)
        text = _text(record, files, locale)
        await self.store.write(_keep, record, text)
        return text

    def _files(self, changes: Iterable[FileChange]) -> dict[str, list[dict[str, Any]]]:
        """The changed files, by subtask."""
        found = [(key, change) for key, run in _by_subtask(changes) for change in net_changes(run)]
        try:
            counts = self.snapshots.changed_lines([c.blobs for _, c in found[:_MOST_COUNTED]])
        except ToolFailed:
            counts = []
        files = defaultdict[str, list[dict[str, Any]]](list)
        for n, (key, change) in enumerate(found):
            known = n < len(counts) and change.status != "unknown"
            count = counts[n] if known else None
            lines = {"lines_added": count.added, "lines_removed": count.removed} if count else {}
            about = {"path": shown_path(change.path), "status": change.status}
            files[key].append({**about, **lines})
        return files


def _record(tx: Tx, plan_id: str) -> PlanRecord:
    plan = plan_of(tx, plan_id)
    assert plan is not None  # noqa: S101 - plans are never deleted
    revisions = revisions_of(tx, plan.id)
    known = names(tx, [row.created_by for _, row in revisions])
    return PlanRecord(
        plan=plan,
        ended=account_of(tx, plan),
        used=used_by_plan(tx, plan.id),
        revisions=[
            Made(revision, known.get(row.created_by) or row.created_by, row.reason)
            for revision, row in revisions
        ],
        rows=subtask_rows(tx, plan.id, plan.revision),
        answers=decided_of_plan(tx, plan.id),
        refused=refused_calls(tx, plan.session_id, plan.id),
        changes=changes_after(tx, plan.id, 0),
    )


def _keep(tx: Tx, record: PlanRecord, text: str) -> None:
    lock_plan(tx, record.plan.id)
    if record.plan.status in ENDED and _record(tx, record.plan.id) == record:
        keep_account(tx, record.plan.id, text)


# Files ------------------------------------------------------------------------------------------


def _by_subtask(changes: Iterable[FileChange]) -> Iterable[tuple[str, list[FileChange]]]:
    runs = defaultdict[str, list[FileChange]](list)
    for change in changes:
        if change.subtask_id is not None:
            runs[change.subtask_id].append(change)
    return runs.items()


# The text ---------------------------------------------------------------------------------------


def _text(record: PlanRecord, files: Mapping[str, list[dict[str, Any]]], locale: str) -> str:
    head = say("model_account", locale, plan_id=record.plan.id)
    lines: list[str] = []
    for measure in _MEASURES:
        teller = _Teller(record=record, files=files, measure=measure, locale=locale)
        lines = [visible_json(line) for line in teller.lines()]
        if sum(len(line) + 1 for line in lines) <= _MOST:
            return "\n".join([head, *lines])
    ends = accumulate(len(line) + 1 for line in lines)
    kept = [line for line, end in zip(lines, ends, strict=True) if end <= _MOST]
    left = say("model_account_left", locale, count=len(lines) - len(kept))
    return "\n".join([head, *kept, left])


class _Teller(Struct, frozen=True, kw_only=True):
    """Turns a record into lines, with texts as long as the measure allows."""

    record: PlanRecord
    files: Mapping[str, list[dict[str, Any]]]
    measure: Measure
    locale: str

    def lines(self) -> Iterable[dict[str, Any]]:
        """The lines, most important first: the plan, failures, what people did, and the rest."""
        rows = sorted(self.record.rows, key=lambda row: row.status is not _S.FAILED)
        failed = self.record.ended.failed
        yield self._plan()
        yield from map(self._subtask, rows[:failed])
        yield from map(self._answer, filter(_is_told, self.record.answers))
        yield from starmap(self._revision, pairwise(self.record.revisions))
        yield from map(self._subtask, rows[failed:])
        gone = self.files.keys() - {row.subtask_id for row in rows}
        yield from ({"subtask": key, **self._files(key)} for key in sorted(gone))

    def _plan(self) -> dict[str, Any]:
        ended, used = self.record.ended, self.record.used
        return {
            **ended.model_dump(mode="json", exclude_none=True, exclude={"duration_seconds"}),
            "goal": self._cut(self.record.plan.goal),
            "revision": self.record.plan.revision,
            "model_requests": used.requests,
            "tokens": used.input_tokens + used.output_tokens,
            "dollars": used.cost_micros / 1_000_000,
            **({"replies_of_unknown_price": used.unpriced} if used.unpriced else {}),
        }

    def _subtask(self, row: SubtaskRow) -> dict[str, Any]:
        subtask = self.record.revision.subtask(row.subtask_id)
        return _given(
            subtask=row.subtask_id, status=row.status, by=worker_name(subtask),
            task=self._cut(subtask.description), attempts=row.attempt,
            output=self._cut(shaped(row.result, row.status)["output"]),
            error=self._cut((row.error or {}).get("message")), reason=self._cut(row.reason),
            checks=self._checks(row),
            refused=self._refused(row.subtask_id), **self._files(row.subtask_id),
        )  # fmt: skip

    def _files(self, key: str) -> dict[str, Any]:
        found = self.files.get(key, [])
        shown = [file | {"path": self._cut(file["path"])} for file in found[: self.measure.items]]
        return _given(files=shown, more_files=len(found) - len(shown))

    def _checks(self, row: SubtaskRow) -> list[dict[str, Any]]:
        """The checks of a completed subtask, and what was seen; an error tells those of others."""
        subtask = self.record.revision.subtask(row.subtask_id)
        if not subtask.done_when or row.status is not _S.COMPLETED:
            return []
        return [
            {"check": self._cut(each["check"]), "seen": self._cut(each["seen"])}
            for each in row.result["checks"][: self.measure.items]
        ]

    def _refused(self, key: str) -> list[dict[str, Any]]:
        calls = [call for call in self.record.refused if call.subtask_id == key]
        return [
            _given(tool=c.tool, about=self._cut(_aim(c.arguments)), error=self._cut(c.error))
            for c in calls[: self.measure.items]
        ]

    def _answer(self, approval: Approval) -> dict[str, Any]:
        said = approval.decision or {}
        edited = None if approval.kind == ApprovalKind.PLAN else said.get("changes")
        return _given(
            question=approval.kind, subtask=approval.subtask_id,
            about=self._cut(approval.subject),
            at=self._cut(_aim(approval.details.get("arguments", {}))),
            answer=approval.status, by=said.get("decided_name"),
            feedback=self._cut(said.get("feedback")), edited=self._cut(edited),
        )  # fmt: skip

    def _revision(self, before: Made, after: Made) -> dict[str, Any]:
        changes = plan_changes(before.revision, after.revision)
        return _given(
            revision=after.revision.number, made_by=after.by, because=self._cut(after.reason),
            added=self._cut(", ".join(subtask.id for subtask in changes.added)),
            removed=self._cut(", ".join(subtask.id for subtask in changes.removed)),
            changed=self._cut("; ".join(f"{k}: {', '.join(v)}" for k, v in changes.changed)),
        )  # fmt: skip

    def _cut(self, value: Any) -> str | None:  # noqa: ANN401 - any JSON value
        return None if value is None else cut(value, self.measure.letters, self.locale)


def _is_told(approval: Approval) -> bool:
    """Whether an answer says more than a plain approval of a call."""
    said = approval.decision or {}
    plain = approval.status is ApprovalStatus.APPROVED and not said.get("feedback")
    return not plain or approval.kind == ApprovalKind.PLAN


def _given(**facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    return {name: value for name, value in facts.items() if value not in (None, "", [], 0)}


ARCHITECT = "architect"


def replan_thread(plan: Plan) -> str:
    """The name of the conversation in which a plan that was sent back is replanned."""
    return f"{plan.id}/replan/{plan.replans}"


def revise_thread(plan: Plan) -> str:
    """The name of the conversation in which a plan's planner answers comments on it."""
    return f"{plan.id}/revise/{(plan.revising or {}).get('id')}"


class PlanEnding(Struct, frozen=True):
    """Ends plans, and what was begun for them, each a part of its caller's transaction."""

    desk: ApprovalService

    def drop_work(self, tx: Tx, row: SubtaskRow, reason: str) -> None:
        """End the open calls and questions of a subtask whose work has ended."""
        plan = plan_of(tx, row.plan_id)
        if plan is None:
            return
        name, session_id = thread_name(row.key, row.attempt), plan.session_id
        checks = open_calls_below(tx, session_id, name) if row.attempt else []
        for call in (*open_calls(tx, session_id, name), *checks):
            drop_call(tx, self.desk, call, f"cancelled: {reason}")
        for approval in pending_of_plan(tx, plan.id):
            if approval.subtask_id == row.subtask_id:
                self.desk.withdraw(tx, approval)

    def end(self, tx: Tx, plan: Plan, status: PlanStatus) -> None:
        """Write that a plan is over: its grants end, and the orchestrator answers again."""
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        ended = replace(plan, status=status, finished_at=tx.now)
        self.close(tx, session, ended, status)
        facts = account_of(tx, ended)
        content = account(facts, session.spoken)
        if status is not PlanStatus.CANCELLED:
            event = PlanEnded(
                content=content, metadata=facts, plan_id=plan.id, agent=ARCHITECT, is_final=True
            )
            log.tell(tx, session.id, event)
        keep_account(tx, plan.id, None)
        append_message(tx, session.id, MAIN, Reply(text=content), agent=ARCHITECT)
        append_message(tx, session.id, MAIN, PlanAccount(plan_id=plan.id), agent=ARCHITECT)
        self._answer_executors(tx, session, ended)
        next_turn(tx, replace(session, active_plan_id=None))

    def close(self, tx: Tx, session: Session, plan: Plan, status: PlanStatus) -> None:
        """End the questions, searches and grants of a plan that is over."""
        why = str(_CLOSED[status])
        self.drop_searches(tx, plan)
        for approval in pending_of_plan(tx, plan.id):
            self.desk.withdraw(tx, approval)
        ended = end_grants(tx, plan.id, why)
        set_session(tx, session.id, active_plan_id=None, agent=ORCHESTRATOR)
        switch = SwitchFacts(
            from_agent=ARCHITECT, to_agent=ORCHESTRATOR, reason=why, cause=f"plan_{status}"
        )
        event = AgentSwitched(metadata=switch, plan_id=plan.id, agent=ORCHESTRATOR)
        log.tell(tx, session.id, event)
        log.note(
            tx, session.id, actor="gonogo", action="plan.closed", subject=plan.id,
            reason=why, grants_ended=ended,
        )  # fmt: skip

    def drop_searches(self, tx: Tx, plan: Plan) -> None:
        """End the open calls of all searches for another revision."""
        if plan.replans:
            self.drop_search(tx, plan, replan_thread(plan))
        if plan.revising is None:
            return
        self.drop_search(tx, plan, revise_thread(plan))
        end_revising(tx, plan.id)
        stop(tx, REPLAN, plan.id)
        log.note(
            tx, plan.session_id, actor="gonogo", action="plan.revising_ended", subject=plan.id,
            revision=plan.revision, reason=because("the plan was decided meanwhile"),
        )  # fmt: skip

    def drop_search(self, tx: Tx, plan: Plan, thread: str) -> None:
        """End the open calls of one search."""
        for call in open_calls(tx, plan.session_id, thread):
            why = told(because("the search has ended"), spoken_in(tx, plan.session_id))
            drop_call(tx, self.desk, call, f"cancelled: {why}")

    def _answer_executors(self, tx: Tx, session: Session, plan: Plan) -> None:
        """Give turns that called `execute_plan` and waited their result."""
        for call in open_calls(tx, session.id, MAIN):
            if call.tool != "execute_plan" or call.status is not CallStatus.STARTED:
                continue
            found = execution_result(tx, plan)
            end_call(tx, call, CallStatus.COMPLETED, result=found)
            turn = turn_of(tx, call.turn_id or "")
            if turn is not None:
                wake(tx, turn)


# Results of subtasks, as others see them.


def cut(value: Any, limit: int, locale: str) -> str:  # noqa: ANN401 - any JSON value
    """A value as text of limited length that says how much was left out.

    Args:
        limit: Characters.
    """
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(shown) <= limit:
        return shown
    return shown[:limit] + say("model_truncated", locale, count=len(shown) - limit)


def shaped(result: object, status: str) -> dict[str, Any]:
    """A subtask's result in the one shape that all have: `{status, output, metadata}`."""
    if not isinstance(result, Mapping) or "output" not in result:
        return {"status": status, "output": result, "metadata": {}}
    return {"metadata": {}, **cast("Mapping[str, Any]", result), "status": status}


# From one revision of a plan to the next: what is kept, and what the new one allows.


def also_asked(plan: Plan, by: str | None) -> list[str] | None:
    """The people who had a plan changed, and one more; `by` is None for the runtime itself."""
    before = plan.asked_by or []
    return plan.asked_by if by is None or by in before else [*before, by]


def take_up(tx: Tx, plan: Plan, kept: Mapping[str, SubtaskRow], by: str, reason: str) -> Plan:
    """Have the approved revision, or a part of it, run again; that needs no question.

    Rows never leave a terminal state, so the plan gets another revision: the approved one, subtask
    for subtask. What a person revoked is not granted again. Returns the changed plan.

    Args:
        kept: The rows of subtasks that stay as they are; all others begin anew.

    Raises:
        Conflict: the plan has changed since it was read, or is not at its approved revision.
    """
    check_approved(plan)
    number = count_revisions(tx, plan.id) + 1
    revision = current_revision(tx, plan).model_copy(update={"number": number, "written": None})
    add_revision(tx, revision, by, reason, kept=kept)
    floor = told_progress(tx, plan)
    if not revise_plan(tx, plan, revision, floor, approved_revision=number):
        raise Conflict("Plan {plan_id} has just changed; look at it again", plan_id=plan.id)
    end_grants(tx, plan.id, reason)
    revised = replace(
        plan, revision=number, approved_revision=number, digest=revision.digest, finished_at=None
    )
    mint_grants(tx, revised, revision, kept.keys() | revoked_subtasks(tx, plan.id))
    return revised


def mint_grants(tx: Tx, plan: Plan, revision: Revision, without: Collection[str]) -> None:
    """Grant each subtask its scope, if the plan allows tools without a question.

    Args:
        without: Subtasks that get no grant: they are done, or a person revoked theirs.
    """
    if plan.auto_approve_tools:
        left = [subtask for subtask in revision.subtasks if subtask.id not in without]
        add_grants(tx, [_grant(plan, subtask, tx.now) for subtask in left])


def completed(tx: Tx, plan: Plan) -> dict[str, SubtaskRow]:
    """The rows of a plan's completed subtasks: no later revision changes them."""
    if plan.started_at is None:
        return {}
    rows = subtask_rows(tx, plan.id, plan.revision)
    done = (row for row in rows if row.status is SubtaskStatus.COMPLETED or row.declined)
    gone = undone(tx, plan, rows)
    return {row.subtask_id: row for row in done if row.subtask_id not in gone}


def undone(tx: Tx, plan: Plan, rows: Iterable[SubtaskRow]) -> frozenset[str]:
    """The subtasks whose files were rolled back after they ended, and their dependants."""
    over = {row.subtask_id: row.finished_at for row in rows if row.finished_at is not None}
    since = undone_subtasks(tx, plan.id) if over else {}
    gone = frozenset(key for key, at in over.items() if key in since and at <= since[key])
    if not gone:
        return gone
    subtasks = current_revision(tx, plan).subtasks
    return gone.union(*(dependants(subtasks, each) for each in gone))


def told_progress(tx: Tx, plan: Plan) -> int:
    """The progress that was told of a plan so far, in thousandths."""
    rows = subtask_rows(tx, plan.id, plan.revision)
    done = count_settled((row.status for row in rows), ended=plan.finished_at is not None)
    return max(plan.floor, 1000 * done // len(rows))


def _grant(plan: Plan, subtask: Subtask, now: datetime) -> GrantRow:
    scope = subtask.scope.model_dump(mode="json", exclude_none=True) if subtask.scope else None
    return GrantRow(
        id=new_id("grant"), session_id=plan.session_id, plan_id=plan.id, revision=plan.revision,
        subtask_id=subtask.id, scope=scope, status="active", created_at=now, ended_at=None,
        ended_because=None,
    )  # fmt: skip


# Trying again: the same subtasks, some of which run once more.

_AGAIN = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})
Rows = dict[str, SubtaskRow]


def revise_again(tx: Tx, plan: Plan, asked: Sequence[Mapping[str, str]]) -> None:
    """Make a revision of the plan in which everything runs again that people asked for.

    The caller makes sure that nothing of the plan is under way.
    """
    current, rows = stand(tx, plan)
    again = frozenset[str]().union(
        undone(tx, plan, rows.values()),
        *(tried_again(current, rows, each["subtask_id"]) for each in asked),
    )
    revised_by(tx, plan, rows, again, asked[-1]["by"])


def stand(tx: Tx, plan: Plan) -> tuple[Revision, Rows]:
    """A plan's revision, and the rows of its subtasks by their ids."""
    return current_revision(tx, plan), {
        row.subtask_id: row for row in subtask_rows(tx, plan.id, plan.revision)
    }


def revised_by(tx: Tx, plan: Plan, rows: Rows, again: frozenset[str], by: str) -> Plan:
    """The plan in its next revision; subtasks that had not begun begin in it as usual."""
    over = {key: row for key, row in rows.items() if row.status in SUBTASK.terminal}
    kept = {key: row for key, row in over.items() if key not in again}
    reason = f"retry of {', '.join(sorted(again))}"
    revised = take_up(tx, plan, kept, by, reason)
    facts: dict[str, Any] = {"revision": revised.revision, "digest": revised.digest}
    log.note(
        tx, plan.session_id, actor=by, action="plan.retried", subject=plan.id,
        subtasks=sorted(again), **facts,
    )  # fmt: skip
    return revised


def tried_again(revision: Revision, rows: Rows, subtask_id: str) -> frozenset[str]:
    """The subtask, and its dependants that did not complete."""
    row = rows.get(subtask_id)
    if row is None:
        raise no_subtask(revision.plan_id, subtask_id)
    if row.status not in _AGAIN:
        raise Conflict(
            "Subtask {subtask_id} is {subtask_status}; only a failed, skipped or cancelled "
            "subtask can be retried",
            subtask_id=subtask_id, subtask_status=row.status,
        )  # fmt: skip
    waiting = dependants(revision.subtasks, subtask_id)
    return frozenset({subtask_id}) | {key for key in waiting if rows[key].status in _AGAIN}
