"""What undoing means, path by path: pure reckoning over what calls did to files.

A path goes back only over an unbroken run of changes: where one change does not begin with what
the one before it left, somebody else changed the file in between, and it stays. Runs that ended
where they began, such as a change and its own undoing, count for nothing.

A state is JSON: None is no file, `{"folder": true}` a folder, else a file's content hash with its
blob and mode where they are known.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import asdict

from gonogo.domain.base import content_hash
from gonogo.domain.records import Checkpoint, FileChange
from gonogo.domain.states import SUBTASK_LETTERS, SubtaskStatus

State = dict[str, Any] | None
FOLDER: dict[str, Any] = {"folder": True}
COMMAND = "command"
"""The origin of what changed while a command ran."""


class PathUndo(Struct, frozen=True, kw_only=True):
    """What became of one file, as far as it is to be undone."""

    path: str
    changes: tuple[FileChange, ...]
    """Oldest first; never empty."""
    unbroken: bool

    @property
    def wanted(self) -> State:
        """What the file should be again."""
        return self.changes[0].before

    @property
    def left(self) -> State:
        """What the last change left there."""
        return self.changes[-1].after

    @property
    def shared(self) -> bool:
        """Whether a person may have made one of the changes, since a command ran then."""
        return any(change.origin == COMMAND for change in self.changes)

    @property
    def unknown(self) -> bool:
        """Whether nobody could tell what was changed."""
        return any("unknown" in (change.after or {}) for change in self.changes)


class Reckoning(Struct, frozen=True, kw_only=True):
    """What is to be undone."""

    paths: tuple[PathUndo, ...]
    made: tuple[str, ...]
    """Folders that were made."""
    gone: tuple[str, ...]
    """Folders that went."""


def reckon(changes: Iterable[FileChange]) -> Reckoning:
    """What undoing these changes, given oldest first, would mean."""
    runs: dict[str, list[FileChange]] = {}
    folders: dict[str, list[FileChange]] = {}
    for change in changes:
        of_folder = FOLDER in (change.before, change.after)
        (folders if of_folder else runs).setdefault(change.path, []).append(change)
    found = (_path_undo(path, run) for path, run in sorted(runs.items()))
    return Reckoning(
        paths=tuple(undo for undo in found if undo is not None),
        made=_where(folders, before=None, after=FOLDER),
        gone=_where(folders, before=FOLDER, after=None),
    )


def came_to(changes: Iterable[FileChange]) -> dict[str, tuple[State, State]]:
    """What changes, given oldest first, came to: path → its state before and its state after.

    A path that is again as it was is left out; a file that can be run where it could not be before
    is another one.
    """
    found: dict[str, tuple[State, State]] = {}
    for change in changes:
        before = found[change.path][0] if change.path in found else change.before
        found[change.path] = before, change.after
    return {path: states for path, states in found.items() if _differ(*states)}


class NetChange(NamedTuple):
    """What changes came to at the path of one file."""

    path: str
    before: State
    after: State

    @property
    def blobs(self) -> tuple[str | None, str | None]:
        """The ids of the content before and of the one after, where they are known."""
        return (self.before or {}).get("blob"), (self.after or {}).get("blob")

    @property
    def status(self) -> Literal["added", "deleted", "modified", "unknown"]:
        """What became of the file; `unknown` where nobody could tell."""
        if "unknown" in (self.after or {}):
            return "unknown"
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"


def net_changes(changes: Iterable[FileChange]) -> list[NetChange]:
    """What changes of files, given oldest first, came to, by path; folders are left out."""
    found = sorted(came_to(changes).items())
    return [NetChange(path, *states) for path, states in found if FOLDER not in states]


def _differ(before: State, after: State) -> bool:
    if before is None or after is None or "unknown" in after:
        return before is not after
    modes = {state["mode"] for state in (before, after) if "mode" in state}
    return not alike(before, after) or len(modes) > 1


def alike(one: State, other: State) -> bool:
    """Whether two states hold the same content, whatever their modes."""
    return (one or {}).get("hash") == (other or {}).get("hash")


def _path_undo(path: str, run: Sequence[FileChange]) -> PathUndo | None:
    left: list[FileChange] = []
    for change in run:
        left.append(change)
        if alike(left[0].before, change.after) and "unknown" not in (change.after or {}):
            left.clear()
    if not left:
        return None
    pairs = pairwise(left)
    unbroken = all(alike(first.after, second.before) for first, second in pairs)
    return PathUndo(path=path, changes=tuple(left), unbroken=unbroken)


def _where(folders: dict[str, list[FileChange]], *, before: State, after: State) -> tuple[str, ...]:
    fits = (
        path for path, run in folders.items() if run[0].before == before and run[-1].after == after
    )
    return tuple(sorted(fits))


def kept_path(path: str) -> str:
    """A path as it is stored: one with bytes that are no UTF-8 is percent-encoded after a `/`.

    No path of a workspace begins with `/`, so that the two can be told apart.
    """
    if path.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in path):
        return path
    return "/" + "".join(
        f"%{ord(letter) & 0xFF:02X}" if letter == "%" or "\udc80" <= letter <= "\udcff" else letter
        for letter in path
    )


def real_path(kept: str) -> str:
    """The path that was stored, with its bytes as surrogates."""
    if not kept.startswith("/"):
        return kept
    first, *rest = kept[1:].split("%")
    return first + "".join(_letter(int(part[:2], 16)) + part[2:] for part in rest)


def shown_path(kept: str) -> str:
    """A stored path as people are shown it."""
    return kept.removeprefix("/")


def _letter(byte: int) -> str:
    return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)


# Checkpoints: how one says where every subtask stood, and the hash that shows it is unchanged.

_LATER = "hash", "swept_at"
_canonical = Encoder(order="sorted").encode
"""What `canonical_json` gives of whole numbers and texts, in a fifth of the time."""
_WORDS = {letter: status for status, letter in SUBTASK_LETTERS.items()}


def write_standings(statuses: Iterable[SubtaskStatus]) -> str:
    """Where each subtask of a plan stands, in plan order, a letter each."""
    return "".join([SUBTASK_LETTERS[status] for status in statuses])


def read_standings(letters: str) -> list[SubtaskStatus]:
    """What `write_standings` wrote."""
    return [_WORDS[letter] for letter in letters]


def checkpoint_hash(checkpoint: Checkpoint) -> str:
    """The hash over everything that a checkpoint says, but for the hash that it carries."""
    facts = asdict(checkpoint)
    for name in _LATER:
        del facts[name]
    moment = checkpoint.created_at.astimezone(UTC)
    facts["created_at"] = moment.isoformat(timespec="microseconds")
    return content_hash(_canonical(facts))


def is_unchanged(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint says what it said when it was written."""
    return checkpoint_hash(checkpoint) == checkpoint.hash
