"""What keeps the promises: absences of models, judgings of calls, texts of foreign tools."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_LATER = """
EXISTS (
    SELECT 1 FROM sightings AS later
    WHERE later.name = sightings.name AND later.position > sightings.position
)
"""
_ACCEPTED_LATER = """
EXISTS (
    SELECT 1 FROM sightings AS later
    WHERE later.name = sightings.name AND later.position > sightings.position
        AND later.accepted_at IS NOT NULL
)
"""


def upgrade() -> None:
    """Add what is new, and let go of what nobody reads."""
    _absences()
    _judgings()
    _sighting_texts()


def _absences() -> None:
    op.add_column("plans", sa.Column("away", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("away", sa.Text(), nullable=True))


def _judgings() -> None:
    op.add_column(
        "tool_calls", sa.Column("judgings", sa.Integer(), nullable=False, server_default="0")
    )


def _sighting_texts() -> None:
    # What a tool is and what was accepted of it are compared; of the others the digest says enough.
    op.execute(
        "UPDATE sightings SET definition = '{}' "  # noqa: S608 - our own words
        f"WHERE {_LATER} AND (accepted_at IS NULL OR {_ACCEPTED_LATER})"
    )
