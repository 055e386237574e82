"""A kind of subtask that waits, a failure rule, and a strategy: what gonogo can be taught."""

from collections.abc import Iterable, Sequence

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failures import Category, FailureRule, Severity
from gonogo.domain.plan import Subtask, Worker
from gonogo.domain.schedule import Outlook
from gonogo.execution.scheduling import Kind, Outcome, Step

MAX_SECONDS = 86_400


def check(subtask: Subtask) -> None:
    """Check how long a subtask waits, when its plan is made.

    Raises:
        InvalidPlan: `seconds` is missing, or no number of seconds of a day.
    """
    seconds = (subtask.inputs or {}).get("seconds")
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds <= MAX_SECONDS:
        raise InvalidPlan(f"inputs.seconds: a number up to {MAX_SECONDS} is needed")


async def wait(step: Step) -> Outcome:
    """Wait. After a restart this runs again, and waits only for what is left."""
    gone = (step.now() - step.since).total_seconds()
    await step.wait(step.inputs["seconds"] - gone)
    return step.done({"waited": step.inputs["seconds"]})


WAIT = Kind(
    name="wait",
    description="waits for `inputs.seconds`, such as for a deployment to settle; without an agent.",
    workers=frozenset({Worker.NOBODY}),
    check=check,
    run=wait,
)

LICENCE = FailureRule(
    name="licence",
    phrases=("licence (expired|has expired)", "no licence for *"),
    category=Category.ENVIRONMENT,
    severity=Severity.HIGH,
    suggestion="Renew the licence, then retry the subtask.",
)


def shortest_first(ready: Sequence[Subtask], outlook: Outlook) -> Iterable[str]:
    """Start what is done soonest."""
    return [subtask.id for subtask in sorted(ready, key=lambda subtask: subtask.minutes)]
