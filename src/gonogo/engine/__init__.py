"""The engine: runs an approved plan, as far as it goes without a person.

Promises: a subtask starts only when all its dependencies have completed; what ends a subtask also
starts what follows, in the same transaction; a plan never reports success that it did not have;
after a crash the plan goes on from what is written, and no finished subtask runs again.

The engine is given a `Runner`, which carries out one subtask; it knows no agents and no models.
"""

from gonogo.engine._board import result_of, unsettled
from gonogo.engine._conditions import check_condition
from gonogo.engine._engine import Engine
from gonogo.engine._kinds import Kind, Step
from gonogo.engine._outcomes import (
    Completed,
    Deferred,
    Failed,
    Outcome,
    Parked,
    Retreat,
    Runner,
    Start,
    Superseded,
    Work,
)
from gonogo.engine._pauses import MODEL, PLAN_TIMERS, QUOTA, RESUME, ROLLING_BACK
from gonogo.engine._rounds import ADVANCE, GOING, REPLAN
from gonogo.engine._spending import BUDGET

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
