"""Rules of a session that hold in one of its plans alone."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the plan of a rule; rules that were made before hold in the whole session."""
    with op.batch_alter_table("session_rules") as rules:
        rules.add_column(
            sa.Column(
                "plan_id",
                sa.Text(),
                sa.ForeignKey("plans.id", name=op.f("fk_session_rules_plan_id")),
                nullable=True,
            )
        )
