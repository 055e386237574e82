"""A revision as it is put before a person: what it says, what is noticed about it, the question."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gonogo.approvals import Desk, Matter, Question
from gonogo.domain.errors import InvalidPlan, Reason
from gonogo.domain.events import PlanFacts, PlanNotified
from gonogo.domain.findings import Finding, FindingSeverity
from gonogo.domain.plan import Revision, critical_path
from gonogo.domain.plan_views import PlanChanges
from gonogo.domain.records import Approval, Plan, Session
from gonogo.domain.reviews import standing_comments
from gonogo.domain.states import ApprovalKind
from gonogo.store import Connection
from gonogo.store import events as log
from gonogo.store.approvals import comments_of
from gonogo.texts import plan_summary, told
from gonogo.texts import say as text

ARCHITECT = "architect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Asks about revisions."""

    desk: Desk
    look_over: Callable[[Revision], Sequence[Finding]] = lambda revision: ()
    """What a person should know of a plan; an error refuses it."""

    def in_order(self, revision: Revision) -> Revision:
        """The revision, if no finding refuses it.

        Raises:
            InvalidPlan: one does.
        """
        for finding in self.look_over(revision):
            if finding.severity is FindingSeverity.ERROR:
                raise InvalidPlan(text(finding.key, "en", **finding.fields))
        return revision

    def findings(self, revision: Revision, locale: str) -> list[dict[str, Any]]:
        """What a person should know of a plan, in words."""
        return [
            {
                **finding.model_dump(mode="json", exclude={"fields"}, exclude_none=True),
                "message": text(finding.key, locale, **_said(finding.fields, locale)),
            }
            for finding in self.look_over(revision)
        ]

    def put_before_person(
        self,
        conn: Connection,
        session: Session,
        plan: Plan,
        revision: Revision,
        now: datetime,
        *,
        changes: PlanChanges | None = None,
        replan: dict[str, Any] | None = None,
        edited_by: str | None = None,
        instead_of: Approval | None = None,
    ) -> Approval:
        """Ask a person about a revision. What people said of the plan is shown with it.

        Args:
            changes: What it has otherwise than the one before.
            replan: Why there is another one.
            edited_by: The person who wrote it.
            instead_of: The question that it was written in answer to.
        """
        findings = self.findings(revision, session.spoken)
        comments = standing_comments(comments_of(conn, plan.id), revision.number)
        summary = plan_summary(
            revision, session.spoken, findings=findings, tool_host=session.tool_host,
            changes=changes, comments=comments,
        )  # fmt: skip
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in revision.subtasks]
        count = len(subtasks)
        question = text("plan_question", session.spoken, goal=plan.goal, count=count)
        approval = self.desk.open(
            conn,
            Question(
                session_id=session.id, kind=ApprovalKind.PLAN, subject=plan.goal,
                details={
                    "goal": plan.goal, "original_task": plan.original_task,
                    "summary": summary, "subtasks": subtasks,
                    **({"changes": _as_json(changes)} if changes else {}),
                    **({"replan": replan} if replan else {}),
                    **({"findings": findings} if findings else {}),
                    **({"comments": comments} if comments else {}),
                    **({"edited_by": edited_by} if edited_by else {}),
                },
                reason=question, digest=revision.digest, turn_id=plan.turn_id, plan_id=plan.id,
                revision=revision.number, agent=ARCHITECT,
                matter=Matter(subtasks=revision.subtasks),
                instead_of=instead_of,
            ),
            now,
        )  # fmt: skip
        facts = PlanFacts(
            plan_id=plan.id, revision=revision.number, digest=revision.digest,
            subtask_count=count, subtasks=subtasks, goal=plan.goal, approval_id=approval.id,
            critical_path=list(critical_path(revision.subtasks)), findings=findings,
            changes=_as_json(changes) if changes else None, replan=replan,
            comments=comments or None,
        )  # fmt: skip
        event = PlanNotified(
            content=summary, metadata=facts, turn_id=plan.turn_id, plan_id=plan.id,
            agent=ARCHITECT, is_final=True,
        )  # fmt: skip
        log.tell(conn, session.id, now, event)
        return approval


def _as_json(changes: PlanChanges) -> dict[str, Any]:
    return {
        "added": [s.model_dump(mode="json", exclude_none=True) for s in changes.added],
        "removed": [s.id for s in changes.removed],
        "changed": [{"id": key, "fields": fields} for key, fields in changes.changed],
    }


def _said(fields: Mapping[str, str], locale: str) -> dict[str, str]:
    """What a finding names, reasons in the language that it is read in."""
    return {
        name: told(value, locale) if isinstance(value, Reason) else value
        for name, value in fields.items()
    }
