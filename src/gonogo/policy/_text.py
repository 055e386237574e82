"""Characters that show a person something other than what a program gets."""

import unicodedata
from collections.abc import Callable

from gonogo.domain.text_safety import mixed_letters, undrawn

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPOOFING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DOUBTFUL = frozenset({"Cn", "Zs"})


def spoofing(text: str) -> str | None:
    """What hides or reorders text: controls, bidi marks, zero-width and other invisible signs.

    Returns:
        The first such character as `U+202E`, or None.
    """
    return _first(text, _SPOOFING, _INVISIBLE.__contains__)


def doubtful(text: str) -> str | None:
    """Blanks that no shell splits at, what is not drawn, code points without a meaning yet."""
    return _first(text, _DOUBTFUL, undrawn)


def misread(field: str, written: str) -> str | None:
    """What in a field of a rule is read as something else than it says, if anything is."""
    said = spoofing(written) or (None if field == "reason" else doubtful(written))
    if said:
        return f"{field}: it contains {said}, which nobody sees"
    # Files and sentences may mix letters; what runs is never meant to.
    if field in ("tool", "agent", "command") and (mixed := mixed_letters(written)):
        return f"{field}: it reads as another word: {mixed}"
    return None


def _first(text: str, categories: frozenset[str], odd: Callable[[str], bool]) -> str | None:
    for character in text:
        if character in " \t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or odd(character):
            return f"U+{ord(character):04X}"
    return None
