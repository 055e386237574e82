"""What keeps the promises; each function says what of it. It comes after the schema 0003."""

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = None
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
_ASKED = sa.text(
    "SELECT plan_id, revision, status FROM approvals WHERE kind = 'plan' ORDER BY created_at"
)
_REVISIONS = sa.text(
    "SELECT plan_id, number, digest, reason, subtasks FROM plan_revisions ORDER BY plan_id, number"
)
_PLANS = sa.text("SELECT id, revision, status, finished_at FROM plans")
_APPROVE = sa.text("UPDATE plans SET approved_revision = :number WHERE id = :plan_id")
_GO_BACK = sa.text("UPDATE plans SET revision = :number, digest = :digest WHERE id = :plan_id")
_END = sa.text(
    "UPDATE subtasks SET status = :status, reason = :reason, finished_at = :at"
    " WHERE plan_id = :plan_id AND revision = :number"
    " AND status IN ('pending', 'running', 'waiting_approval')"
)
_PROPOSED = frozenset({"draft", "awaiting_approval"})
_ENDED = frozenset({"completed", "failed", "partial", "cancelled"})

_SERIAL = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    """Add what is new, put right what earlier versions wrote, let go of what nobody reads."""
    _absences()
    _judgings()
    _sighting_texts()
    _approved_revisions()
    _accounts()
    _watches()
    _drivers()
    _writers()
    _forms()
    _seals()
    _texts()
    _sessions_that_can_go()


def _forms() -> None:
    """Say of revisions which form they have, and write the rest in the new one.

    Tools and paths that were left out were written as empty lists. Revisions stay as they are,
    since their digests bind what is stored.
    """
    op.add_column(
        "plan_revisions", sa.Column("form", sa.Integer(), nullable=False, server_default="1")
    )
    _rewrite("grants", "scope", _scope_as_meant, "scope LIKE '%[]%'")
    _rewrite("approvals", "details", _details_as_meant, "kind = 'subtask' AND status = 'pending'")


def _rewrite(table: str, column: str, meant: Callable[[Any], Any], where: str) -> None:
    conn = op.get_bind()
    found = conn.execute(sa.text(f"SELECT id, {column} FROM {table} WHERE {where}"))  # noqa: S608 - our own words
    change = sa.text(f"UPDATE {table} SET {column} = :new WHERE id = :id")  # noqa: S608 - our own words
    for key, text in found.all():
        conn.execute(change, {"id": key, "new": json.dumps(meant(json.loads(text)))})


def _scope_as_meant(scope: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in scope.items() if v or k not in {"tools", "paths"}}


def _details_as_meant(details: dict[str, Any]) -> dict[str, Any]:
    if scope := details["subtask"].get("scope"):
        details["subtask"]["scope"] = _scope_as_meant(scope)
    return details


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


def _accounts() -> None:
    op.add_column("plans", sa.Column("account", sa.Text(), nullable=True))


def _approved_revisions() -> None:
    """Say of each plan which revision was approved last, and have it be at that one.

    Earlier versions left a plan at a revision that was rejected or that nobody decided, and could
    carry it out by a retry.
    """
    op.add_column("plans", sa.Column("approved_revision", sa.Integer(), nullable=True))
    conn = op.get_bind()
    approved = _approved_last(conn.execute(_REVISIONS), conn.execute(_ASKED))
    for plan in conn.execute(_PLANS).all():
        if plan.id in approved:
            _put_right(conn, plan, approved[plan.id])


def _put_right(conn: sa.Connection, plan: Any, approved: Any) -> None:  # noqa: ANN401 - rows
    at = {"plan_id": plan.id, "number": approved.number, "digest": approved.digest}
    conn.execute(_APPROVE, at)
    if plan.revision == approved.number or plan.status in _PROPOSED:
        return
    conn.execute(_GO_BACK, at)
    never = {"status": "cancelled", "reason": "never approved", "at": plan.finished_at}
    conn.execute(_END, {"plan_id": plan.id, "number": plan.revision, **never})
    if plan.status in _ENDED:
        conn.execute(
            _END, at | {"status": "skipped", "reason": "the plan has ended", "at": plan.finished_at}
        )


def _approved_last(revisions: sa.Result[Any], questions: sa.Result[Any]) -> Mapping[str, Any]:
    """The row of the revision that was approved last, by the plan's id."""
    answers = {(row.plan_id, row.revision): row.status for row in questions}
    found: dict[str, Any] = {}
    for plan_id, rows in groupby(revisions, key=lambda row: row.plan_id):
        for row in rows:
            if _is_approved(row, found.get(plan_id), answers):
                found[plan_id] = row
    return found


def _is_approved(row: Any, before: Any, answers: Mapping[tuple[str, int], str]) -> bool:  # noqa: ANN401 - rows
    """Whether a revision was approved, or is the approved one once more, or lies within it."""
    answer = answers.get((row.plan_id, row.number))
    if answer is not None:
        return answer == "approved"
    if row.reason == "edited":
        return answers.get((row.plan_id, row.number - 1)) == "edited"
    if before is None:
        return False
    return row.reason == "replanned" or row.subtasks == before.subtasks


def _watches() -> None:
    """What stood guarded before a command, until somebody has looked after it.

    Commands that an earlier version started are looked after by nobody.
    """
    op.create_table(
        "watches",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("marks", sa.Text(), nullable=False),
        sa.Column("expects", sa.Text(), nullable=False),
        sa.Column("found", sa.Text(), nullable=True),
        sa.Column("ended", sa.Text(), nullable=True),
        sa.Column("taken_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_watches")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_watches_session_id"), "watches", ["session_id"])


def _drivers() -> None:
    """Which takeover of the database the one is that drives now."""
    op.create_table(
        "drivers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drivers")),
        sqlite_strict=True,
    )


def _writers() -> None:
    """The connections that write, each with the number of its last transaction."""
    op.create_table(
        "writers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", _SERIAL, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_writers")),
        sqlite_strict=True,
    )


def _seals() -> None:
    op.add_column("audit", sa.Column("seal", sa.Text(), nullable=True))
    op.add_column("audit", sa.Column("salt", sa.Text(), nullable=True))


def _texts() -> None:
    op.create_table(
        "texts",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_texts_session_id")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_texts")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_texts_session_id"), "texts", ["session_id"])


def _sessions_that_can_go() -> None:
    # What is kept for a session is found by it, and whose an answer is is known.
    op.create_index(op.f("ix_file_changes_session_id"), "file_changes", ["session_id"])
    op.create_index(op.f("ix_checkpoints_session_id"), "checkpoints", ["session_id"])
    with op.batch_alter_table("answers") as answers:
        answers.add_column(
            sa.Column(
                "session_id",
                sa.Text(),
                sa.ForeignKey("sessions.id", name=op.f("fk_answers_session_id")),
                nullable=True,
            )
        )
