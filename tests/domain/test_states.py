"""State machines, move by move: what a table allows is exactly what the design draws."""

from enum import StrEnum

import pytest

from gonogo.domain.errors import IllegalTransition
from gonogo.domain.states import (
    APPROVAL,
    CALL,
    ENDED,
    PLAN,
    SUBTASK,
    TURN,
    ApprovalStatus,
    CallStatus,
    Machine,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
    was_refused,
)

DRAWN: dict[str, dict[str, str]] = {
    "plan": {
        "draft": "awaiting_approval cancelled",
        "awaiting_approval": "approved rejected expired cancelled completed partial failed",
        "approved": "running cancelled partial failed",
        "running": "completed failed partial cancelled paused replanning",
        "paused": "running cancelled completed partial failed",
        "replanning": "awaiting_approval running completed partial failed cancelled",
        "failed": "running",
        "partial": "running",
        "completed": "", "cancelled": "", "rejected": "", "expired": "",
    },
    "subtask": {
        "pending": "running waiting_approval skipped cancelled",
        "running": "completed failed cancelled waiting_approval pending",
        "waiting_approval": "pending running skipped failed cancelled",
        "completed": "", "failed": "", "skipped": "", "cancelled": "",
    },
    "tool call": {
        "proposed": "denied awaiting_approval allowed cancelled",
        "awaiting_approval": "allowed rejected expired cancelled",
        "allowed": "started failed cancelled",
        "started": "completed failed cancelled unknown",
        "unknown": "completed failed",
        "denied": "", "completed": "", "failed": "", "rejected": "", "expired": "",
        "cancelled": "",
    },
    "approval": {
        "pending": "approved edited rejected expired cancelled superseded",
        "approved": "", "edited": "", "rejected": "", "expired": "", "cancelled": "",
        "superseded": "",
    },
    "turn": {
        "queued": "running cancelled",
        "running": "parked done failed cancelled",
        "parked": "running done failed cancelled",
        "done": "", "failed": "", "cancelled": "",
    },
}  # fmt: skip
MACHINES: list[tuple[Machine[StrEnum], type[StrEnum]]] = [
    (PLAN, PlanStatus), (SUBTASK, SubtaskStatus), (CALL, CallStatus), (APPROVAL, ApprovalStatus),
    (TURN, TurnStatus),
]  # type: ignore[list-item]  # fmt: skip
MOVES = [
    pytest.param(machine, state, target, id=f"{machine.subject}: {state} to {target}")
    for machine, states in MACHINES
    for state in states
    for target in states
]


@pytest.mark.parametrize(("machine", "state", "target"), MOVES)
def test_a_move_is_legal_if_and_only_if_it_is_drawn(machine, state, target):
    drawn = target in DRAWN[machine.subject][state].split()

    if drawn:
        assert machine.check(state, target, "x1") is target
        return
    with pytest.raises(IllegalTransition) as refused:
        machine.check(state, target, "x1")
    assert str(refused.value) == f"{machine.subject} x1 is {state} and cannot become {target}"
    assert (refused.value.state, refused.value.target) == (state, target)


@pytest.mark.parametrize(("machine", "states"), MACHINES, ids=lambda each: str(each)[:20])
def test_every_state_has_a_row_and_terminal_states_lead_nowhere(machine, states):
    assert set(machine.moves) == set(states)
    assert machine.terminal == {s for s in states if not DRAWN[machine.subject][s]}


def test_a_thing_without_a_name_is_refused_by_its_kind_alone():
    with pytest.raises(IllegalTransition, match=r"^plan is completed and cannot become running$"):
        PLAN.check(PlanStatus.COMPLETED, PlanStatus.RUNNING)


def test_an_ended_plan_is_terminal_or_waits_for_a_persons_retry():
    assert PLAN.terminal < ENDED
    assert {PlanStatus.FAILED, PlanStatus.PARTIAL} == ENDED - PLAN.terminal


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ("policy_denied: no", True), ("rejected: no", True), ("expired: nobody decided", True),
        ("protected_path: .git", True), ("path_outside_workspace: ..", True),
        ("file_not_found: policy_denied", False), ("cancelled: the plan", False), ("", False),
        (None, False),
    ],
)  # fmt: skip
def test_what_was_not_to_be_is_told_from_what_did_not_work(error, refused):
    assert was_refused(error) is refused
