"""What a server asks the owner of a place, login codes that all servers know, rules of nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.create_table(
        "asks",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("place_id", sa.Text(), sa.ForeignKey("places.id"), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text()),
        sa.Column("created_at", sa.Text(), nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "login_codes",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sqlite_strict=True,
    )
    with op.batch_alter_table("nodes") as nodes:
        nodes.add_column(sa.Column("policy", sa.Text(), nullable=True))
        nodes.add_column(sa.Column("labels", sa.Text(), nullable=True))
