"""The questions that plans ask of people while they are carried out."""

from typing import Any

from msgspec import Struct

from gonogo.domain.failures import Absence
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.records import Plan
from gonogo.domain.replanning import Excess
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import ApprovalKind
from gonogo.domain.strict_json import digest
from gonogo.execution.approvals import ApprovalService, Matter, Question
from gonogo.execution.scheduling import BUDGET, MODEL
from gonogo.i18n import DEFAULT, say
from gonogo.store import Tx
from gonogo.store.sessions import session_of, spoken_in


class PlanQuestions(Struct, frozen=True, kw_only=True):
    """Puts them before people, each in the transaction in which it arises."""

    desk: ApprovalService
    attended: bool = True
    """Somebody can be asked, where a session does not say otherwise."""

    def room(self, tx: Tx, plan: Plan) -> int:
        """How many more questions a plan's session takes now."""
        return self.desk.room(tx, plan.session_id)

    def ask_to_start(self, tx: Tx, plan: Plan, revision: Revision, subtask: Subtask) -> None:
        """Ask a person whether a subtask may start."""
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        self.desk.open(
            tx,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.SUBTASK, subject=subtask.description,
                details={"subtask": subtask.model_dump(mode="json", exclude_none=True)},
                reason=say("subtask_question", locale, description=subtask.description),
                digest=revision.digest, plan_id=plan.id, revision=revision.number,
                subtask_id=subtask.id, agent=subtask.agent, matter=Matter(subtasks=(subtask,)),
            ),
        )  # fmt: skip

    def ask_about_budget(self, tx: Tx, plan: Plan, spent: Excess) -> None:
        """Ask a person what is to become of a plan that reached a limit."""
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        what = say(f"budget_{spent.what}", locale)
        shown = {"used": f"{spent.used:g}", "limit": f"{spent.limit:g}", "what": what}
        details = {
            "about": BUDGET, "what": spent.what, "used": round(spent.used, 6), "limit": spent.limit,
        }  # fmt: skip
        reason = say("budget_question", locale, setting=spent.setting, **shown)
        self._intervene(tx, plan, details, say("budget_subject", locale, **shown), reason)

    def ask_about_model(self, tx: Tx, plan: Plan, absence: Absence) -> bool:
        """Ask a person what is to become of a plan whose model has not answered for too long.

        False where nobody can be asked.
        """
        session = session_of(tx, plan.session_id)
        if session is None or session.unattended or not self.attended:
            return False
        locale = session.spoken
        minutes = f"{elapsed(absence.since, tx.now) / 60:.0f}"
        details = {
            "about": MODEL, "since": absence.since.isoformat(), "tries": absence.tries,
            "error": absence.error,
        }  # fmt: skip
        subject = say("model_away_subject", locale, error=absence.error)
        reason = say("model_away_question", locale, minutes=minutes, error=absence.error)
        self._intervene(tx, plan, details, subject, reason)
        return True

    def _intervene(
        self, tx: Tx, plan: Plan, details: dict[str, Any], subject: str, reason: str
    ) -> None:
        self.desk.open(
            tx,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.INTERVENTION, subject=subject,
                details=details, reason=reason, digest=digest({"plan_id": plan.id, **details}),
                plan_id=plan.id, revision=plan.revision,
            ),
        )  # fmt: skip
