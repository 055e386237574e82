"""What a verdict was made of: each step in order, and each rule that was looked at.

The functions that judge a call write this down as they go, so what is explained is what happened.
"""

from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

from msgspec import Struct, field


class VerdictStage(StrEnum):
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


class RuleLook(Struct, frozen=True):
    """One rule, grant or check, and what it says of the call."""

    rule: str
    misfit: str | None = None
    """Why it does not speak of the call; None where it does."""


class TraceStep(Struct):
    """One step: what was looked at, and what decided, if anything did."""

    stage: VerdictStage
    part: str | None = None
    """The part of a compound command that it is about; None is the call as a whole."""
    looks: list[RuleLook] = field(default_factory=list[RuleLook])
    decided: str | None = None
    """The rule, grant or default that decided here."""

    def take(self, rule: str, misfit: str | None = None) -> bool:
        """Write down a look; gives whether it decided."""
        self.looks.append(RuleLook(rule, misfit))
        if misfit is None:
            self.decided = rule
        return misfit is None


class VerdictTrace(Struct):
    """The steps of one verdict, in order."""

    steps: list[TraceStep] = field(default_factory=list[TraceStep])

    def enter(self, stage: VerdictStage, part: str | None = None) -> TraceStep:
        """Begin a step."""
        step = TraceStep(stage, part)
        self.steps.append(step)
        return step

    @property
    def looked_at(self) -> set[str]:
        """The names of all that was looked at."""
        return {look.rule for step in self.steps for look in step.looks}


# Under which conditions a call is judged.

ALWAYS_ASK = frozenset({"delete_file"})


def nothing_is_outside(path: str) -> bool:
    """The judgement of a caller that cannot look at the disk."""
    del path
    return False


def nothing_matches(pattern: str) -> Iterable[str]:
    """What a caller finds that cannot look at the disk."""
    del pattern
    return ()


class Conditions(Struct, frozen=True, kw_only=True):
    """What the runtime knows and the call does not say."""

    workspace: str
    """Absolute path of the workspace's folder."""
    home: str = ""
    """Absolute path of the folder that holds gonogo's state."""
    attended: bool = True
    """Somebody can be asked; else asking is denying."""
    repo_trusted: bool = True
    """The repository's own git settings were vetted; else each git command asks."""
    sandboxed: bool = True
    """Commands run in a sandbox; else those that run the repository's code ask."""
    auto_approve: bool = True
    """The plan's grant allows calls; else each asks."""
    max_write_globs: tuple[str, ...] | None = None
    """The only paths that the agent's profile may write; None is any."""
    readers: bool = False
    """A command of which each part is known to only read needs no question: whoever asks runs it
    where nothing can be written and nothing reached."""
    writes_barred: bool = False
    """Commands that nobody looks at run where the workspace cannot be written."""
    changed: str | None = None
    """What is not as it was when the call's tool was allowed; what allowed it then is left out."""
    always_ask: frozenset[str] = ALWAYS_ASK
    """Tools that no grant covers."""
    own_programs: Collection[str] = ()
    """Names that stand for programs of the workspace itself: they are code of the repository."""
    tools: frozenset[str] | None = None
    """The tools that exist; None when the caller has checked."""
    outside: Callable[[str], bool] = nothing_is_outside
    """Whether a relative path that a command names is something else on the disk than a file or
    folder inside the workspace: a link that leads out or to a secret, a pipe, a device."""
    matching: Callable[[str], Iterable[str]] = nothing_matches
    """The relative paths on the disk that a pattern, as Python's glob reads it, matches."""
