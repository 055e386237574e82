"""Every table, on one page. Migrations make them; a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from gonogo.domain.approval_state import ApprovalKind, ApprovalStatus
from gonogo.domain.call_state import CallStatus
from gonogo.domain.gate import ToolClass
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.subtask_state import SubtaskStatus
from gonogo.domain.turn_state import TurnStatus
from gonogo.store._types import Flag, Json, Utc, Word

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMES)
_Serial = Integer().with_variant(BigInteger(), "postgresql")


def _table(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    return Table(name, METADATA, *columns, sqlite_strict=True)


principals = _table(
    "principals",
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
)

tokens = _table(
    "tokens",
    Column("id", Text, primary_key=True),
    Column("principal_id", Text, ForeignKey("principals.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Integer, nullable=False),
    Column("secret_hash", Text, nullable=False, unique=True),
    Column("created_at", Utc, nullable=False),
    Column("revoked_at", Utc),
)

sessions = _table(
    "sessions",
    Column("id", Text, primary_key=True),
    Column("principal_id", Text, nullable=False),
    Column("title", Text),
    Column("workspace", Text, nullable=False),
    Column("locale", Text),
    Column("spoken", Text, nullable=False),
    Column("tool_host", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("active_plan_id", Text),
    Column("last_seq", Integer, nullable=False),
    Column("audit_seq", Integer, nullable=False),
    Column("audit_hash", Text, nullable=False),
    Column("deleted", Flag, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Index(None, "principal_id", "created_at"),
)

turns = _table(
    "turns",
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Word(TurnStatus), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("finished_at", Utc),
    UniqueConstraint("session_id", "position"),
    Index(None, "status"),
)

messages = _table(
    "messages",
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("thread", Text, nullable=False),
    Column("turn_id", Text),
    Column("agent", Text),
    Column("body", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    Index(None, "session_id", "thread", "id"),
)

events = _table(
    "events",
    Column("session_id", Text, ForeignKey("sessions.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("ts", Utc, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", Json, nullable=False),
)

plans = _table(
    "plans",
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("turn_id", Text),
    Column("goal", Text, nullable=False),
    Column("original_task", Text, nullable=False),
    Column("status", Word(PlanStatus), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("auto_approve_tools", Flag, nullable=False),
    Column("max_parallel", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("approved_at", Utc),
    Column("started_at", Utc),
    Column("finished_at", Utc),
    Column("feedback", Text),
    Index(None, "session_id"),
    Index(None, "status"),
)

plan_revisions = _table(
    "plan_revisions",
    Column("plan_id", Text, ForeignKey("plans.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("goal", Text, nullable=False),
    Column("subtasks", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

subtasks = _table(
    "subtasks",
    Column("key", Text, primary_key=True),
    Column("plan_id", Text, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("status", Word(SubtaskStatus), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("not_before", Utc),
    Column("started_at", Utc),
    Column("active_since", Utc),
    Column("finished_at", Utc),
    Column("result", Json),
    Column("error", Json),
    Column("reason", Text),
    UniqueConstraint("plan_id", "revision", "subtask_id"),
)

tool_calls = _table(
    "tool_calls",
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("thread", Text, nullable=False),
    Column("turn_id", Text),
    Column("plan_id", Text),
    Column("revision", Integer),
    Column("subtask_id", Text),
    Column("position", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("tool_class", Word(ToolClass), nullable=False),
    Column("arguments", Json, nullable=False),
    Column("proposed_arguments", Json),
    Column("base_hashes", Json, nullable=False),
    Column("effects", Json, nullable=False),
    Column("digest", Text, nullable=False),
    Column("status", Word(CallStatus), nullable=False),
    Column("verdict", Json, nullable=False),
    Column("approval_id", Text),
    Column("retry_of", Text),
    Column("result", Json),
    Column("error", Text),
    Column("created_at", Utc, nullable=False),
    Column("started_at", Utc),
    Column("finished_at", Utc),
    Index(None, "session_id", "thread", "position"),
    Index(None, "status"),
)

approvals = _table(
    "approvals",
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("kind", Word(ApprovalKind), nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Json, nullable=False),
    Column("reason", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("status", Word(ApprovalStatus), nullable=False),
    Column("turn_id", Text),
    Column("plan_id", Text),
    Column("revision", Integer),
    Column("subtask_id", Text),
    Column("call_id", Text),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("decided_by", Text),
    Column("decided_at", Utc),
    Column("decision", Json),
    Index(None, "session_id", "status"),
    Index(None, "call_id"),
    Index(None, "plan_id"),
)

grants = _table(
    "grants",
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Text, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Text, nullable=False),
    Column("scope", Json),
    Column("status", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("ended_because", Text),
    Index(None, "plan_id", "subtask_id"),
    Index(None, "session_id"),
)

audit = _table(
    "audit",
    Column("chain", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("ts", Utc, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Json, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

chains = _table(
    "chains",
    Column("chain", Text, primary_key=True),
    Column("audit_seq", Integer, nullable=False),
    Column("audit_hash", Text, nullable=False),
)

timers = _table(
    "timers",
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("run_at", Utc, nullable=False),
    Index(None, "run_at"),
)

answers = _table(
    "answers",
    Column("principal_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_digest", Text, nullable=False),
    Column("answer", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
)
