"""Subtasks: the engine's runner. Carries each one out as its kind says."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gonogo.agents import drop_call
from gonogo.approvals import Desk
from gonogo.domain.conditions import references, resolve
from gonogo.domain.errors import GonogoError
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.plan import BUILT_IN
from gonogo.domain.records import SubtaskRow
from gonogo.engine import Completed, Failed, Kind, Outcome, Step, Work, result_of
from gonogo.orchestrator._account import told_refusals
from gonogo.orchestrator._brief import shaped
from gonogo.orchestrator._threads import Check, thread_name
from gonogo.store import Connection, Store
from gonogo.store.calls import open_calls, pending_of_plan, refused_calls
from gonogo.store.plans import plan_of, subtask_key, subtask_row

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtasks:
    """Carries subtasks out by their kinds."""

    store: Store
    desk: Desk
    clock: Callable[[], datetime]
    check: Check
    kinds: Mapping[str, Kind]
    patterns: Patterns

    async def run(self, work: Work) -> Outcome:
        """Carry one subtask out as far as it goes without a person.

        Raises:
            Superseded: somebody else holds the subtask.
            UnmetReference: its inputs name a result that is not there.
            ModelFailed: the model did not answer.
        """
        kind = self.kinds.get(work.subtask.type)
        if kind is None:
            said = f"The kind {work.subtask.type!r} is not installed here"
            return Failed(
                Failure(message=said, severity=Severity.HIGH, category=Category.ENVIRONMENT)
            )
        step = await self.store.read(self._step, work)
        outcome = await self._carried_out(kind, step)
        if isinstance(outcome, Completed):
            result = shaped(outcome.result, "completed")
            refused = await self.store.read(_refused, work)
            return replace(outcome, result=result | ({"refused": refused} if refused else {}))
        return outcome

    def dropped(self, conn: Connection, row: SubtaskRow, reason: str, now: datetime) -> None:
        """A subtask's work was taken away: its calls and questions end."""
        plan = plan_of(conn, row.plan_id)
        if plan is None:
            return
        for call in open_calls(conn, plan.session_id, thread_name(row.key, row.attempt)):
            drop_call(conn, self.desk, call, f"cancelled: {reason}", now)
        for approval in pending_of_plan(conn, plan.id):
            if approval.subtask_id == row.subtask_id:
                self.desk.withdraw(conn, approval, now)

    async def _carried_out(self, kind: Kind, step: Step) -> Outcome:
        try:
            outcome = await kind.run(step)
            return outcome if kind.name in BUILT_IN else _usable(outcome)
        except GonogoError:
            raise
        except Exception as error:
            # What goes wrong inside is the log's; what a registered kind says, its author's.
            if kind.name in BUILT_IN:
                raise
            _LOG.exception("subtask %s failed", step.work.key)
            said = f"{type(error).__name__}: {error}"
            return Failed(self.patterns.classify_text(said))

    def _step(self, conn: Connection, work: Work) -> Step:
        self.check(conn, work)
        row = subtask_row(conn, work.key)
        assert row is not None  # noqa: S101 - `check` found it
        subtask = work.subtask
        named = {reference.subtask_id for reference in references(subtask.inputs)}
        results = _results(conn, work, named.union(subtask.dependencies))
        return Step(
            work=work, attempt=row.attempt, inputs=resolve(subtask.inputs or {}, results),
            results={key: results[key] for key in subtask.dependencies}, now=self.clock,
        )  # fmt: skip


def _refused(conn: Connection, work: Work) -> list[dict[str, str]]:
    """What the subtask asked for and did not get: whoever reads its result has to know."""
    plan = plan_of(conn, work.revision.plan_id)
    assert plan is not None  # noqa: S101 - the work is a part of it
    return told_refusals(refused_calls(conn, plan.session_id, plan.id, work.subtask.id))


def _usable(outcome: object) -> Outcome:
    """What a registered kind gave, if it can be kept.

    Raises:
        TypeError, ValueError: it is no outcome, or its result is no JSON.
    """
    if not isinstance(outcome, Outcome):
        raise TypeError(f"a kind gives an outcome, not {type(outcome).__name__}")
    if isinstance(outcome, Completed):
        json.dumps(outcome.result, allow_nan=False)
    return outcome


def _results(conn: Connection, work: Work, of: set[str]) -> dict[str, dict[str, Any]]:
    keys = {key: subtask_key(work.revision.plan_id, work.revision.number, key) for key in of}
    rows = {key: subtask_row(conn, at) for key, at in keys.items()}
    return {
        key: shaped(result_of(row), str(row.status)) for key, row in rows.items() if row is not None
    }
