"""Which turns and subtasks people have said something to while they were under way."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; nobody could say anything before."""
    with op.batch_alter_table("turns") as turns:
        turns.add_column(sa.Column("steered", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("plans") as plans:
        plans.add_column(sa.Column("steered", sa.Text(), nullable=True))
