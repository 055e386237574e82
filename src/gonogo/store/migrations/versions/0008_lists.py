"""What is listed by time is found by time."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the indices of lists: sessions and plans by time, questions by status and time."""
    op.create_index(op.f("ix_sessions_created_at"), "sessions", ["created_at"])
    op.create_index(op.f("ix_plans_created_at"), "plans", ["created_at"])
    op.create_index(op.f("ix_approvals_status_created_at"), "approvals", ["status", "created_at"])
