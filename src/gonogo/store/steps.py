"""The steps of the schema, from 0003 on: each brings a database to the next version.

A step never changes, and knows the tables as they were then: nothing here follows the schema of the
code. It only adds what code of the previous version need not know.
"""

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

_SERIAL = sa.Integer().with_variant(sa.BigInteger(), "postgresql")

# 0004. Several repairs and additions; each function makes one. It comes after the schema 0003.


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


def keep_promises(op: Operations) -> None:
    """Add new things, correct what earlier versions wrote, and delete what nobody reads."""
    _absences(op)
    _judgings(op)
    _sighting_texts(op)
    _approved_revisions(op)
    _accounts(op)
    _watches(op)
    _drivers(op)
    _writers(op)
    _forms(op)
    _seals(op)
    _texts(op)
    _sessions_that_can_go(op)


def _forms(op: Operations) -> None:
    """Mark which form revisions have, and rewrite grants and open questions in the new form.

    The old form had empty lists for omitted tools and paths. Revisions stay as they are, as their
    digests cover what is stored.
    """
    op.add_column(
        "plan_revisions", sa.Column("form", sa.Integer(), nullable=False, server_default="1")
    )
    conn = op.get_bind()
    _rewrite(conn, "grants", "scope", _scope_as_meant, "scope LIKE '%[]%'")
    _rewrite(
        conn, "approvals", "details", _details_as_meant, "kind = 'subtask' AND status = 'pending'"
    )


def _rewrite(
    conn: sa.Connection, table: str, column: str, meant: Callable[[Any], Any], where: str
) -> None:
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


def _absences(op: Operations) -> None:
    op.add_column("plans", sa.Column("away", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("away", sa.Text(), nullable=True))


def _judgings(op: Operations) -> None:
    op.add_column(
        "tool_calls", sa.Column("judgings", sa.Integer(), nullable=False, server_default="0")
    )


def _sighting_texts(op: Operations) -> None:
    # Only a tool's current and last accepted definitions are compared; others need only digests.
    op.execute(
        "UPDATE sightings SET definition = '{}' "  # noqa: S608 - our own words
        f"WHERE {_LATER} AND (accepted_at IS NULL OR {_ACCEPTED_LATER})"
    )


def _accounts(op: Operations) -> None:
    op.add_column("plans", sa.Column("account", sa.Text(), nullable=True))


def _approved_revisions(op: Operations) -> None:
    """Store for each plan which revision was approved last, and make that its current one.

    Earlier versions left a plan at a revision that was rejected or undecided, and a retry could
    carry that out.
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
    """Whether a revision was approved, or equals the approved one, or follows from its approval."""
    answer = answers.get((row.plan_id, row.number))
    if answer is not None:
        return answer == "approved"
    if row.reason == "edited":
        return answers.get((row.plan_id, row.number - 1)) == "edited"
    if before is None:
        return False
    return row.reason == "replanned" or row.subtasks == before.subtasks


def _watches(op: Operations) -> None:
    """The guarded names before a command, until gonogo has checked them after it.

    Nobody checks after commands that an earlier version started.
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


def _drivers(op: Operations) -> None:
    """The fence of the driver: the number of its takeover."""
    op.create_table(
        "drivers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drivers")),
        sqlite_strict=True,
    )


def _writers(op: Operations) -> None:
    """The connections that write, each with the number of its last transaction."""
    op.create_table(
        "writers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", _SERIAL, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_writers")),
        sqlite_strict=True,
    )


def _seals(op: Operations) -> None:
    op.add_column("audit", sa.Column("seal", sa.Text(), nullable=True))
    op.add_column("audit", sa.Column("salt", sa.Text(), nullable=True))


def _texts(op: Operations) -> None:
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


def _sessions_that_can_go(op: Operations) -> None:
    # Rows are found by their session, and answers get their session.
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


# 0005. Rules of a session that hold in one of its plans alone.


def add_rules_of_plans(op: Operations) -> None:
    """Add the plan of a rule; existing rules hold in the whole session."""
    with op.batch_alter_table("session_rules") as rules:
        rules.add_column(
            sa.Column(
                "plan_id",
                sa.Text(),
                sa.ForeignKey("plans.id", name=op.f("fk_session_rules_plan_id")),
                nullable=True,
            )
        )


# 0006. The model of a session, and whether it is unattended: nobody can be asked.


def add_models_of_sessions(op: Operations) -> None:
    """Add both; existing sessions use the model of their process, and are attended."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("model", sa.Text(), nullable=True))
        sessions.add_column(
            sa.Column("unattended", sa.Integer(), nullable=False, server_default="0")
        )


# 0007. Classes of tokens, instruction files, and steering.


def add_work(op: Operations) -> None:
    """Add them; the classes of tokens of earlier requests are unknown, and count as 0."""
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


# 0008. Indices for lists by time.


def add_indices_of_lists(op: Operations) -> None:
    """Add the indices of lists: sessions and plans by time, questions by status and time."""
    op.create_index(op.f("ix_sessions_created_at"), "sessions", ["created_at"])
    op.create_index(op.f("ix_plans_created_at"), "plans", ["created_at"])
    op.create_index(op.f("ix_approvals_status_created_at"), "approvals", ["status", "created_at"])


# 0009. The budget of a session.


def add_limits_of_sessions(op: Operations) -> None:
    """Add it; existing sessions have only the limits of their process."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("limits", sa.Text(), nullable=True))


# 0010. Several processes on one database: nodes, places with an owner, and handoffs to it.


def add_places(op: Operations) -> None:
    """Add them; a session gets its place when the first of several processes starts."""
    _add_nodes(op)
    _add_places(op)
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("place_id", sa.Text(), nullable=True))
        sessions.add_column(sa.Column("fence", sa.Integer(), nullable=False, server_default="0"))
        sessions.create_index("ix_sessions_place_id", ["place_id"])


def _add_nodes(op: Operations) -> None:
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


def _add_places(op: Operations) -> None:
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


# 0011. Asks to the owner of a place, login codes that all servers know, rules of nodes.


def add_asks(op: Operations) -> None:
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


# 0012. Which connection runs a session's tools, where several servers share the database.


def add_tool_hosts(op: Operations) -> None:
    """Add them."""
    op.create_table(
        "tool_hosts",
        sa.Column("session_id", sa.Text(), primary_key=True),
        sa.Column("connection", sa.Text(), nullable=False),
        sa.Column("until", sa.Text(), nullable=False),
        sqlite_strict=True,
    )


# 0013. When a timer was set: a time in the future shows that the clock was set back since.


def add_set_timers(op: Operations) -> None:
    """Add it; it is unknown for existing timers."""
    with op.batch_alter_table("timers") as timers:
        timers.add_column(sa.Column("set_at", sa.Text(), nullable=True))


STEPS: Mapping[str, Callable[[Operations], None]] = {
    "0004": keep_promises,
    "0005": add_rules_of_plans,
    "0006": add_models_of_sessions,
    "0007": add_work,
    "0008": add_indices_of_lists,
    "0009": add_limits_of_sessions,
    "0010": add_places,
    "0011": add_asks,
    "0012": add_tool_hosts,
    "0013": add_set_timers,
}
"""The steps by the version that a database has after each; they run in this order."""
