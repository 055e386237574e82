"""The engine: runs an approved plan, as far as it goes without a person.

Promises: a subtask starts only when all its dependencies have completed; what ends a subtask also
starts what follows, in the same transaction; a plan never reports success that it did not have;
after a crash the plan goes on from what is written, and no finished subtask runs again.

The engine is given a `Runner`, which carries out one subtask; it knows no agents and no models.
"""

from gonogo.engine.conditions import check_condition
from gonogo.engine.controls import MODEL, PLAN_TIMERS, QUOTA, RESUME, ROLLING_BACK
from gonogo.engine.outcomes import (
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
from gonogo.engine.plan_state import result_of, unsettled
from gonogo.engine.runner import Engine
from gonogo.engine.scheduler import ADVANCE, BUDGET, GOING, REPLAN

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
    "Engine",
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
