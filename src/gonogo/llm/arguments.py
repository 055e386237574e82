"""Reading the arguments that a model wrote for a tool call.

A model's JSON is a stranger's: keys twice, NaN, a broken end. Whatever cannot be read in exactly
one way is a problem that the model is told of, never a guess.
"""

from typing import Any, cast

from gonogo.domain.errors import InvalidMessage, TooLarge
from gonogo.domain.strict_json import canonical_json, loads

CUT_OFF = "The reply reached the output limit before the arguments were complete"


def read_arguments(
    written: str | dict[str, Any] | None, *, cut_off: bool = False
) -> tuple[dict[str, Any] | None, str | None]:
    """Read what a model wrote as the arguments of a call.

    Args:
        cut_off: The reply ended at its length limit in the middle of these arguments, or right
            behind them: only what is written as a whole JSON object is what was meant.

    Returns:
        The arguments and None, or None and the problem in a sentence.
    """
    if not written or (isinstance(written, str) and not written.strip()):
        return (None, CUT_OFF) if cut_off else ({}, None)
    if cut_off and not isinstance(written, str):
        # Somebody has put it together already, and may have closed what was open.
        return None, CUT_OFF
    try:
        value = loads(written if isinstance(written, str) else canonical_json(written))
        # Also refuses numbers such as 1e999, which are read as infinite.
        canonical_json(value)
    except (InvalidMessage, TooLarge) as error:
        return None, CUT_OFF if cut_off else f"Arguments: {error}"
    except (ValueError, RecursionError):
        return None, "Arguments: a number is out of range"
    if not isinstance(value, dict):
        return None, f"Arguments must be a JSON object, not {type(value).__name__}"
    return cast("dict[str, Any]", value), None
