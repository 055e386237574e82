"""The life of a plan: proposed, commented on, approved, carried out, planned anew, ended.

Promises: chat text is never taken as a decision; a plan is stored and shown before anything of it
runs; what ends a plan also ends its grants.
"""

from gonogo.execution.plans.account import Accounts
from gonogo.execution.plans.approvals import (
    BudgetKind,
    InterventionKind,
    PlanKind,
    SubtaskKind,
    ask_about_budget,
    ask_to_start,
)
from gonogo.execution.plans.comments import Answering
from gonogo.execution.plans.lifecycle import Planning, Proposals
from gonogo.execution.plans.replanning import ABOUT as REPLAN_QUESTION
from gonogo.execution.plans.replanning import Replanning, Search
from gonogo.execution.plans.retry import Retry
from gonogo.execution.plans.revisions import PlanReader
from gonogo.execution.plans.runner import Engine
from gonogo.execution.plans.subtasks import AgentStep, BuiltInKinds, Subtasks, ToolStep
from gonogo.execution.plans.threads import Threads

__all__ = [
    "REPLAN_QUESTION",
    "Accounts",
    "AgentStep",
    "Answering",
    "BudgetKind",
    "BuiltInKinds",
    "Engine",
    "InterventionKind",
    "PlanKind",
    "PlanReader",
    "Planning",
    "Proposals",
    "Replanning",
    "Retry",
    "Search",
    "SubtaskKind",
    "Subtasks",
    "Threads",
    "ToolStep",
    "ask_about_budget",
    "ask_to_start",
]
