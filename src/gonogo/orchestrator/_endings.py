"""How decisions and validations end: by a call that holds the whole answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gonogo.domain.errors import InvalidArguments
from gonogo.domain.failures import Category, Failure, Severity
from gonogo.engine import Completed, Failed, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The call that ends a conversation, and what it makes of the subtask."""

    tool: str
    brief: str
    """Key of the text that asks for it."""
    take: Callable[[Step, Mapping[str, Any], str], Completed | Failed]
    """Is given the arguments and who answered; raises `InvalidArguments` for no answer."""


def decided(step: Step, arguments: Mapping[str, Any], by: str) -> Completed:
    """A decision's result is its choice.

    Raises:
        InvalidArguments: the choice is none of the options.
    """
    given = step.inputs.get("options")
    options = list(given or arguments["options"])
    choice = arguments["choice"]
    if choice not in options:
        raise InvalidArguments(f"choice: {choice!r} is none of {options}")
    return step.done(choice, options=options, reasoning=arguments["reasoning"], agent=by)


def judged(step: Step, arguments: Mapping[str, Any], by: str) -> Completed | Failed:
    """A validation that does not hold is a failure: trying the same again would not help."""
    reasons = list(arguments["reasons"])
    if arguments["valid"]:
        return step.done({"valid": True, "reasons": reasons}, agent=by)
    return Failed(invalid("; ".join(reasons)))


def invalid(why: str) -> Failure:
    """What a validation that does not hold fails with."""
    return Failure(
        message=f"Validation failed: {why}", severity=Severity.HIGH, category=Category.VALIDATION
    )


DECISION = Ending(tool="give_decision", brief="model_decide", take=decided)
VERDICT = Ending(tool="give_verdict", brief="model_judge", take=judged)
