"""Subtasks that ask before they start: the kind `subtask` of the desk."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gonogo.approvals import Desk, Matter, Question, Ruling
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.failures import Category, Failure
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.records import Approval, Plan
from gonogo.domain.states import ApprovalKind, DecisionWord
from gonogo.store import Connection
from gonogo.store.plans import revision_of, subtask_key
from gonogo.store.sessions import spoken_in
from gonogo.texts import DEFAULT, say

Resume = Callable[[Connection, str, datetime], None]
Skip = Callable[[Connection, str, str, str, datetime], None]
Fail = Callable[[Connection, str, str, Failure, datetime], None]


@dataclass(frozen=True, slots=True)
class SubtaskKind:
    """What a person's answer to "may this subtask start?" means."""

    resume: Resume
    skip: Skip
    fail: Fail

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Start exactly that subtask, or leave it out."""
        match ruling.word:
            case DecisionWord.APPROVE:
                self.resume(conn, _key(approval), now)
            case DecisionWord.REJECT:
                self._reject(conn, approval, ruling, now)
            case _:
                raise InvalidMessage("A subtask's start is approved or rejected, not edited")

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody answered in time: the subtask is left out."""
        self._leave_out(conn, approval, "expiry", now)

    def _reject(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        revision = revision_of(conn, approval.plan_id or "", approval.revision or 0)
        subtask_id = approval.subtask_id or ""
        if revision is None or revision.subtask(subtask_id).on_reject != "fail":
            self._leave_out(conn, approval, ruling.by.id, now)
            return
        said = (ruling.feedback or "").strip()
        message = f"Its start was rejected by {ruling.by.name}{said and ': '}{said}"
        failure = Failure(message=message, category=Category.PERMISSION)
        self.fail(conn, revision.plan_id, subtask_id, failure, now)

    def _leave_out(self, conn: Connection, approval: Approval, by: str, now: datetime) -> None:
        self.skip(conn, approval.plan_id or "", approval.subtask_id or "", by, now)


def ask_to_start(
    desk: Desk, conn: Connection, plan: Plan, revision: Revision, subtask: Subtask, now: datetime
) -> None:
    """Ask a person whether a subtask may start."""
    locale = spoken_in(conn, plan.session_id) or DEFAULT
    desk.open(
        conn,
        Question(
            session_id=plan.session_id, kind=ApprovalKind.SUBTASK, subject=subtask.description,
            details={"subtask": subtask.model_dump(mode="json", exclude_none=True)},
            reason=say("subtask_question", locale, description=subtask.description),
            digest=revision.digest, plan_id=plan.id, revision=revision.number,
            subtask_id=subtask.id, agent=subtask.agent, matter=Matter(subtasks=(subtask,)),
        ),
        now,
    )  # fmt: skip


def _key(approval: Approval) -> str:
    return subtask_key(approval.plan_id or "", approval.revision or 0, approval.subtask_id or "")
