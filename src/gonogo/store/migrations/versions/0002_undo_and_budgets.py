"""Checkpoints, what changed in files, model requests; and what plans and subtasks need for them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SERIAL = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
_STANDING = ["plan_id", "revision", "status", "not_before", "epoch", "attempt"]


def upgrade() -> None:
    """Add what is new; nothing that is there changes."""
    op.add_column("plans", sa.Column("pause_reason", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("paused_until", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("replans", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("plans", sa.Column("replan", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("floor", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("plans", sa.Column("budget", sa.Text(), nullable=True))
    op.add_column("tool_calls", sa.Column("tree", sa.Text(), nullable=True))
    op.add_column(
        "subtasks", sa.Column("declined", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column("subtasks", sa.Column("worker", sa.Text(), nullable=True))
    op.add_column("subtasks", sa.Column("type", sa.Text(), nullable=True))
    op.add_column("subtasks", sa.Column("worked_ms", _SERIAL, nullable=False, server_default="0"))
    op.drop_index("ix_subtasks_standing", "subtasks")
    op.create_index(
        "ix_subtasks_standing", "subtasks", [*_STANDING, "declined", "subtask_id"], unique=False
    )
    _checkpoints()
    _file_changes()
    _model_requests()


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("subtask_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("standings", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.Integer(), nullable=False),
        sa.Column("last_change", _SERIAL, nullable=False),
        sa.Column("tree", sa.Text(), nullable=True),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_checkpoints_session_id")
        ),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_checkpoints_plan_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sqlite_strict=True,
    )
    op.create_index(
        op.f("ix_checkpoints_plan_id_created_at"), "checkpoints", ["plan_id", "created_at"]
    )
    op.create_index(
        op.f("ix_checkpoints_plan_id_revision_subtask_id_attempt"),
        "checkpoints",
        ["plan_id", "revision", "subtask_id", "attempt"],
    )


def _file_changes() -> None:
    op.create_table(
        "file_changes",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("subtask_id", sa.Text(), nullable=True),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_file_changes_session_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_changes")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_file_changes_plan_id_id"), "file_changes", ["plan_id", "id"])
    op.create_index(
        op.f("ix_file_changes_workspace_path_id"), "file_changes", ["workspace", "path", "id"]
    )


def _model_requests() -> None:
    op.create_table(
        "model_requests",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("subtask_id", sa.Text(), nullable=True),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_micros", _SERIAL, nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_model_requests_session_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_requests")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_model_requests_plan_id"), "model_requests", ["plan_id"])
    op.create_index(op.f("ix_model_requests_session_id"), "model_requests", ["session_id"])
