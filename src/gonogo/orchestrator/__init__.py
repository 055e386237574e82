"""Turns a message into an answer, an agent switch or a plan; owns planning.

Promises: a message is kept before it is answered; chat text is never taken as a decision; a plan
is stored and shown before anything of it runs; what ends a plan also ends its grants.
"""

from gonogo.orchestrator._account import Accounts
from gonogo.orchestrator._agent_step import AgentStep
from gonogo.orchestrator._answering import Answering
from gonogo.orchestrator._budget_kind import BudgetKind, ask_about_budget
from gonogo.orchestrator._checkpoints import checkpoint_starts
from gonogo.orchestrator._controls import Controls
from gonogo.orchestrator._inbox import Inbox, Kept
from gonogo.orchestrator._interventions import InterventionKind
from gonogo.orchestrator._kinds import BuiltInKinds
from gonogo.orchestrator._plan_kind import PlanKind
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._proposal import Proposals
from gonogo.orchestrator._reading import PlanReader
from gonogo.orchestrator._replanning import ABOUT as REPLAN_QUESTION
from gonogo.orchestrator._replanning import Replanning
from gonogo.orchestrator._retreat import retreat
from gonogo.orchestrator._retry import Retry
from gonogo.orchestrator._rollback import Undoing, wanted_rollback
from gonogo.orchestrator._search import Search
from gonogo.orchestrator._subtask_kind import SubtaskKind, ask_to_start
from gonogo.orchestrator._subtasks import Subtasks
from gonogo.orchestrator._sweeps import SWEEP, Sweeps
from gonogo.orchestrator._threads import Threads
from gonogo.orchestrator._tool_step import ToolStep
from gonogo.orchestrator._turns import Turns
from gonogo.orchestrator._undo import Rollbacks, Rolled
from gonogo.orchestrator.absences import AbsenceKind, ask_about_model
from gonogo.orchestrator.erasures import ERASE, Erasures

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
