"""What a verdict was made of: each step in order, and each rule that was looked at.

The functions that judge a call write this down as they go, so what is explained is what happened.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """A step of the verdict's order."""

    DENY_BUILT_IN = "built-in deny"
    DENY = "deny rules"
    ASK_BUILT_IN = "built-in ask"
    ASK = "ask rules"
    ALLOW = "allow rules"
    GRANT = "grant"
    READERS = "readers"
    DEFAULT = "default"
    UNATTENDED = "unattended"


@dataclass(frozen=True, slots=True)
class Look:
    """One rule, grant or check, and what it says of the call."""

    rule: str
    misfit: str | None = None
    """Why it does not speak of the call; None where it does."""


@dataclass(slots=True)
class Step:
    """One step: what was looked at, and what decided, if anything did."""

    stage: Stage
    part: str | None = None
    """The part of a compound command that it is about; None is the call as a whole."""
    looks: list[Look] = field(default_factory=list[Look])
    decided: str | None = None
    """The rule, grant or default that decided here."""

    def take(self, rule: str, misfit: str | None = None) -> bool:
        """Write down a look; gives whether it decided."""
        self.looks.append(Look(rule, misfit))
        if misfit is None:
            self.decided = rule
        return misfit is None


@dataclass(slots=True)
class Trace:
    """The steps of one verdict, in order."""

    steps: list[Step] = field(default_factory=list[Step])

    def enter(self, stage: Stage, part: str | None = None) -> Step:
        """Begin a step."""
        step = Step(stage, part)
        self.steps.append(step)
        return step

    @property
    def looked_at(self) -> set[str]:
        """The names of all that was looked at."""
        return {look.rule for step in self.steps for look in step.looks}
