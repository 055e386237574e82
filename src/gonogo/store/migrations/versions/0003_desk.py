"""Reviews and votes, comments, a session's rules, links, deliveries, sightings, logins."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nothing that is there changes."""
    op.add_column("plans", sa.Column("again", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("rollback", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("revising", sa.Text(), nullable=True))
    op.add_column("plans", sa.Column("asked_by", sa.Text(), nullable=True))
    op.add_column("checkpoints", sa.Column("swept_at", sa.Text(), nullable=True))
    op.add_column("principals", sa.Column("sight", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("principal_id", sa.Text(), nullable=True))
    op.add_column("approvals", sa.Column("requested_by", sa.Text(), nullable=True))
    op.add_column("approvals", sa.Column("review", sa.Text(), nullable=True))
    op.add_column("approvals", sa.Column("group_key", sa.Text(), nullable=True))
    op.add_column("approvals", sa.Column("escalated_at", sa.Text(), nullable=True))
    op.create_index(op.f("ix_approvals_group_key"), "approvals", ["group_key"])
    op.create_index(op.f("ix_audit_ts_chain_seq"), "audit", ["ts", "chain", "seq"])
    _votes()
    _comments()
    _session_rules()
    _links()
    _deliveries()
    _audit_floors()
    _sightings()
    _logins()


def _votes() -> None:
    op.create_table(
        "votes",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ruling", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.id"], name=op.f("fk_votes_approval_id")
        ),
        sa.PrimaryKeyConstraint("approval_id", "principal_id", name=op.f("pk_votes")),
        sqlite_strict=True,
    )


def _comments() -> None:
    op.create_table(
        "comments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("subtask_id", sa.Text(), nullable=True),
        sa.Column("author_id", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("answered_revision", sa.Integer(), nullable=True),
        sa.Column("answered_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_comments_session_id")
        ),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_comments_plan_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comments")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_comments_plan_id_created_at"), "comments", ["plan_id", "created_at"])


def _session_rules() -> None:
    op.create_table(
        "session_rules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_rules_session_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session_rules")),
        sa.UniqueConstraint(
            "session_id", "position", name=op.f("uq_session_rules_session_id_position")
        ),
        sqlite_strict=True,
    )


def _links() -> None:
    op.create_table(
        "links",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sa.Column("used_at", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("revoked_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.id"], name=op.f("fk_links_approval_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_links")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_links_approval_id"), "links", ["approval_id"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("hook", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("not_before", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_deliveries_session_id")
        ),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.id"], name=op.f("fk_deliveries_approval_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_deliveries_status"), "deliveries", ["status"])
    op.create_index(op.f("ix_deliveries_approval_id"), "deliveries", ["approval_id"])


def _audit_floors() -> None:
    op.create_table(
        "audit_floors",
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_audit_floors")),
        sqlite_strict=True,
    )


def _sightings() -> None:
    op.create_table(
        "sightings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Text(), nullable=False),
        sa.Column("accepted_at", sa.Text(), nullable=True),
        sa.Column("accepted_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", "position", name=op.f("pk_sightings")),
        sqlite_strict=True,
    )


def _logins() -> None:
    op.create_table(
        "logins",
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Integer(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sa.Column("ends_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_logins_token_id")),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_logins")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_logins_principal_id"), "logins", ["principal_id"])
