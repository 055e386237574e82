"""Decides what of a plan runs next, and what the end of a subtask means.

Promises: a subtask starts only when all its dependencies have completed; what ends a subtask also
starts what follows, in the same transaction; a plan never reports success that it did not have;
after a crash the plan goes on from what is written, and no finished subtask runs again.

It is given a `Runner`, which carries out one subtask; it knows no agents and no models.
"""

from gonogo.execution.scheduling.conditions import check_condition
from gonogo.execution.scheduling.outcomes import (
    Completed,
    Deferred,
    Failed,
    Kind,
    Outcome,
    Parked,
    Retreat,
    Runner,
    Start,
    Step,
    Superseded,
    Work,
)
from gonogo.execution.scheduling.plan_state import result_of, unsettled
from gonogo.execution.scheduling.scheduler import (
    ADVANCE,
    BUDGET,
    GOING,
    MODEL,
    PLAN_TIMERS,
    QUOTA,
    REPLAN,
    RESUME,
    ROLLING_BACK,
)

__all__ = [
    "ADVANCE",
    "BUDGET",
    "GOING",
    "MODEL",
    "PLAN_TIMERS",
    "QUOTA",
    "REPLAN",
    "RESUME",
    "ROLLING_BACK",
    "Completed",
    "Deferred",
    "Failed",
    "Kind",
    "Outcome",
    "Parked",
    "Retreat",
    "Runner",
    "Start",
    "Step",
    "Superseded",
    "Work",
    "check_condition",
    "result_of",
    "unsettled",
]
