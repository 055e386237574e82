"""The catalogues of texts as they are written, for tests of what stands in them."""

from functools import cache
from pathlib import Path
from string import Formatter

from babel.messages.catalog import Message
from babel.messages.pofile import read_po

import gonogo.i18n

_FOLDER = Path(gonogo.i18n.__file__).parent / "locale"


@cache
def messages(locale: str) -> tuple[Message, ...]:
    """All texts of a language; of one with forms, its key and its text are several."""
    with (_FOLDER / f"{locale}.po").open("rb") as source:
        return tuple(each for each in read_po(source, locale, abort_invalid=True) if each.id)


@cache
def texts(locale: str, context: str | None = None) -> dict[str, str]:
    """The texts of a language by their keys, or those of a context; of each its last form."""
    return {
        part: forms(each)[-1]
        for each in messages(locale)
        if each.context == context
        for part in ids(each)
    }


def ids(message: Message) -> tuple[str, ...]:
    """The key of a text, and that of its plural where it has one."""
    return tuple(message.id) if isinstance(message.id, tuple | list) else (message.id,)


def forms(message: Message) -> tuple[str, ...]:
    """The text in each of its forms."""
    said = message.string
    return tuple(said) if isinstance(said, tuple | list) else (str(said),)


def fields(text: str) -> set[tuple[str, str | None]]:
    """The fields of a text, with how each is written."""
    return {(name, how) for _, name, _, how in Formatter().parse(text) if name}


@cache
def keys(locale: str) -> dict[str, frozenset[str]]:
    """Every key of a language, with the fields that its text needs."""
    found = texts(locale).items()
    return {key: frozenset(name for name, _ in fields(text)) for key, text in found}
