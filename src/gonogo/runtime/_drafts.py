"""Plans while a person writes them: what would be said of an edit, before it is sent."""

from collections.abc import Sequence
from typing import Any

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.findings import FindingSeverity
from gonogo.domain.identity import Principal
from gonogo.domain.plan import critical_path
from gonogo.domain.plan_views import FindingView, PlanCheck
from gonogo.orchestrator import Planning
from gonogo.runtime._approvals import readable_plan
from gonogo.runtime._parts import Parts
from gonogo.store import Connection
from gonogo.store.plans import current_revision
from gonogo.store.sessions import spoken_in
from gonogo.texts import DEFAULT


class Drafts:
    """The query about edits."""

    parts: Parts

    async def check_plan(
        self, principal: Principal, plan_id: str, subtasks: Sequence[Any]
    ) -> PlanCheck:
        """Look the subtasks of an edit over as its decision would; nothing changes.

        Raises:
            NotFound: there is no plan of that id that the principal may see.
        """
        return await self.parts.store.read(
            _checked, principal, plan_id, list(subtasks), self.parts.planning
        )


def _checked(
    conn: Connection, principal: Principal, plan_id: str, raw: list[Any], planning: Planning
) -> PlanCheck:
    plan = readable_plan(conn, principal, plan_id)
    current = current_revision(conn, plan)
    try:
        draft = planning.drafted(plan, current, raw)
    except InvalidPlan as problem:
        return PlanCheck(ok=False, problem=str(problem), subtask_id=problem.subtask_id)
    locale = spoken_in(conn, plan.session_id) or DEFAULT
    found = [FindingView(**each) for each in planning.proposals.findings(draft, locale)]
    return PlanCheck(
        ok=all(finding.severity != FindingSeverity.ERROR for finding in found),
        findings=found, critical_path=list(critical_path(draft.subtasks)),
    )  # fmt: skip
