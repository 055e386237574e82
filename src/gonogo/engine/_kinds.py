"""Kinds as the engine is given them: a rule for plans, and what carries a subtask out.

A kind runs from its beginning again after a restart: what it must not do twice it does through a
tool, or asks `Step.since` how long ago the work began.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio

from gonogo.domain.plan import KindRule, Subtask
from gonogo.engine._outcomes import Completed, Outcome, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(KindRule):
    """What subtasks of one kind give, and how."""

    run: Callable[[Step], Awaitable[Outcome]]
    """Raises `GonogoError`, or gives `Failed`, for a subtask that did not do what it was for."""
    description: str = ""
    """For those who write plans: when to use it, and its inputs."""
