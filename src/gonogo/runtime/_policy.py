"""The rules in force, for those who answer for them, and what they make of a call."""

from typing import Any, Literal

from gonogo.agents import explained
from gonogo.domain.errors import NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.views import Judgement, PolicyView, RuleView
from gonogo.policy import Rule
from gonogo.policy.reviewers import ReviewRule
from gonogo.runtime._gate import bare_thread
from gonogo.runtime._parts import Parts


class Policies:
    """The queries about the rules of the files."""

    parts: Parts

    def policy(self, principal: Principal) -> PolicyView:
        """The rules and the rules of review that were read when this began.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        rules = self.parts.gate.rules
        return PolicyView(
            version=rules.version,
            rules=[_view(rule) for rule in rules.all()],
            reviews=[_view(rule) for rule in self.parts.desk.reviews.rules],
        )

    async def judge(
        self, principal: Principal, tool: str, arguments: dict[str, Any], agent: str
    ) -> Judgement:
        """Judge a call in the server's own folder as the gate would; nothing runs.

        Raises:
            Forbidden: the principal is no admin.
            NotFound: there is no such agent.
        """
        principal.require(Role.ADMIN)
        gate = self.parts.gate
        if agent not in gate.profiles:
            raise NotFound(f"There is no agent {agent!r}")
        thread = bare_thread(self.parts.settings.workspace, agent)
        gated = await gate.judge(thread, tool, arguments)
        shown = explained(gated, gate.rules)
        return Judgement.model_validate({**shown, "preview": gated.preview})


def _view(rule: Rule | ReviewRule) -> RuleView:
    tier: Literal["admin", "user"] = "admin" if rule.name.startswith("admin:") else "user"
    written = rule.text.model_dump(mode="json", exclude_defaults=True)
    return RuleView(name=rule.name, tier=tier, where=rule.where, rule=written)
