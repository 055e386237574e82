"""The tables of the desk: who decides, what was said of a plan, who is told, foreign tools.

And who looks at it in a browser.
"""

from sqlalchemy import Column, ForeignKey, Index, Integer, UniqueConstraint

from gonogo.domain.reviews import DeliveryStatus
from gonogo.store._metadata import table
from gonogo.store._types import Clean, Json, Utc, Word

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
    Column("status", Word(DeliveryStatus), nullable=False),
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
