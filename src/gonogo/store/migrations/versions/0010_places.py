"""Several processes on one database: nodes, places with an owner, and what is handed to it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_SERIAL = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    """Add them; a session gets its place when the first of several processes starts."""
    _add_nodes()
    _add_places()
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("place_id", sa.Text(), nullable=True))
        sessions.add_column(sa.Column("fence", sa.Integer(), nullable=False, server_default="0"))
        sessions.create_index("ix_sessions_place_id", ["place_id"])


def _add_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Text()),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("beat_at", sa.Text(), nullable=False),
        sa.Column("draining", sa.Integer(), nullable=False, server_default="0"),
        sqlite_strict=True,
    )


def _add_places() -> None:
    op.create_table(
        "places",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("home", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text()),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("placed", sa.Integer(), nullable=False),
        sa.Column("wanted", _SERIAL, nullable=False),
        sa.UniqueConstraint("path"),
        sqlite_strict=True,
    )
    op.create_index("ix_places_placed_pool", "places", ["placed", "pool"])
    op.create_table(
        "handoffs",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("place_id", sa.Text(), sa.ForeignKey("places.id"), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("since", sa.Text()),
        sqlite_strict=True,
    )
    op.create_index("ix_handoffs_place_id_id", "handoffs", ["place_id", "id"])
