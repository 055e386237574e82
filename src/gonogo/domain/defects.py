"""What is wrong with something that a stranger wrote, in a few words."""

from pydantic import ValidationError


def defect_of(error: ValidationError, whole: str = "") -> str:
    """The first thing that does not fit a model: the field, and what is wrong with it.

    Args:
        whole: What to name where it is no field of it; by default nothing is named.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    said = in_words(first["msg"])
    return f"{field}: {said}" if field else said


def in_words(message: str) -> str:
    """What a check of ours said, without pydantic's own word before it."""
    return message.removeprefix("Value error, ")
