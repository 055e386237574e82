"""Rows as values: what a row does not say is not there, and a call may be held back."""

import msgspec
import pytest

from fakes.rows import NOW, call
from gonogo.domain import records
from gonogo.domain.errors import InvalidCursor
from gonogo.domain.records import Job, SessionPlace
from gonogo.domain.states import CallStatus

COUNTED = {
    "CallRow.judgings": 0, "Job.epoch": 0, "ModelRequestRow.cache_write_tokens": 0,
    "ModelRequestRow.cached_tokens": 0, "ModelRequestRow.reasoning_tokens": 0, "Plan.floor": 0,
    "Plan.replans": 0, "Session.unattended": False, "SubtaskRow.declined": False,
    "SubtaskRow.worked_ms": 0, "Turn.steered": False,
}  # fmt: skip
ABSENT = """
    CallRow.tree Checkpoint.swept_at Comment.answer Comment.answered_at Comment.answered_revision
    Approval.escalated_at Approval.group_key Approval.requested_by Approval.review Job.begun
    Job.found
    Job.since Node.labels Node.policy Plan.again Plan.approved_revision Plan.asked_by Plan.away
    Plan.budget
    Plan.instructions Plan.pause_reason Plan.paused_until Plan.replan Plan.revising Plan.rollback
    Plan.steered
    Session.instructions Session.limits Session.model Turn.away Turn.principal_id Watch.ended
    Watch.found Watch.taken_by
""".split()


def said_by_default():
    """What each row says where nobody says it."""
    return {
        f"{kind.__name__}.{field.name}": field.default
        for kind in vars(records).values()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind is not msgspec.Struct
        for field in msgspec.structs.fields(kind)
        if not field.required
    }


@pytest.mark.parametrize(
    ("status", "came", "held"),
    [
        (CallStatus.STARTED, {"result": {"x": 1}}, True),
        (CallStatus.STARTED, {"error": "timeout: late"}, True),
        (CallStatus.STARTED, {"result": {"x": 1}, "error": "late"}, True),
        (CallStatus.STARTED, {}, False),
        (CallStatus.COMPLETED, {"result": {"x": 1}}, False),
        (CallStatus.FAILED, {"error": "x"}, False),
    ],
)
def test_what_came_of_a_call_is_held_back_while_it_counts_as_started(status, came, held):
    assert call(status=status, **came).is_held is held


def test_what_a_row_does_not_say_is_not_there():
    row = call()
    assert not row.is_held
    assert said_by_default() == COUNTED | dict.fromkeys(ABSENT)


def test_a_job_is_told_by_its_kind_its_key_and_the_proof_of_who_holds_it():
    assert Job("turn", "t1") == Job("turn", "t1", 0, None)
    assert Job("turn", "t1", 2) != Job("turn", "t1", 1)
    assert Job("turn", "t1", 2, NOW).since == NOW


@pytest.mark.parametrize("text", ["2026-11-27T05:00:00~s1", "2026-11-27T05:00:00+00:00~", "now~s1"])
def test_a_place_in_the_list_of_sessions_has_a_moment_with_a_zone_and_an_id(text):
    with pytest.raises(InvalidCursor):
        SessionPlace.read(text)
