"""The tables of what commands do to files, of what undo needs, and of what model requests took."""

from sqlalchemy import Column, ForeignKey, Index, Integer

from gonogo.store._metadata import SERIAL, table
from gonogo.store._types import Clean, Json, Utc

checkpoints = table(
    "checkpoints",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Clean, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Clean),
    Column("attempt", Integer, nullable=False),
    Column("reason", Clean, nullable=False),
    Column("standings", Clean, nullable=False),
    Column("event_seq", Integer, nullable=False),
    Column("last_change", SERIAL, nullable=False),
    Column("tree", Clean),
    Column("hash", Clean, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("swept_at", Utc),
    Index(None, "plan_id", "created_at"),
    Index(None, "plan_id", "revision", "subtask_id", "attempt"),
    Index(None, "session_id"),
)

file_changes = table(
    "file_changes",
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Clean),
    Column("revision", Integer),
    Column("subtask_id", Clean),
    Column("call_id", Clean),
    Column("workspace", Clean, nullable=False),
    Column("path", Clean, nullable=False),
    Column("origin", Clean, nullable=False),
    Column("before", Json),
    Column("after", Json),
    Column("created_at", Utc, nullable=False),
    Index(None, "plan_id", "id"),
    Index(None, "workspace", "path", "id"),
    Index(None, "session_id"),
)

watches = table(
    "watches",
    Column("call_id", Clean, primary_key=True),
    Column("session_id", Clean, nullable=False),
    Column("workspace", Clean, nullable=False),
    Column("marks", Json, nullable=False),
    Column("expects", Json, nullable=False),
    Column("found", Json),
    Column("ended", Clean),
    Column("taken_by", Clean),
    Column("created_at", Utc, nullable=False),
    Index(None, "session_id"),
)

model_requests = table(
    "model_requests",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Clean),
    Column("subtask_id", Clean),
    Column("thread", Clean, nullable=False),
    Column("agent", Clean, nullable=False),
    Column("model", Clean, nullable=False),
    Column("status", Clean, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cost_micros", SERIAL, nullable=False),
    Column("duration_ms", Integer),
    Column("created_at", Utc, nullable=False),
    Index(None, "plan_id"),
    Index(None, "session_id"),
)
