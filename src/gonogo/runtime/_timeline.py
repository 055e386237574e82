"""A plan as a graph with its times: what a drawing of it needs."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from gonogo.domain.plan import Revision, Subtask, critical_path
from gonogo.domain.plan_views import GraphNode, PlanGraph, Wait
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.schedule import Span, actual_path, merged
from gonogo.runtime._views import subtask_view
from gonogo.store.calls import Asked


class Drawn(NamedTuple):
    """What of the store a drawing is made of, read at once."""

    plan: Plan
    revision: Revision
    rows: list[SubtaskRow]
    questions: list[Asked]
    last_seq: int


def graph_view(drawn: Drawn, now: datetime) -> PlanGraph:
    """A plan as nodes and edges, with when each ran and waited."""
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
        nodes=[_node(s, by_id[s.id], drawn.questions, now) for s in revision.subtasks],
        edges=[{"from": d, "to": s.id} for s in revision.subtasks for d in s.dependencies],
        critical_path=list(critical_path(revision.subtasks)),
        actual_path=list(actual_path(revision.subtasks, ran)),
    )


def _node(
    subtask: Subtask, row: SubtaskRow, questions: Sequence[Asked], now: datetime
) -> GraphNode:
    end = row.finished_at or now
    waits = merged(
        Span(asked.created_at, min(asked.decided_at or end, end))
        for asked in _about(row, questions)
        if asked.created_at <= end
    )
    return GraphNode(
        **subtask_view(subtask, row).model_dump(),
        waits=[Wait(since=span.since, until=span.until) for span in waits],
        waited_seconds=round(sum(span.seconds for span in waits), 6) if waits else None,
    )


def _about(row: SubtaskRow, questions: Iterable[Asked]) -> Iterable[Asked]:
    """The questions that a row waited for; one that a later revision kept, those of before."""
    kept = row.epoch == 0 and row.attempt > 0
    for asked in questions:
        same = asked.revision == row.revision
        if asked.subtask_id == row.subtask_id and (same or kept):
            yield asked
