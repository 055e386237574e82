"""Turns a message into an answer, an agent switch or a plan; owns planning.

Promises: a message is kept before it is answered; chat text is never taken as a decision; a plan
is stored and shown before anything of it runs; what ends a plan also ends its grants.
"""

from gonogo.orchestrator.absences import AbsenceKind, ask_about_model
from gonogo.orchestrator.account import Accounts
from gonogo.orchestrator.approvals import (
    BudgetKind,
    InterventionKind,
    PlanKind,
    SubtaskKind,
    ask_about_budget,
    ask_to_start,
)
from gonogo.orchestrator.checkpoints import SWEEP, Sweeps, checkpoint_starts
from gonogo.orchestrator.comments import Answering
from gonogo.orchestrator.erasures import ERASE, Erasures
from gonogo.orchestrator.inbox import Inbox, Kept
from gonogo.orchestrator.lifecycle import Planning, Proposals
from gonogo.orchestrator.replanning import ABOUT as REPLAN_QUESTION
from gonogo.orchestrator.replanning import Replanning, Search
from gonogo.orchestrator.retry import Retry
from gonogo.orchestrator.revisions import PlanReader
from gonogo.orchestrator.rollback import Rollbacks, Rolled, Undoing, retreat, wanted_rollback
from gonogo.orchestrator.subtasks import AgentStep, BuiltInKinds, Subtasks, ToolStep
from gonogo.orchestrator.threads import Threads
from gonogo.orchestrator.turns import Controls, Turns

__all__ = [
    "ERASE",
    "REPLAN_QUESTION",
    "SWEEP",
    "AbsenceKind",
    "Accounts",
    "AgentStep",
    "Answering",
    "BudgetKind",
    "BuiltInKinds",
    "Controls",
    "Erasures",
    "Inbox",
    "InterventionKind",
    "Kept",
    "PlanKind",
    "PlanReader",
    "Planning",
    "Proposals",
    "Replanning",
    "Retry",
    "Rollbacks",
    "Rolled",
    "Search",
    "SubtaskKind",
    "Subtasks",
    "Sweeps",
    "Threads",
    "ToolStep",
    "Turns",
    "Undoing",
    "ask_about_budget",
    "ask_about_model",
    "ask_to_start",
    "checkpoint_starts",
    "retreat",
    "wanted_rollback",
]
