"""From one revision of a plan to the next: what is kept, and what the new one allows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.conditions import check_references, references
from gonogo.domain.errors import Conflict, InvalidArguments, InvalidPlan, NotFound, defects_of
from gonogo.domain.plan import KindRule, Revision, Subtask, dependants, parse_subtasks
from gonogo.domain.records import GrantRow, Plan, SubtaskRow
from gonogo.domain.schedule import count_settled
from gonogo.domain.states import SUBTASK, SubtaskStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.execution.scheduling import check_condition
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.checkpoints import undone_subtasks
from gonogo.store.plans import (
    add_grants,
    add_revision,
    check_approved,
    count_revisions,
    current_revision,
    end_grants,
    revise_plan,
    revoked_subtasks,
    subtask_rows,
)
from gonogo.tools import SchemaChecks, Tool


def also_asked(plan: Plan, by: str | None) -> list[str] | None:
    """Who has had a plan changed, with one more; nobody where the runtime changes it itself."""
    before = plan.asked_by or []
    return plan.asked_by if by is None or by in before else [*before, by]


def take_up(tx: Tx, plan: Plan, kept: Mapping[str, SubtaskRow], by: str, reason: str) -> Plan:
    """Have what was approved, or a part of it, done again; that needs no question.

    Rows never leave a terminal state, so the plan gets another revision: the approved one, subtask
    for subtask. What a person revoked is not granted anew. Gives the plan as it is then.

    Args:
        kept: The rows of subtasks that stand as they did; all others begin anew.

    Raises:
        Conflict: the plan is not as the caller saw it, or not at what was approved.
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
    """Grant each subtask what its plan allows it, if it allows anything without a question.

    Args:
        without: Those that get nothing: they are done, or a person revoked what they had.
    """
    if plan.auto_approve_tools:
        left = [subtask for subtask in revision.subtasks if subtask.id not in without]
        add_grants(tx, [_grant(plan, subtask, tx.now) for subtask in left])


def completed(tx: Tx, plan: Plan) -> dict[str, SubtaskRow]:
    """The rows of a plan's subtasks that are done: no later revision changes them."""
    if plan.started_at is None:
        return {}
    rows = subtask_rows(tx, plan.id, plan.revision)
    done = (row for row in rows if row.status is SubtaskStatus.COMPLETED or row.declined)
    gone = undone(tx, plan, rows)
    return {row.subtask_id: row for row in done if row.subtask_id not in gone}


def undone(tx: Tx, plan: Plan, rows: Iterable[SubtaskRow]) -> frozenset[str]:
    """The subtasks whose files were taken back after they ended, and those built on them."""
    since = undone_subtasks(tx, plan.id)
    over = {row.subtask_id: row.finished_at for row in rows if row.finished_at is not None}
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


# Trying again: the same subtasks, some of them to be done once more.

_S = SubtaskStatus
_AGAIN = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})
Rows = dict[str, SubtaskRow]


def revise_again(tx: Tx, plan: Plan, asked: Sequence[Mapping[str, str]]) -> None:
    """Have the plan be at a revision in which all is tried again that people asked for.

    Nothing of the plan is under way.
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
    """The next revision; what has not begun begins in it as it would have."""
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
    """The subtask, and those dependants that did not complete."""
    row = rows.get(subtask_id)
    if row is None:
        raise NotFound(
            "Plan {plan_id} has no subtask {subtask_id}; list its subtasks: gonogo plans show "
            "{plan_id}",
            plan_id=revision.plan_id, subtask_id=subtask_id,
        )  # fmt: skip
    if row.status not in _AGAIN:
        raise Conflict(
            "Subtask {subtask_id} is {subtask_status}; only a failed, skipped or cancelled "
            "subtask can be retried",
            subtask_id=subtask_id, subtask_status=row.status,
        )  # fmt: skip
    waiting = dependants(revision.subtasks, subtask_id)
    return frozenset({subtask_id}) | {key for key in waiting if rows[key].status in _AGAIN}


# Reads the subtasks of a plan, and checks all that can be known before it runs.


class PlanReader(Struct, frozen=True, kw_only=True):
    """Knows who can carry out subtasks, and what they can give."""

    workers: frozenset[str]
    """The agents that may carry out subtasks."""
    tools: Mapping[str, Tool]
    kinds: Mapping[str, KindRule]

    def read(
        self,
        raw: Any,  # noqa: ANN401 - as a stranger wrote it
        done: Collection[str] = (),
    ) -> tuple[Subtask, ...]:
        """Read the subtasks of a new plan, of an edited one, or what is left of one.

        Args:
            done: Ids of subtasks that these may depend on and that are kept.

        Raises:
            InvalidPlan: with the first defect, naming the subtask and the field.
        """
        usable = {name for name, t in self.tools.items() if t.tool_class is not ToolClass.CONTROL}
        subtasks = parse_subtasks(
            raw, agents=self.workers, tools=usable, kinds=self.kinds, known=done
        )
        check_references(subtasks, done)
        checks: SchemaChecks | None = None
        for subtask in subtasks:
            with defects_of(subtask.id):
                _check_condition(subtask)
                if subtask.tool is not None and not references(subtask.inputs):
                    # Those of one plan share their time.
                    checks = checks or SchemaChecks()
                    self._check_arguments(subtask, subtask.tool, checks)
        return subtasks

    def _check_arguments(self, subtask: Subtask, tool: str, checks: SchemaChecks) -> None:
        """Check the inputs of a tool that are known already."""
        try:
            self.tools[tool].parse(subtask.inputs or {}, checks)
        except InvalidArguments as problem:
            raise InvalidPlan(
                "Subtask {subtask_id!r}: inputs: {problem}", subtask_id=subtask.id, problem=problem
            ) from None


def _check_condition(subtask: Subtask) -> None:
    if subtask.condition is None:
        return
    try:
        check_condition(subtask.condition)
    except InvalidPlan as problem:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: {problem}", subtask_id=subtask.id, problem=problem
        ) from None
