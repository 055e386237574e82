"""What a session may take in all."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; sessions that are there have the limits of their process only."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("limits", sa.Text(), nullable=True))
