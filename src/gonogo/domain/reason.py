"""Why something is so: a sentence in English that can still be said in another language."""

from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import WrapValidator


class Reason(str):
    """A sentence that knows what it was made of (`texts.told` says it in another language)."""

    __slots__ = ("fields", "template")

    template: str
    fields: dict[str, object]


def because(template: str, /, **fields: object) -> Reason:
    """Make a reason.

    Args:
        template: In English, as `str.format` reads it.
        fields: What it names; reasons among them are said in the other language, too.
    """
    made = Reason(template.format(**fields))
    made.template, made.fields = template, fields
    return made


def together(reasons: Iterable[str]) -> str:
    """Several reasons, at least one, as one."""
    whole, *others = reasons
    for other in others:
        whole = because("{first}; {then}", first=whole, then=other)
    return whole


def _kept(value: object, read: Callable[[object], str]) -> str:
    return value if isinstance(value, Reason) else read(value)


Said = Annotated[str, WrapValidator(_kept)]
"""A field of a model that keeps a reason as it is; what was stored is read as plain text."""
