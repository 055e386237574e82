r"""What a path may look like, before any look at the disk.

`split` takes a path apart and refuses what cannot be a name here: control, bidirectional and
invisible characters, twins of the slash and the dot, names too long or too deep. `join` resolves
the dots and refuses what climbs out. Nothing is decoded or expanded: `%2e`, `~` and `\` are
ordinary characters.
"""

import re
import unicodedata
from collections.abc import Sequence

from gonogo.domain.errors import ToolFailed
from gonogo.domain.text_safety import undrawn

MAX_PATH = 4096
MAX_NAME = 255
MAX_DEPTH = 100

_HIDING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TWINS = frozenset("\u2024\u2025\u2044\u2215\u29f8\u29f5\ufe68\uff0e\uff0f\uff3c")
_DEVICES = ("dev", "proc", "sys")
_OTHER_SYSTEMS = re.compile(r"~|[A-Za-z]:|.*\\", re.DOTALL)
"""What leads elsewhere on a machine whose paths are not read as ours are."""


def split(path: str, roots: Sequence[str]) -> tuple[str, ...]:
    """The parts of a path below the root; `..` is kept, `.` and empty parts are not.

    Args:
        roots: The absolute spellings of the root that a path may begin with.

    Raises:
        ToolFailed: `bad_path`, `path_outside_workspace`, or `not_a_regular_file` for the empty
            path and for what lies among the system's devices.
    """
    if not path:
        raise ToolFailed("not_a_regular_file", "The path is empty")
    if len(path) > MAX_PATH:
        raise ToolFailed("bad_path", f"A path has at most {MAX_PATH} characters")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/"):
        parts = _below(parts, path, roots)
    for part in parts:
        _check_name(part)
    return parts


def join(parts: Sequence[str]) -> str:
    """Resolve `..` among the parts and write them as one relative path; `.` is the root itself.

    Raises:
        ToolFailed: `path_outside_workspace`, or `bad_path` for a path that is too deep.
    """
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
            continue
        if not kept:
            raise ToolFailed(
                "path_outside_workspace", f"{'/'.join(parts)!r} leads out of the workspace"
            )
        kept.pop()
    if len(kept) > MAX_DEPTH:
        raise ToolFailed("bad_path", f"A path has at most {MAX_DEPTH} levels")
    return "/".join(kept) or "."


def elsewhere(path: str) -> str:
    """The relative form of a path on a machine that is not ours, and may have any system.

    Raises:
        ToolFailed: as `split` and `join`, and `bad_path` where some systems would leave the folder.
    """
    if _OTHER_SYSTEMS.match(path):
        raise ToolFailed("bad_path", f"{path!r} is not read alike by all systems")
    return join(split(path, ()))


def _below(parts: tuple[str, ...], path: str, roots: Sequence[str]) -> tuple[str, ...]:
    for root in roots:
        above = tuple(part for part in root.split("/") if part)
        if parts[: len(above)] == above:
            return parts[len(above) :]
    if parts[:1] and parts[0] in _DEVICES:
        raise ToolFailed("not_a_regular_file", f"{path!r} is not a file of the workspace")
    raise ToolFailed("path_outside_workspace", f"{path!r} is outside the workspace")


def _check_name(name: str) -> None:
    if any(_misleads(character) for character in name):
        raise ToolFailed("bad_path", f"The name {name!a} has characters that mislead readers")
    if len(name.encode()) > MAX_NAME:
        raise ToolFailed("bad_path", f"A name has at most {MAX_NAME} bytes")
    if "::$" in name:
        raise ToolFailed("bad_path", f"The name {name!r} is an alias of another file")


def _misleads(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    return unicodedata.category(character) in _HIDING or character in _TWINS or undrawn(character)
