"""What people and models are told, in English and Russian.

Every text has a key, and has the same fields in both languages, so a caller names only the text and
not its words. Words of the protocol (types, statuses, metadata) are not texts and never change with
the language. The catalogues are `locale/*.po`; `scripts/setup` and the build of a package compile
them for gettext.

Texts longer than a sentence are in `texts`, which imports more.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from string import Formatter
from typing import Literal, overload

from gonogo.domain.errors import Reason, ToolFailed

Locale = Literal["en", "ru"]
LOCALES: tuple[Locale, ...] = ("en", "ru")
DEFAULT: Locale = "en"

_FOLDER = Path(__file__).parent / "locale"
_REASON = "reason"
"""The context of reasons and refusals in the catalogue; their English text is the key."""
_COMMAND_LINE = "command line"
_QUOTED = re.compile("'([^']+)'")
_ESTIMATE = re.compile(r"(\d+(?:\.\d+)?) ?(s|sec|seconds?|m|min|minutes?|h|hours?)", re.IGNORECASE)
_UNITS = {"s": "с", "m": "мин", "h": "ч"}
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")


class _InRussian(Formatter):
    """Fills a text in as `str.format` does; what is quoted stands between Russian quotes."""

    def convert_field(self, value: object, conversion: str | None) -> object:
        if conversion in {"a", "r"} and isinstance(value, str):
            said = repr(value) if conversion == "r" else ascii(value)
            return f"«{said[1:-1]}»"
        if isinstance(value, str) and (quoted := _QUOTED.fullmatch(value)):
            return f"«{quoted[1]}»"
        return super().convert_field(value, conversion)  # type: ignore[arg-type]


class _Unknown(NullTranslations):
    """The last catalogue that is searched: it raises `KeyError` for every key."""

    def gettext(self, message: str) -> str:
        raise KeyError(message)

    def pgettext(self, context: str, message: str) -> str:
        raise KeyError(message)


def say(key: str, locale: str | None = DEFAULT, **fields: object) -> str:
    """The text of a key in a language; English if gonogo does not know the language.

    If a text has plural forms, the field `count` selects one.

    Raises:
        KeyError: there is no such text, or a field of it is missing.
    """
    catalogue, count = _catalogue(resolve(locale, DEFAULT)), fields.get("count")
    said = catalogue.ngettext(key, key, count) if isinstance(count, int) else key
    return _filled(catalogue.gettext(key) if said == key else said, locale, fields)


def cause_and_fix(hint: str, locale: str | None = DEFAULT) -> tuple[str, str]:
    """What lies behind a failure, and what to do about it, by the key of its hint."""
    try:
        return say(f"{hint}.cause", locale), say(f"{hint}.fix", locale)
    except KeyError:
        return cause_and_fix("failure_hint_unknown", locale)


def told(reason: str, locale: str | None) -> str:
    """A reason in a language; a person's own text and an unknown reason stay as they are.

    A template that is not known is not formatted: it may come from a server of another version.
    """
    if not isinstance(reason, Reason):
        return reason if "{" in reason else _word(_REASON, reason, locale)
    template = _word(_REASON, reason.template, locale, unknown=None)
    if template is None:
        return str(reason)
    fields = {name: _field(name, value, locale) for name, value in reason.fields.items()}
    try:
        return _filled(template, locale, fields)
    except (LookupError, ValueError):
        return str(reason)


def told_of(failure: ToolFailed, locale: str | None) -> str:
    """What an agent and the people who watch it are told of a call that failed: kind, and why."""
    return f"{failure.kind}: {told(failure.said, locale)}"


def phrase(text: str, locale: str | None, /, **fields: object) -> str:
    """What the command line says in that language; its English is its key."""
    said = _word(_COMMAND_LINE, text, locale)
    return _filled(said, locale, fields) if fields else said


def counted(one: str, many: str, count: int, locale: str | None, /, **fields: object) -> str:
    """What the command line says of a number of things, in the form that goes with the number."""
    catalogue = _catalogue(resolve(locale, DEFAULT))
    said = catalogue.npgettext(_COMMAND_LINE, one, many, count)
    return _filled(said, locale, {"count": count, **fields})


def term(kind: str, word: str, locale: str | None) -> str:
    """What people call a word of the wire, such as a status; what is not known stands as it is.

    Args:
        kind: The context of the word in the catalogue: `plan`, `subtask`, `question`, `action`, …
    """
    return _word(kind, word, locale)


def reworded(text: str, locale: str | None) -> str:
    """A text whose first sentence the protocol may fix, with the words that people know."""
    begins, stop, rest = text.partition(".")
    return f"{term('wire', begins, locale)}{stop}{rest}"


def decimal(number: float, locale: str | None, digits: int = 1) -> str:
    """A number with `digits` decimals, and the decimal sign of the language."""
    said = f"{number:.{digits}f}"
    return said.replace(".", ",") if resolve(locale, DEFAULT) == "ru" else said


def figure(number: float, locale: str | None) -> str:
    """A number in its shortest form, with the decimal sign of the language."""
    said = f"{number:g}"
    return said.replace(".", ",") if resolve(locale, DEFAULT) == "ru" else said


def duration(seconds: float, locale: str) -> str:
    """A time that something took."""
    if seconds < 60:
        return say("time_seconds", locale, seconds=decimal(seconds, locale))
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return say("time_minutes", locale, minutes=minutes, seconds=left)
    return say("time_hours", locale, hours=minutes // 60, minutes=minutes % 60)


def estimate(written: str, locale: str | None) -> str:
    """Translate an estimate of a plan, such as `5 min`; any other text stays as it is."""
    found = _ESTIMATE.fullmatch(written.strip())
    if found is None or resolve(locale, DEFAULT) != "ru":
        return written
    return f"{found[1].replace('.', ',')}\N{NO-BREAK SPACE}{_UNITS[found[2][0].lower()]}"


def language_of(text: str) -> Locale:
    """The language that a message is answered in: Russian if it has a Cyrillic letter."""
    return "ru" if _CYRILLIC.search(text) else DEFAULT


def resolve(session_locale: str | None, setting: str | None, text: str = "") -> Locale:
    """The session's language, else the operator's, else that of the message, else English.

    A locale that gonogo does not speak counts as not set; `ru-RU` and `ru_RU.UTF-8` are `ru`.
    """
    return known_locale(session_locale) or known_locale(setting) or language_of(text)


@lru_cache(maxsize=64)
def known_locale(locale: str | None) -> Locale | None:
    """The language that a locale names, if it is spoken here."""
    tag = re.split(r"[-_.@]", locale or "", maxsplit=1)[0].strip().lower()
    return next((known for known in LOCALES if known == tag), None)


def _filled(text: str, locale: str | None, fields: Mapping[str, object]) -> str:
    if resolve(locale, DEFAULT) == "ru":
        return _InRussian().vformat(text, (), fields)
    return text.format(**fields)


def _field(name: str, value: object, locale: str | None) -> object:
    if isinstance(value, Reason):
        return told(value, locale)
    known = isinstance(value, str) and name in WIRE_WORDS
    return _word(WIRE_WORDS[name], str(value), locale) if known else value


WIRE_WORDS = {
    "plan_status": "plan",
    "subtask_status": "subtask",
    "call_status": "call",
    "approval_status": "question status",
    "turn_status": "turn",
    "role": "role",
    "own_role": "role",
    "strerror": _COMMAND_LINE,
}
"""The parts of a reason that are words of the wire, with the contexts that have these words."""


@overload
def _word(context: str, word: str, locale: str | None) -> str: ...
@overload
def _word(context: str, word: str, locale: str | None, *, unknown: None) -> str | None: ...
def _word(context: str, word: str, locale: str | None, *, unknown: str | None = "") -> str | None:
    try:
        return _catalogue(resolve(locale, DEFAULT)).pgettext(context, word)
    except KeyError:
        return word if unknown == "" else unknown


@cache
def _catalogue(locale: Locale) -> GNUTranslations:
    with (_FOLDER / f"{locale}.mo").open("rb") as compiled:
        catalogue = GNUTranslations(compiled)
    catalogue.add_fallback(_Unknown())
    return catalogue
