"""Globs of paths, relative to the workspace: `*` within a name, `**` across folders."""

import re
from collections.abc import Iterable
from functools import lru_cache


def covers(globs: Iterable[str], path: str) -> bool:
    """Whether one of the globs matches the whole path.

    A glob without a wildcard also covers what lies below it: `src` is `src` and `src/**`.
    """
    return any(_compiled(glob).fullmatch(path) for glob in globs)


def is_literal(glob: str) -> bool:
    """Whether the glob names one path."""
    return not re.search(r"[*?\[]", glob)


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> re.Pattern[str]:
    plain = glob.removeprefix("./").rstrip("/")
    if plain in ("", "."):
        return re.compile(r"[\s\S]*")
    pattern = "".join(_translated(token) for token in re.findall(r"\*\*/?|[\s\S]", plain))
    below = "(?:/[\\s\\S]*)?" if is_literal(plain) else ""
    return re.compile(pattern + below)


def _translated(token: str) -> str:
    match token:
        case "**/":
            return r"(?:[\s\S]*/)?"
        case "**":
            return r"[\s\S]*"
        case "*":
            return r"[^/]*"
        case "?":
            return r"[^/]"
        case _:
            return re.escape(token)
