"""What snapshots speak of: the state of a file, a change of one, and the folders around them.

Paths are relative to the workspace, with `/`; bytes of a name that are no UTF-8 are kept as
surrogates (`os.fsencode` gives the bytes back).
"""

import stat
from dataclasses import dataclass
from typing import NamedTuple, NewType

Tree = NewType("Tree", str)
"""The id of one snapshot: the hash of a git tree. Equal ids are equal snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """One file as a snapshot holds it. A symbolic link's content is its target."""

    blob: str
    mode: int
    """`st_mode` as far as it is kept: the kind and nine permission bits."""
    hash: str
    """As `domain.canonical.content_hash` gives."""

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


class LineCount(NamedTuple):
    """How many lines of a file came and how many went; one that was changed counts as both."""

    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What two snapshots have differently at one path; None is no file."""

    path: str
    before: FileState | None
    after: FileState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Folders that came or went between two snapshots; parents stand before their children."""

    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a snapshot may hold; sizes in bytes."""

    files: int = 100_000
    total: int = 1 << 30
    file: int = 128 << 20


def git_mode(mode: int) -> str:
    """The mode of a tree's entry."""
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & 0o100 else "100644"


def kept_mode(status_mode: int) -> int:
    """As much of `st_mode` as snapshots keep."""
    if stat.S_ISLNK(status_mode):
        return stat.S_IFLNK
    return stat.S_IFMT(status_mode) | status_mode & 0o777


def parents(path: str) -> list[str]:
    """The folders above a path, the nearest first; the root is not among them."""
    found: list[str] = []
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found
