"""Which language to speak: what was set, else what the person writes in."""

import re
from typing import Literal

Locale = Literal["en", "ru"]
LOCALES: tuple[Locale, ...] = ("en", "ru")
DEFAULT: Locale = "en"

_CYRILLIC = re.compile(r"[\u0400-\u04ff]")


def language_of(text: str) -> Locale:
    """The language that a message is answered in: Russian if it has a Cyrillic letter."""
    return "ru" if _CYRILLIC.search(text) else DEFAULT


def resolve(session_locale: str | None, setting: str | None, text: str = "") -> Locale:
    """The session's language, else the operator's, else that of the message, else English.

    A locale that gonogo does not speak counts as not set; `ru-RU` and `ru_RU.UTF-8` are `ru`.
    """
    return _known(session_locale) or _known(setting) or language_of(text)


def _known(locale: str | None) -> Locale | None:
    tag = re.split(r"[-_.@]", locale or "", maxsplit=1)[0].strip().lower()
    return next((known for known in LOCALES if known == tag), None)
