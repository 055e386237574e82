"""Plans and turns that wait for a model."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nothing that is there changes."""
    _absences()


def _absences() -> None:
    op.add_column("plans", sa.Column("away", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("away", sa.Text(), nullable=True))
