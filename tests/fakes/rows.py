"""Records with everything filled in: a test names only what it is about."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.plan_views import AuditEntry
from gonogo.domain.records import MAIN, Approval, CallRow, GrantRow, Plan, Session
from gonogo.domain.states import ApprovalKind, ApprovalStatus, CallStatus, PlanStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.store import Tx
from gonogo.store.audit import walk_chain
from gonogo.store.events import start_system_chain
from gonogo.store.plans import add_plan, add_revision
from gonogo.store.sessions import add_session

T = TypeVar("T")
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(moment: datetime, fn: Callable[..., T]) -> Callable[..., T]:
    """A store function as it is run at another moment than the store's clock says."""

    def then(tx: Tx, *args: Any, **more: Any) -> T:
        tx.now = moment
        return fn(tx, *args, **more)

    return then


def verify_chain(tx: Tx, chain: str) -> tuple[int, list[str]]:
    """How many entries a chain has, and what is wrong with them."""
    walked = walk_chain(tx, chain, None)
    return walked.entries, walked.problems


def session(session_id: str = "s1", **more: Any) -> Session:
    given = {
        "id": session_id, "principal_id": "ann", "title": None, "workspace": "/code",
        "locale": None, "spoken": "en", "tool_host": "server", "agent": "orchestrator",
        "active_plan_id": None, "last_seq": 0, "deleted": False, "created_at": NOW,
        "updated_at": NOW,
    }  # fmt: skip
    return Session(**{**given, **more})


def audit_entry(action: str = "tool.allowed", details: Any = None, **more: Any) -> AuditEntry:
    given = {
        "chain": "s1", "seq": 1, "ts": NOW, "actor": "user:ann", "actor_name": "ann",
        "action": action, "subject": "user:x", "details": details or {},
        "prev_hash": "", "hash": "",
    }  # fmt: skip
    return AuditEntry(**{**given, **more})


def plan(plan_id: str = "p1", **more: Any) -> Plan:
    given = {
        "id": plan_id, "session_id": "s1", "turn_id": None, "goal": "A goal",
        "original_task": "Do it", "status": PlanStatus.AWAITING_APPROVAL, "revision": 1,
        "digest": "sha256:1", "auto_approve_tools": True, "max_parallel": 3, "created_at": NOW,
        "approved_at": None, "started_at": None, "finished_at": None, "feedback": None,
    }  # fmt: skip
    return Plan(**{**given, **more})


def subtask(subtask_id: str, *after: str, **more: Any) -> Subtask:
    given = {"description": f"Do {subtask_id}", "agent": "coder"}
    return Subtask(id=subtask_id, dependencies=after, **{**given, **more})


def revision(*subtasks: Subtask, plan_id: str = "p1", number: int = 1) -> Revision:
    return Revision(plan_id=plan_id, number=number, goal="A goal", subtasks=subtasks)


def call(call_id: str = "call_1", **more: Any) -> CallRow:
    given = {
        "id": call_id, "session_id": "s1", "thread": MAIN, "turn_id": None, "plan_id": None,
        "revision": None, "subtask_id": None, "position": 1, "agent": "coder",
        "tool": "write_file", "tool_class": ToolClass.IDEMPOTENT,
        "arguments": {"path": "a.txt"}, "proposed_arguments": None,
        "base_hashes": {"a.txt": None}, "effects": [], "digest": "sha256:c",
        "status": CallStatus.PROPOSED, "verdict": {"decision": "ask"}, "approval_id": None,
        "retry_of": None, "result": None, "error": None, "created_at": NOW, "started_at": None,
        "finished_at": None,
    }  # fmt: skip
    return CallRow(**{**given, **more})


def approval(approval_id: str = "appr_1", **more: Any) -> Approval:
    given = {
        "id": approval_id, "session_id": "s1", "kind": ApprovalKind.TOOL, "subject": "write_file",
        "details": {}, "reason": "asks", "digest": "sha256:c", "status": ApprovalStatus.PENDING,
        "turn_id": None, "plan_id": None, "revision": None, "subtask_id": None, "call_id": None,
        "created_at": NOW, "expires_at": None, "decided_by": None, "decided_at": None,
        "decision": None,
    }  # fmt: skip
    return Approval(**{**given, **more})


def grant(grant_id: str = "grant_1", **more: Any) -> GrantRow:
    given = {
        "id": grant_id, "session_id": "s1", "plan_id": "p1", "revision": 1, "subtask_id": "a",
        "scope": None, "status": "active", "created_at": NOW, "ended_at": None,
        "ended_because": None,
    }  # fmt: skip
    return GrantRow(**{**given, **more})


def begin(tx: Tx, *session_ids: str) -> None:
    """Sessions (`s1` unless named), and the system's audit chain."""
    start_system_chain(tx)
    for session_id in session_ids or ("s1",):
        add_session(tx, session(session_id))


def begin_plan(tx: Tx, *subtasks: Subtask, plan_id: str = "p1") -> None:
    """A plan of the session `s1` with its first revision."""
    add_plan(tx, plan(plan_id))
    made = revision(*(subtasks or (subtask("a"), subtask("b", "a"))), plan_id=plan_id)
    add_revision(tx, made, "architect", "proposed")
