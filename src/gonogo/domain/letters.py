"""Words whose letters come from several scripts, so that they look like another word.

The terms are those of Unicode's UTS #39: a word is *mixed-script* unless all its letters are of one
script, or of the scripts that Chinese, Japanese and Korean are written with beside Latin letters
(*highly restrictive*). A word is a run of letters and digits: `отчёт_v2` is two of them, and
fine. A word wholly of one script is fine, too, whatever it looks like.
"""

import re
import unicodedata
from collections import Counter

from gonogo.domain.reason import because, together

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
