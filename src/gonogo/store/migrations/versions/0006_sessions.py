"""The model of a session, and whether somebody can be asked in it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; sessions that are there have the model of their process, and are attended."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("model", sa.Text(), nullable=True))
        sessions.add_column(
            sa.Column("unattended", sa.Integer(), nullable=False, server_default="0")
        )
