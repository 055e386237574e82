"""Checkpoints: how one says where every subtask stood, and the hash that shows it is unchanged."""

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC

from gonogo.domain.canonical import digest
from gonogo.domain.records import Checkpoint
from gonogo.domain.subtask_state import SubtaskStatus

_S = SubtaskStatus
_LETTERS = {
    _S.PENDING: "p",
    _S.RUNNING: "r",
    _S.WAITING_APPROVAL: "w",
    _S.COMPLETED: "c",
    _S.FAILED: "f",
    _S.SKIPPED: "s",
    _S.CANCELLED: "x",
}
_LATER = frozenset({"hash", "swept_at"})
_FACTS = tuple(field.name for field in fields(Checkpoint) if field.name not in _LATER)
_WORDS = {letter: status for status, letter in _LETTERS.items()}


def write_standings(statuses: Iterable[SubtaskStatus]) -> str:
    """Where each subtask of a plan stands, in plan order, a letter each."""
    return "".join([_LETTERS[status] for status in statuses])


def read_standings(letters: str) -> list[SubtaskStatus]:
    """What `write_standings` wrote."""
    return [_WORDS[letter] for letter in letters]


def checkpoint_hash(checkpoint: Checkpoint) -> str:
    """The hash over everything that a checkpoint says, but for the hash that it carries."""
    facts = {name: getattr(checkpoint, name) for name in _FACTS}
    moment = checkpoint.created_at.astimezone(UTC)
    return digest({**facts, "created_at": moment.isoformat(timespec="microseconds")})


def is_unchanged(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint says what it said when it was written."""
    return checkpoint_hash(checkpoint) == checkpoint.hash
