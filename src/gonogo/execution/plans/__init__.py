"""The life of a plan: it is proposed, commented on, approved, carried out, replanned and ended.

Promises: chat text is never taken as a decision; a plan is stored and shown before anything of it
runs; a subtask starts only when all its dependencies have completed; the transaction that ends a
subtask also starts what follows; a plan never reports success that it did not have; after a crash
the plan goes on from what is written, and no finished subtask runs again; what ends a plan also
ends its grants.
"""

from gonogo.execution.plans.approvals import (
    AbsenceKind,
    Answering,
    BudgetKind,
    InterventionKind,
    PlanKind,
    SubtaskKind,
)
from gonogo.execution.plans.checkpoints import HandCheckpoints, keep_checkpoint
from gonogo.execution.plans.controls import Retry
from gonogo.execution.plans.ending import Accounts, PlanEnding, undone
from gonogo.execution.plans.engine import Engine, PlanRunner, Threads, check_held
from gonogo.execution.plans.lifecycle import LookedOver, Planning, PlanReader, Proposals, in_words
from gonogo.execution.plans.replanning import ABOUT as REPLAN_QUESTION
from gonogo.execution.plans.replanning import Replanning, Search
from gonogo.execution.plans.rounds import PlanQuestions, PlanRules
from gonogo.execution.plans.subtasks import BuiltInKinds, Subtasks

__all__ = [
    "REPLAN_QUESTION",
    "AbsenceKind",
    "Accounts",
    "Answering",
    "BudgetKind",
    "BuiltInKinds",
    "Engine",
    "HandCheckpoints",
    "InterventionKind",
    "LookedOver",
    "PlanEnding",
    "PlanKind",
    "PlanQuestions",
    "PlanReader",
    "PlanRules",
    "PlanRunner",
    "Planning",
    "Proposals",
    "Replanning",
    "Retry",
    "Search",
    "SubtaskKind",
    "Subtasks",
    "Threads",
    "check_held",
    "in_words",
    "keep_checkpoint",
    "undone",
]
