"""The tables. Migrations make them; a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from gonogo.domain.reviews import DeliveryStatus
from gonogo.domain.states import (
    ApprovalKind,
    ApprovalStatus,
    CallStatus,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
)
from gonogo.domain.tool_calls import ToolClass
from gonogo.store.columns import Clean, Flag, Json, Shared, Utc, WordColumn

# What all tables share: the names of their indexes and constraints, and how they are made.

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMES)
SERIAL = Integer().with_variant(BigInteger(), "postgresql")


def table(name: str, *columns: Column[object] | Index | UniqueConstraint) -> Table:
    """A table; on SQLite it is strict, so its columns hold only values of their type."""
    return Table(name, METADATA, *columns, sqlite_strict=True)


# The tables around approvals: votes, comments, rules, links, deliveries; tools of servers; logins.

votes = table(
    "votes",
    Column("approval_id", Clean, ForeignKey("approvals.id"), primary_key=True),
    Column("principal_id", Clean, primary_key=True),
    Column("name", Clean, nullable=False),
    Column("ruling", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
)

comments = table(
    "comments",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Clean, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Clean),
    Column("author_id", Clean, nullable=False),
    Column("author", Clean, nullable=False),
    Column("content", Clean, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("answer", Clean),
    Column("answered_revision", Integer),
    Column("answered_at", Utc),
    Index(None, "plan_id", "created_at"),
)

session_rules = table(
    "session_rules",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("rule", Json, nullable=False),
    Column("made_by", Clean, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("plan_id", Clean, ForeignKey("plans.id")),
    UniqueConstraint("session_id", "position"),
)

links = table(
    "links",
    Column("id", Clean, primary_key=True),
    Column("approval_id", Clean, ForeignKey("approvals.id"), nullable=False),
    Column("principal_id", Clean, nullable=False),
    Column("name", Clean, nullable=False),
    Column("role", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("used_at", Utc),
    Column("digest", Clean, nullable=False),
    Column("made_by", Clean, nullable=False),
    Column("revoked_at", Utc),
    Index(None, "approval_id"),
)

deliveries = table(
    "deliveries",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("approval_id", Clean, ForeignKey("approvals.id"), nullable=False),
    Column("hook", Clean, nullable=False),
    Column("event", Clean, nullable=False),
    Column("status", WordColumn(DeliveryStatus), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("body", Json, nullable=False),
    Column("error", Clean),
    Column("created_at", Utc, nullable=False),
    Column("not_before", Utc, nullable=False),
    Column("finished_at", Utc),
    Index(None, "status"),
    Index(None, "approval_id"),
)

audit_floors = table(
    "audit_floors",
    Column("chain", Clean, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", Clean, nullable=False),
    Column("removed_at", Utc, nullable=False),
)

sightings = table(
    "sightings",
    Column("name", Clean, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("digest", Clean, nullable=False),
    Column("definition", Json, nullable=False),
    Column("seen_at", Utc, nullable=False),
    Column("accepted_at", Utc),
    Column("accepted_by", Clean),
)

logins = table(
    "logins",
    Column("secret_hash", Clean, primary_key=True),
    Column("principal_id", Clean, nullable=False),
    Column("name", Clean, nullable=False),
    Column("role", Integer, nullable=False),
    Column("token_id", Clean, ForeignKey("tokens.id")),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("ends_at", Utc),
    Index(None, "principal_id"),
)

login_codes = table(
    "login_codes",
    Column("digest", Clean, primary_key=True),
    Column("principal_id", Clean, nullable=False),
    Column("name", Clean, nullable=False),
    Column("role", Integer, nullable=False),
    Column("expires_at", Utc, nullable=False),
)


# The tables of checkpoints, changes of files, guarded names and model requests, then all others.

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
    Column("cached_tokens", Integer, nullable=False, server_default="0"),
    Column("cache_write_tokens", Integer, nullable=False, server_default="0"),
    Column("reasoning_tokens", Integer, nullable=False, server_default="0"),
    Index(None, "plan_id"),
    Index(None, "session_id"),
)

principals = table(
    "principals",
    Column("id", Clean, primary_key=True),
    Column("name", Clean, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("sight", Json, nullable=True),
)

tokens = table(
    "tokens",
    Column("id", Clean, primary_key=True),
    Column("principal_id", Clean, ForeignKey("principals.id"), nullable=False),
    Column("name", Clean, nullable=False),
    Column("role", Integer, nullable=False),
    Column("secret_hash", Clean, nullable=False, unique=True),
    Column("created_at", Utc, nullable=False),
    Column("revoked_at", Utc),
)

sessions = table(
    "sessions",
    Column("id", Clean, primary_key=True),
    Column("principal_id", Clean, nullable=False),
    Column("title", Clean),
    Column("workspace", Clean, nullable=False),
    Column("locale", Clean),
    Column("spoken", Clean, nullable=False),
    Column("tool_host", Clean, nullable=False),
    Column("agent", Clean, nullable=False),
    Column("active_plan_id", Clean),
    Column("last_seq", Integer, nullable=False),
    Column("audit_seq", Integer, nullable=False),
    Column("audit_hash", Clean, nullable=False),
    Column("deleted", Flag, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Column("model", Clean),
    Column("unattended", Flag, nullable=False, server_default="0"),
    Column("instructions", Json),
    Column("limits", Json),
    Column("place_id", Clean),
    Column("fence", Integer, nullable=False, server_default="0"),
    Index(None, "principal_id", "created_at"),
    Index(None, "place_id"),
    Index(None, "created_at"),
)

turns = table(
    "turns",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Clean, nullable=False),
    Column("agent", Clean, nullable=False),
    Column("status", WordColumn(TurnStatus), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("finished_at", Utc),
    Column("principal_id", Clean),
    Column("away", Json),
    Column("steered", Flag, nullable=False, server_default="0"),
    UniqueConstraint("session_id", "position"),
    Index(None, "status"),
)

messages = table(
    "messages",
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("thread", Clean, nullable=False),
    Column("turn_id", Clean),
    Column("agent", Clean),
    Column("body", Shared, nullable=False),
    Column("created_at", Utc, nullable=False),
    Index(None, "session_id", "thread", "id"),
)

events = table(
    "events",
    Column("session_id", Clean, ForeignKey("sessions.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("ts", Utc, nullable=False),
    Column("type", Clean, nullable=False),
    Column("body", Shared, nullable=False),
)

texts = table(
    "texts",
    Column("digest", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("text", Clean, nullable=False),
    Index(None, "session_id"),
)

plans = table(
    "plans",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("turn_id", Clean),
    Column("goal", Clean, nullable=False),
    Column("original_task", Clean, nullable=False),
    Column("status", WordColumn(PlanStatus), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", Clean, nullable=False),
    Column("auto_approve_tools", Flag, nullable=False),
    Column("max_parallel", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("approved_at", Utc),
    Column("started_at", Utc),
    Column("finished_at", Utc),
    Column("feedback", Clean),
    Column("pause_reason", Clean),
    Column("paused_until", Utc),
    Column("replans", Integer, nullable=False, server_default="0"),
    Column("replan", Json),
    Column("floor", Integer, nullable=False, server_default="0"),
    Column("budget", Json),
    Column("again", Json),
    Column("rollback", Json),
    Column("revising", Json),
    Column("asked_by", Json),
    Column("away", Json),
    Column("approved_revision", Integer),
    Column("account", Clean),
    Column("instructions", Json),
    Column("steered", Json),
    Index(None, "session_id"),
    Index(None, "status"),
    Index(None, "created_at"),
)

plan_revisions = table(
    "plan_revisions",
    Column("plan_id", Clean, ForeignKey("plans.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", Clean, nullable=False),
    Column("goal", Clean, nullable=False),
    Column("subtasks", Json, nullable=False),
    Column("form", Integer, nullable=False, server_default="1"),
    Column("created_at", Utc, nullable=False),
    Column("created_by", Clean, nullable=False),
    Column("reason", Clean, nullable=False),
)

subtasks = table(
    "subtasks",
    Column("key", Clean, primary_key=True),
    Column("plan_id", Clean, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Clean, nullable=False),
    Column("position", Integer, nullable=False),
    Column("status", WordColumn(SubtaskStatus), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("not_before", Utc),
    Column("started_at", Utc),
    Column("active_since", Utc),
    Column("finished_at", Utc),
    Column("result", Json),
    Column("error", Json),
    Column("reason", Clean),
    Column("declined", Flag, nullable=False, server_default="0"),
    Column("worker", Clean),
    Column("type", Clean),
    Column("worked_ms", SERIAL, nullable=False, server_default="0"),
    # Every round reads the standings of all subtasks of a plan: the index alone has all of that.
    Index(
        "ix_subtasks_standing",
        "plan_id", "revision", "status", "not_before", "epoch", "attempt", "declined",
        "subtask_id",
    ),
)  # fmt: skip

tool_calls = table(
    "tool_calls",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("thread", Clean, nullable=False),
    Column("turn_id", Clean),
    Column("plan_id", Clean),
    Column("revision", Integer),
    Column("subtask_id", Clean),
    Column("position", Integer, nullable=False),
    Column("agent", Clean, nullable=False),
    Column("tool", Clean, nullable=False),
    Column("tool_class", WordColumn(ToolClass), nullable=False),
    Column("arguments", Shared, nullable=False),
    Column("proposed_arguments", Shared),
    Column("base_hashes", Json, nullable=False),
    Column("effects", Json, nullable=False),
    Column("digest", Clean, nullable=False),
    Column("status", WordColumn(CallStatus), nullable=False),
    Column("verdict", Json, nullable=False),
    Column("approval_id", Clean),
    Column("retry_of", Clean),
    Column("result", Shared),
    Column("error", Clean),
    Column("created_at", Utc, nullable=False),
    Column("started_at", Utc),
    Column("finished_at", Utc),
    Column("tree", Clean),
    Column("judgings", Integer, nullable=False, server_default="0"),
    Index(None, "session_id", "thread", "position"),
    Index(None, "status"),
)

approvals = table(
    "approvals",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("kind", WordColumn(ApprovalKind, others=True), nullable=False),
    Column("subject", Clean, nullable=False),
    Column("details", Shared, nullable=False),
    Column("reason", Clean, nullable=False),
    Column("digest", Clean, nullable=False),
    Column("status", WordColumn(ApprovalStatus), nullable=False),
    Column("turn_id", Clean),
    Column("plan_id", Clean),
    Column("revision", Integer),
    Column("subtask_id", Clean),
    Column("call_id", Clean),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("decided_by", Clean),
    Column("decided_at", Utc),
    Column("decision", Shared),
    Column("requested_by", Clean),
    Column("review", Json),
    Column("group_key", Clean),
    Column("escalated_at", Utc),
    Index(None, "session_id", "status"),
    Index(None, "status", "created_at"),
    Index(None, "call_id"),
    Index(None, "plan_id"),
    Index(None, "group_key"),
)

grants = table(
    "grants",
    Column("id", Clean, primary_key=True),
    Column("session_id", Clean, ForeignKey("sessions.id"), nullable=False),
    Column("plan_id", Clean, ForeignKey("plans.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("subtask_id", Clean, nullable=False),
    Column("scope", Json),
    Column("status", Clean, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("ended_because", Clean),
    Index(None, "plan_id", "subtask_id"),
    Index(None, "session_id"),
)

audit = table(
    "audit",
    Column("chain", Clean, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("ts", Utc, nullable=False),
    Column("actor", Clean, nullable=False),
    Column("action", Clean, nullable=False),
    Column("subject", Clean, nullable=False),
    Column("details", Shared, nullable=False),
    Column("prev_hash", Clean, nullable=False),
    Column("hash", Clean, nullable=False),
    Column("seal", Clean),
    Column("salt", Clean),
    # All chains by time: a reader gets one page of the log without reading the rest.
    Index(None, "ts", "chain", "seq"),
)

chains = table(
    "chains",
    Column("chain", Clean, primary_key=True),
    Column("audit_seq", Integer, nullable=False),
    Column("audit_hash", Clean, nullable=False),
)

timers = table(
    "timers",
    Column("kind", Clean, primary_key=True),
    Column("key", Clean, primary_key=True),
    Column("run_at", Utc, nullable=False),
    Column("set_at", Utc),
    Index(None, "run_at"),
)

answers = table(
    "answers",
    Column("principal_id", Clean, primary_key=True),
    Column("key", Clean, primary_key=True),
    Column("request_digest", Clean, nullable=False),
    Column("answer", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("session_id", Clean, ForeignKey("sessions.id")),
)

# The fence of the driver: a number that each takeover increases.
drivers = table(
    "drivers",
    Column("id", Clean, primary_key=True),
    Column("fence", Integer, nullable=False),
)

# For several processes on one PostgreSQL; a single process, and SQLite, do not use these.

nodes = table(
    "nodes",
    Column("id", Clean, primary_key=True),
    Column("kind", Clean, nullable=False),
    Column("host", Clean, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("pool", Clean),
    Column("capacity", Integer, nullable=False),
    Column("version", Clean, nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("beat_at", Utc, nullable=False),
    Column("draining", Flag, nullable=False, server_default="0"),
    Column("policy", Clean),
    Column("labels", Json),
)

places = table(
    "places",
    Column("id", Clean, primary_key=True),
    Column("path", Clean, nullable=False, unique=True),
    Column("pool", Clean, nullable=False),
    Column("home", Clean, nullable=False),
    Column("owner", Clean),
    Column("fence", Integer, nullable=False),
    Column("placed", Flag, nullable=False),
    Column("wanted", SERIAL, nullable=False),
    Index(None, "placed", "pool"),
)

handoffs = table(
    "handoffs",
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("place_id", Clean, ForeignKey("places.id"), nullable=False),
    Column("op", Clean, nullable=False),
    Column("kind", Clean, nullable=False),
    Column("key", Clean, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("since", Utc),
    Index(None, "place_id", "id"),
)

asks = table(
    "asks",
    Column("id", Clean, primary_key=True),
    Column("place_id", Clean, ForeignKey("places.id"), nullable=False),
    Column("verb", Clean, nullable=False),
    Column("body", Json, nullable=False),
    Column("status", Clean, nullable=False),
    Column("answer", Json),
    Column("created_at", Utc, nullable=False),
)

tool_hosts = table(
    "tool_hosts",
    Column("session_id", Clean, primary_key=True),
    Column("connection", Clean, nullable=False),
    Column("until", Utc, nullable=False),
)

# The connections of PostgreSQL that write, each with the number of its last transaction.
writers = table(
    "writers",
    Column("id", Clean, primary_key=True),
    Column("number", SERIAL, nullable=False),
)
