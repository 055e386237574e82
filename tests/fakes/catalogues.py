"""The catalogues of texts as they are written, for tests of what stands in them."""

from functools import cache
from pathlib import Path
from string import Formatter

from babel.messages.pofile import read_po

import gonogo.i18n

_FOLDER = Path(gonogo.i18n.__file__).parent / "locale"


@cache
def texts(locale: str, context: str | None = None) -> dict[str, str]:
    """The texts of a language by their keys, or those of a context."""
    with (_FOLDER / f"{locale}.po").open("rb") as source:
        found = read_po(source, locale, abort_invalid=True)
    return {each.id: each.string for each in found if each.id and each.context == context}


def fields(text: str) -> set[tuple[str, str | None]]:
    """The fields of a text, with how each is written."""
    return {(name, how) for _, name, _, how in Formatter().parse(text) if name}


@cache
def keys(locale: str) -> dict[str, frozenset[str]]:
    """Every key of a language, with the fields that its text needs."""
    found = texts(locale).items()
    return {key: frozenset(name for name, _ in fields(text)) for key, text in found}
