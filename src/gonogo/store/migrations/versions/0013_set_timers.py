"""When a timer was set: one that was set later than now waits for a clock that was set back."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; of timers that are there nobody knows."""
    with op.batch_alter_table("timers") as timers:
        timers.add_column(sa.Column("set_at", sa.Text(), nullable=True))
