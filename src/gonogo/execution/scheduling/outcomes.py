"""What the engine hands to a runner, and what the runner hands back."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import anyio
from msgspec import Struct

from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.domain.failures import Failure
from gonogo.domain.plan import KindRule, Revision, Subtask
from gonogo.domain.replanning import Excess
from gonogo.store import Stopwatch, Tx


class Superseded(Conflict):
    """Somebody else holds this work now; what the caller would write is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One subtask to carry out, with the proof that it is ours."""

    key: str
    revision: Revision
    subtask: Subtask
    epoch: int
    since: datetime | None = None
    """When this stretch of its work began, if it is known."""
    watch: Stopwatch = field(default_factory=Stopwatch, compare=False)
    """How much of that it waited for the database."""

    @property
    def counts_from(self) -> datetime | None:
        """When the stretch would have begun without that."""
        return self.since and self.since + timedelta(seconds=self.watch.stood)


class Start(NamedTuple):
    """One attempt of a subtask that is about to begin."""

    subtask_id: str
    agent: str | None
    attempt: int


class Completed(Struct, frozen=True):
    """The subtask did what it was for."""

    result: Any = None
    also: Callable[[Tx], None] | None = None
    """What else is written in the transaction that completes the subtask, before its events."""


class Failed(Struct, frozen=True):
    """The subtask did not."""

    failure: Failure
    also: Callable[[Tx], None] | None = None
    """What else is written in the transaction that ends the attempt, before its events."""


class Parked(Struct, frozen=True):
    """The subtask waits, and the transaction that made it wait is committed."""


class Deferred(Struct, frozen=True):
    """The subtask cannot go on now, by no fault of its own: it goes back among the ready ones.

    Its plan pauses; the subtask keeps its attempt and its conversation, and goes on with the plan.
    """

    until: datetime | None = None
    """When the model's quota is there again, and the plan goes on by itself."""
    spent: Excess | None = None
    """The limit of a budget that was reached; a person is asked."""
    away: ModelFailed | None = None
    """What a model failed with that does not answer, and is waited for."""


class Retreat(Protocol):
    """Undoing what a failed attempt did, before its failure is written."""

    async def undo(self, work: Work) -> None:
        """Have the files be as they were."""
        ...

    def began(self, tx: Tx, work: Work) -> bool:
        """Whether undoing this attempt had begun when the process ended: it had failed."""
        ...


Outcome = Completed | Failed | Parked | Deferred


class SubtaskRunner(Protocol):
    """Carries one subtask out."""

    async def run(self, work: Work) -> Outcome:
        """Give what came of it."""
        ...


# Kinds as the engine is given them: a rule for plans, and what carries a subtask out.
#
# A kind runs from its beginning again after a restart: what it must not do twice it does through a
# tool, or asks `Step.since` how long ago the work began.


class Step(Struct, frozen=True, kw_only=True):
    """What a kind may use to carry one subtask out."""

    work: Work
    attempt: int
    """The number of this attempt, from 1."""
    inputs: Mapping[str, Any]
    """The subtask's inputs, each reference replaced by what it names."""
    results: Mapping[str, Mapping[str, Any]]
    """`{status, output, metadata}` of each dependency, by its id."""
    now: Callable[[], datetime]

    @property
    def subtask(self) -> Subtask:
        """The subtask as it was planned."""
        return self.work.subtask

    @property
    def since(self) -> datetime:
        """When this stretch of the work began; a restart does not begin it anew."""
        return self.work.since or self.now()

    async def wait(self, seconds: float) -> None:
        """Wait; cancelling the subtask, its timeout and the end of the process end the wait."""
        await anyio.sleep(max(0.0, seconds))

    def done(self, output: Any = None, **metadata: Any) -> Completed:  # noqa: ANN401 - JSON
        """The subtask did what it was for."""
        return Completed({"status": "completed", "output": output, "metadata": metadata})


class Kind(KindRule, frozen=True, kw_only=True):
    """What subtasks of one kind give, and how."""

    run: Callable[[Step], Awaitable[Outcome]]
    """Raises `GonogoError`, or gives `Failed`, for a subtask that did not do what it was for."""
    description: str = ""
    """For those who write plans: when to use it, and its inputs."""
