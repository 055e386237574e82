"""When a failed plan is planned anew by itself."""

from dataclasses import dataclass

from gonogo.domain.failure import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRules:
    """What an operator has set."""

    enabled: bool = True
    severities: frozenset[Severity] = frozenset({Severity.CRITICAL, Severity.HIGH})
    """Failures that are worth another plan."""
    max_attempts: int = 3
    """Revisions that failures may bring about in one plan."""

    def wants(self, severity: Severity, previous: int) -> bool:
        """Whether a failure brings about another revision.

        Args:
            previous: How many failures have done so in this plan before.
        """
        return self.enabled and severity in self.severities and previous < self.max_attempts
