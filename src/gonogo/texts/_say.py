"""Looks a text up and fills its fields in."""

from collections.abc import Mapping
from string import Formatter

from gonogo.texts._audit import ENGLISH_AUDIT, RUSSIAN_AUDIT
from gonogo.texts._editor import ENGLISH_EDITOR, RUSSIAN_EDITOR
from gonogo.texts._english import ENGLISH
from gonogo.texts._failures import ENGLISH_CAUSES, RUSSIAN_CAUSES
from gonogo.texts._headings import ENGLISH_HEADINGS, RUSSIAN_HEADINGS
from gonogo.texts._language import DEFAULT, resolve
from gonogo.texts._outgoing import ENGLISH_OUTGOING, RUSSIAN_OUTGOING
from gonogo.texts._plan_text import ENGLISH_PLAN_TEXT, RUSSIAN_PLAN_TEXT
from gonogo.texts._policy import ENGLISH_POLICY, RUSSIAN_POLICY
from gonogo.texts._russian import RUSSIAN

_TABLES: Mapping[str, Mapping[str, str]] = {
    "en": {
        **ENGLISH,
        **ENGLISH_POLICY,
        **ENGLISH_HEADINGS,
        **ENGLISH_OUTGOING,
        **ENGLISH_AUDIT,
        **ENGLISH_EDITOR,
        **ENGLISH_PLAN_TEXT,
    },
    "ru": {
        **RUSSIAN,
        **RUSSIAN_POLICY,
        **RUSSIAN_HEADINGS,
        **RUSSIAN_OUTGOING,
        **RUSSIAN_AUDIT,
        **RUSSIAN_EDITOR,
        **RUSSIAN_PLAN_TEXT,
    },
}
_CAUSES = {"en": ENGLISH_CAUSES, "ru": RUSSIAN_CAUSES}


def say(key: str, locale: str | None = DEFAULT, **fields: object) -> str:
    """The text of that key in that language; English when the language is not spoken here.

    Raises:
        KeyError: there is no such text, or a field of it is missing.
    """
    return _TABLES[resolve(locale, DEFAULT)][key].format(**fields)


def cause_and_fix(hint: str, locale: str | None = DEFAULT) -> tuple[str, str]:
    """What lies behind a failure, and what to do about it, by the key of its hint."""
    causes = _CAUSES[resolve(locale, DEFAULT)]
    return causes.get(hint, causes["failure_hint_unknown"])


def keys(locale: str) -> dict[str, frozenset[str]]:
    """Every key of a language, with the fields that its text needs."""
    return {key: _fields(text) for key, text in _TABLES[locale].items()}


def _fields(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name)
