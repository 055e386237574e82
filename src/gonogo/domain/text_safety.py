r"""Text from strangers, made safe to look at: the one rule of every place that shows it.

A terminal obeys control characters, and what is invisible, blank or reorders its neighbours makes
a command read as another than it is. Each such character is shown as an escape, `\x1b`, `\u202e`
or `\U000e0041`. A backslash before what would read as an escape is doubled, so that nobody can
write one that looks like the character: an odd number of backslashes means the character, an even
one half as many backslashes and the letters after them. The no-break space between a number and
its unit in Russian (`5 мин`) stays.
"""

import json
import re
import unicodedata
from collections import Counter
from typing import Any

from gonogo.domain.errors import because, together

_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159"
)
"""Letters and signs that are drawn as nothing."""
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0000, 0xE0FFF))
"""Variation selectors and tags: they are drawn as nothing too."""
_BACKSLASHES = re.compile(r"\\+")
_BEFORE_UNIT = re.compile("(?<=[0-9])\u00a0(?=[А-Яа-яЁё%])")
"""A no-break space as Russian texts have it; anywhere else it would join two words."""
_LOOKS_ESCAPED = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}")
_BLANKS = re.compile(r"[ \t]{41,}")
_EMPTY_LINES = re.compile(r"^(?P<sign>[-+ ]?)[ \t]*\n(?:(?P=sign)[ \t]*\n){7,}", re.MULTILINE)


def visible(text: str, *, lines: bool = True) -> str:
    """The text with every character that could deceive shown as an escape.

    For text as it was written: a second time it would double the backslashes of the escapes.

    Args:
        lines: Keep line feeds and tabs; otherwise they are escaped too.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    odd = _odd(text, lines=lines)
    if "\\" in text:
        text = _BACKSLASHES.sub(lambda run: _doubled(run, odd), text)
    return _escaped(text, odd)


def guarded(text: str, *, lines: bool = True) -> str:
    """The text with every character that could deceive shown as an escape, backslashes left alone.

    For text that is made of parts that are visible already: what they left out is caught here.
    """
    if text.isascii() and text.isprintable():
        return text
    return _escaped(text, _odd(text, lines=lines))


def mark_blanks(text: str) -> str:
    """The text with each long run of blanks, or of empty lines, as a sign and their number.

    What comes after thousands of them would be out of sight: on another screen, or at the end of a
    line that is wrapped. In a unified diff lines are empty that hold nothing but their sign.
    """
    text = _EMPTY_LINES.sub(lambda run: f"{run['sign']}⏎×{run[0].count(chr(10))}\n", text)
    return _BLANKS.sub(lambda run: f"␣×{len(run[0])}", text)


def on_one_line(text: str) -> str:
    """The text as one line, safe to look at: where a line ended is a sign, blanks are counted."""
    parts = text.replace("\r\n", "\n").replace("\t", " ").split("\n")
    lines = (mark_blanks(visible(part)).strip() for part in parts)
    return " ⏎ ".join(line for line in lines if line)


def visible_json(value: Any, *, indent: int | None = None) -> str:  # noqa: ANN401 - any JSON
    """A value as JSON, with every character that could deceive in JSON's own escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in _odd(text, lines=True)})


def undrawn(character: str) -> bool:
    """Whether a character is drawn as nothing, though Unicode counts it as printable."""
    code = ord(character)
    return character in _BLANK or any(first <= code <= last for first, last in _SELECTORS)


def is_blank(text: str) -> bool:
    """Whether nobody can read anything in a text."""
    return not any(c.isprintable() and not c.isspace() and not undrawn(c) for c in text)


def _odd(text: str, *, lines: bool) -> frozenset[str]:
    kept = "\n\t" if lines else ""
    return frozenset(c for c in set(text) if c not in kept and _deceives(c))


def _deceives(character: str) -> bool:
    # Not printable: control, format, surrogate, private, unassigned, and blanks but the space.
    return not character.isprintable() or undrawn(character)


def _doubled(run: re.Match[str], odd: frozenset[str]) -> str:
    text, end = run.string, run.end()
    if text[end : end + 1] in odd or _LOOKS_ESCAPED.match(text, end):
        return run[0] * 2
    return run[0]


def _escaped(text: str, odd: frozenset[str]) -> str:
    escapes = {ord(character): _escape(ord(character)) for character in odd}
    if "\u00a0" not in odd:
        return text.translate(escapes)
    return "\u00a0".join(part.translate(escapes) for part in _BEFORE_UNIT.split(text))


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"


# Words whose letters come from several scripts, so that they look like another word.
#
# The terms are those of Unicode's UTS #39: a word is *mixed-script* unless all its letters are of
# one script, or of the scripts that Chinese, Japanese and Korean are written with beside Latin
# letters (*highly restrictive*). A word is a run of letters and digits: `отчёт_v2` is two of them,
# and fine. A word wholly of one script is fine, too, whatever it looks like.

_WORD = re.compile(r"[^\W_]+")
_TOGETHER = frozenset({"CJK", "LATIN"})
_EAST = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
_MOST = 3


def mixed_letters(text: str) -> str | None:
    """What of a text is written in several scripts at once, for a person; None: nothing."""
    if text.isascii():
        return None
    found = [said for word in dict.fromkeys(_WORD.findall(text)) if (said := _mixed(word))]
    if len(found) > _MOST:
        more = because("and {count} more such words", count=len(found) - _MOST)
        return together([*found[:_MOST], more])
    return together(found) if found else None


def _mixed(word: str) -> str | None:
    """The word, and which of its letters are not of the script that most of them are of."""
    scripts = {letter: _script(letter) for letter in word if letter.isalpha()}
    counts = Counter(scripts.values())
    if len(counts) < 2 or counts.keys() <= _TOGETHER:
        return None
    main = max(counts, key=lambda name: (counts[name], name == "LATIN"))
    odd = {letter: name for letter, name in scripts.items() if name != main}
    letters = ", ".join(f"{name.capitalize()} U+{ord(letter):04X}" for letter, name in odd.items())
    return because(
        "{word!r} is {script} with {letters}",
        word=word,
        script=main.capitalize(),
        letters=letters,
    )


def _script(letter: str) -> str:
    """The script of a letter, by the first word of its name; those of East Asia count as one."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    name = unicodedata.name(plain, "unknown").partition(" ")[0].partition("-")[0]
    return "CJK" if name in _EAST else name
