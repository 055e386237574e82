"""File globs, as .gitignore and ripgrep read them.

A glob without a slash is compared with the last name of a path, any other with the whole path.
`*` and `?` stay inside one name, `**` spans folders, `[a-z]` and `{one,two}` are as usual.
"""

import re

from gonogo.domain.errors import ToolFailed

MAX_BRACES = 8
"""Levels of braces inside braces."""

_WILD = {
    "\0": r"(?:[^/]+/)*",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
    "{": "(?:",
    "}": ")",
}
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|\*\*|.", re.DOTALL)


def compile_glob(glob: str) -> re.Pattern[str]:
    """The pattern that matches a whole relative path, or its end after a slash.

    Raises:
        ToolFailed: `path_outside_workspace` for a glob that is absolute or climbs,
            `invalid_arguments` for one that cannot be read.
    """
    if not glob or glob.startswith("!") or not glob.isprintable():
        raise ToolFailed("invalid_arguments", f"{glob!a} is no glob of files to search")
    if glob.startswith("/") or ".." in re.split(r"[/{},]", glob):
        raise ToolFailed("path_outside_workspace", f"The glob {glob!r} leads out of the workspace")
    anchored = "/" in glob
    try:
        return re.compile(("" if anchored else r"(?:.*/)?") + _translate(glob), re.DOTALL)
    except re.error as error:
        raise ToolFailed(
            "invalid_arguments", f"The glob {glob!r} cannot be read: {error}"
        ) from error


def _translate(glob: str) -> str:
    pattern: list[str] = []
    depth = 0
    for part in _TOKEN.findall(glob.replace("**/", "\0")):
        depth += (part == "{") - (part == "}")
        if depth < 0 or depth > MAX_BRACES:
            raise _unbalanced(glob)
        pattern.append("|" if part == "," and depth else _one(part))
    if depth:
        raise _unbalanced(glob)
    return "".join(pattern)


def _unbalanced(glob: str) -> ToolFailed:
    return ToolFailed("invalid_arguments", f"The braces of {glob!r} do not match")


def _one(part: str) -> str:
    if part in _WILD:
        return _WILD[part]
    if len(part) > 2 and part.startswith("["):
        return _characters(part)
    return re.escape(part.removeprefix("\\") or "\\")


def _characters(part: str) -> str:
    inner = part[1:-1]
    negated = inner.startswith(("!", "^"))
    body = inner[1:] if negated else inner
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", body)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
