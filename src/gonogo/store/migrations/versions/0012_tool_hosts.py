"""Which connection runs a session's tools, where several servers share the database."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.create_table(
        "tool_hosts",
        sa.Column("session_id", sa.Text(), primary_key=True),
        sa.Column("connection", sa.Text(), nullable=False),
        sa.Column("until", sa.Text(), nullable=False),
        sqlite_strict=True,
    )
