"""Characters that show a person something other than what a program gets."""

import unicodedata

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPOOFING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DOUBTFUL = frozenset({"Cn", "Zs"})
_UNDRAWN = frozenset(map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), 0xFFFC])) | {
    chr(code) for code in range(0xE0100, 0xE01F0)
}
"""Variation selectors and the like: drawn as nothing, or as their neighbour in another way."""


def spoofing(text: str) -> str | None:
    """What hides or reorders text: controls, bidi marks, zero-width and other invisible signs.

    Returns:
        The first such character as `U+202E`, or None.
    """
    return _first(text, _SPOOFING, _INVISIBLE)


def doubtful(text: str) -> str | None:
    """Blanks that no shell splits at, what is not drawn, code points without a meaning yet."""
    return _first(text, _DOUBTFUL, _UNDRAWN)


def _first(text: str, categories: frozenset[str], extra: frozenset[str]) -> str | None:
    for character in text:
        if character in " \t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or character in extra:
            return f"U+{ord(character):04X}"
    return None
