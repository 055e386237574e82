"""Classes of tokens, instruction files, and what people say to agents at work."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; of earlier requests nobody knows the classes, and they count as none."""
    with op.batch_alter_table("model_requests") as requests:
        for name in ("cached_tokens", "cache_write_tokens", "reasoning_tokens"):
            requests.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    for table in ("sessions", "plans"):
        with op.batch_alter_table(table) as altered:
            altered.add_column(sa.Column("instructions", sa.Text(), nullable=True))
    with op.batch_alter_table("turns") as turns:
        turns.add_column(sa.Column("steered", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("plans") as plans:
        plans.add_column(sa.Column("steered", sa.Text(), nullable=True))
