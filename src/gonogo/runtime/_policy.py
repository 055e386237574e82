"""The rules in force, for those who answer for them."""

from typing import Literal

from gonogo.domain.principal import Principal, Role
from gonogo.domain.views import PolicyView, RuleView
from gonogo.policy import Rule
from gonogo.policy.reviews import ReviewRule
from gonogo.runtime._parts import Parts


class Policies:
    """The query about the rules of the files."""

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


def _view(rule: Rule | ReviewRule) -> RuleView:
    tier: Literal["admin", "user"] = "admin" if rule.name.startswith("admin:") else "user"
    written = rule.text.model_dump(mode="json", exclude_defaults=True)
    return RuleView(name=rule.name, tier=tier, where=rule.where, rule=written)
