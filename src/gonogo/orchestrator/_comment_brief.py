"""What the planner is told of a plan that came back with comments: both, as data."""

import json
from typing import Any

from gonogo.domain.records import Plan
from gonogo.domain.reviews import comment_facts
from gonogo.orchestrator._revising import completed
from gonogo.store import Connection
from gonogo.store.approvals import comments_of
from gonogo.store.plans import current_revision
from gonogo.texts import say as text

_EARLIER = 20
"""Comments with an answer that are told again, so that it is not taken back unawares."""


def brief(conn: Connection, plan: Plan, locale: str) -> str:
    """The head of the conversation in which comments are answered."""
    revision = current_revision(conn, plan)
    wanted = set((plan.revising or {}).get("comments", ()))
    found = comments_of(conn, plan.id)
    subtasks = [s.model_dump(mode="json", exclude_none=True) for s in revision.subtasks]
    current: dict[str, Any] = {
        "goal": revision.goal, "subtasks": subtasks, "completed": sorted(completed(conn, plan)),
    }  # fmt: skip
    parts = [
        text("model_revise", locale),
        text("model_revise_task", locale, task=plan.original_task),
        text("model_revise_plan", locale, plan=_json(current)),
        text("model_revise_comments", locale, comments=_json(
            [comment_facts(comment) for comment in found if comment.id in wanted]
        )),
    ]  # fmt: skip
    if earlier := [comment_facts(c) for c in found if c.answer is not None][-_EARLIER:]:
        parts.append(text("model_revise_earlier", locale, comments=_json(earlier)))
    return "\n\n".join(parts)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
