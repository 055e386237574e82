"""The state of a plan during one transaction, the round that follows, and the events about it.

It knows no agents and no models: a `SubtaskRunner` runs a subtask.
"""

from gonogo.domain.errors import Superseded
from gonogo.execution.scheduling.conditions import check_condition
from gonogo.execution.scheduling.outcomes import (
    Completed,
    Deferred,
    Failed,
    Kind,
    Outcome,
    Parked,
    Retreat,
    Start,
    Step,
    SubtaskRunner,
    Work,
)
from gonogo.execution.scheduling.plan_state import (
    ADVANCE,
    BUDGET,
    DISK,
    GOING,
    MODEL,
    PLAN_TIMERS,
    QUOTA,
    REPLAN,
    RESUME,
    ROLLING_BACK,
    goes_on,
    result_of,
    unsettled,
    waits_for_answer,
)

__all__ = [
    "ADVANCE",
    "BUDGET",
    "DISK",
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
    "Start",
    "Step",
    "SubtaskRunner",
    "Superseded",
    "Work",
    "check_condition",
    "goes_on",
    "result_of",
    "unsettled",
    "waits_for_answer",
]
