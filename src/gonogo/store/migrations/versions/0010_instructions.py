"""The instruction files that planners were told of, kept with sessions and shown with plans."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; nobody knows what earlier planners were told."""
    for table in ("sessions", "plans"):
        with op.batch_alter_table(table) as altered:
            altered.add_column(sa.Column("instructions", sa.Text(), nullable=True))
