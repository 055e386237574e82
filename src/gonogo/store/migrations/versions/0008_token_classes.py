"""What of a request's tokens came from a cache, went into one, or was thought with."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the classes; of earlier requests nobody knows them, and they count as none."""
    with op.batch_alter_table("model_requests") as requests:
        for name in ("cached_tokens", "cache_write_tokens", "reasoning_tokens"):
            requests.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
