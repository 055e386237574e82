"""Characters that show a person something other than what a program gets."""

import unicodedata

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPOOFING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DOUBTFUL = frozenset({"Cn", "Zs"})


def spoofing(text: str) -> str | None:
    """What hides or reorders text: controls, bidi marks, zero-width and other invisible signs.

    Returns:
        The first such character as `U+202E`, or None.
    """
    return _first(text, _SPOOFING, _INVISIBLE)


def doubtful(text: str) -> str | None:
    """Blanks that no shell splits at, and code points without a meaning yet."""
    return _first(text, _DOUBTFUL, frozenset())


def _first(text: str, categories: frozenset[str], extra: frozenset[str]) -> str | None:
    for character in text:
        if character in " \t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or character in extra:
            return f"U+{ord(character):04X}"
    return None
