"""The objects of a store of snapshots: packed so that they grow by what changed, and swept.

A tree names every file of its folder, so that each snapshot of a large folder would take as much as
the folder has names. What lies loose, and small packs, is brought into one pack, in which a tree is
kept by what it has otherwise than another.

A sweep removes what nobody needs any more, and nothing else. Needed is what the caller names, what
the indexes of workspaces and unfinished rollbacks speak of, and whatever came or was used again
lately, since its owner may not have written that down yet; each with all that it holds. Cut off in
the middle, either has removed less, and no more than that: what is needed is in the new pack before
it goes from where it was.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gonogo.workspace.snapshots.git import IMPORT_LIMIT, Git
from gonogo.workspace.snapshots.scan import now_in

GRACE = 3_600.0
"""Seconds for which everything that was written or used again stays."""
NO_GRACE = -10 * 365 * 86_400.0
"""However young it is, whatever is not needed goes."""
_WAITING = 256 << 10
"""Bytes that lie loose, and in packs of single snapshots, until they are brought together."""
_MANY = 32
"""Packs of single snapshots, likewise."""
_SMALL = 1 << 20
"""Bytes of a pack that is still made anew with what comes."""
_ID = re.compile(rb"[0-9a-f]{40}")
_NOTES = ("index.msgpack", "rollback.json")


def pack(git: Git) -> None:
    """Bring what lies loose, and small packs, into one, once that is worth it.

    Raises:
        ToolFailed: `io_error` or `timeout`; everything is still where it was.
    """
    if not _is_worth_it(git.folder):
        return
    loose = dict(_loose(git.folder))
    with (git.folder / "pack.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Somebody else is at it.
            return
        small = [index for index, size in _packs_with_sizes(git.folder) if size < _SMALL]
        names = {name for index in small for name in _packed(git, index)}
        _into_one_pack(git, {*loose, *names}, small)
        for path in loose.values():
            path.unlink(missing_ok=True)


def _is_worth_it(folder: Path) -> bool:
    small = sorted(size for _, size in _packs_with_sizes(folder) if size < _SMALL)
    # The largest is what was brought together the last time.
    waiting = small[:-1]
    loose = sum(_size(path) for _, path in _loose(folder))
    return len(waiting) > _MANY or sum(waiting) + loose >= _WAITING


class _Held(Struct, frozen=True):
    """What there is in a store, and what of it is needed."""

    loose: Mapping[str, Path]
    packs: Mapping[Path, set[str]]
    reached: set[str]
    horizon: int

    @property
    def useless(self) -> set[str]:
        """What can go."""
        return {*self.loose, *(name for names in self.packs.values() for name in names)} - (
            self.reached
        )


def sweep(git: Git, keep: Iterable[str], grace: float = GRACE) -> int:
    """Remove what is not needed, while nobody takes a snapshot.

    A pack of which a part is needed is made anew with that part. Gives how many objects went.

    Raises:
        ToolFailed: `io_error` or `timeout`; whatever is needed is still there.
    """
    held = _held(git, keep, grace)
    _clear_up(git.folder)
    gone = [path for name, path in held.loose.items() if name not in held.reached]
    done = sum(_removed(path, held.horizon) for path in gone)
    return done + _sweep_packs(git, held.packs, held.reached)


def useless(git: Git, keep: Iterable[str], grace: float = GRACE) -> int:
    """The bytes that a sweep would give back, about.

    Raises:
        ToolFailed: `io_error` or `timeout`.
    """
    told = "".join(f"{name}\n" for name in sorted(_held(git, keep, grace).useless)).encode()
    said = git.run("cat-file", "--batch-check=%(objectsize:disk)", given=told)
    return sum(int(line) for line in said.split() if line.isdigit())


def _held(git: Git, keep: Iterable[str], grace: float) -> _Held:
    horizon = now_in(git.folder) - round(grace * 1e9)
    loose = dict(_loose(git.folder))
    packs = {index: _packed(git, index) for index in _packs(git.folder)}
    needed = {*keep, *_noted(git.folder)}
    needed |= {name for name, path in loose.items() if not _is_old(path, horizon)}
    for index, names in packs.items():
        if not _is_old(index.with_suffix(".pack"), horizon):
            needed |= names
    return _Held(loose, packs, _reached(git, needed), horizon)


def _clear_up(folder: Path) -> None:
    """Remove what programs that were killed left half-written; nobody else is at work now."""
    for pattern in ("objects/pack/tmp_*", "objects/??/tmp_*", "fast_import_crash_*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    for unfinished in folder.glob("objects/tmp_objdir-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _sweep_packs(git: Git, packs: Mapping[Path, set[str]], reached: set[str]) -> int:
    useless = {index: names - reached for index, names in packs.items() if names - reached}
    needed = {name for index in useless for name in packs[index] & reached}
    if needed:
        _into_one_pack(git, needed, useless)
    else:
        for index in useless:
            _remove_pack(index)
    return sum(len(names) for names in useless.values())


def _into_one_pack(git: Git, names: Iterable[str], replaced: Collection[Path]) -> None:
    """Make a pack of objects, in the place of others."""
    place = git.folder / "objects/pack/pack"
    told = "".join(f"{name}\n" for name in sorted(names)).encode()
    said = git.run(
        "pack-objects", "--quiet", "--window=10", "--depth=50", str(place), given=told,
        limit=IMPORT_LIMIT,
    )  # fmt: skip
    made = f"pack-{said.decode().strip()}"
    for index in replaced:
        if index.stem != made:
            _remove_pack(index)


def _loose(folder: Path) -> Iterator[tuple[str, Path]]:
    # After each snapshot: patterns of names would take three times as long.
    objects = folder / "objects"
    for place in os.listdir(objects):
        for name in os.listdir(objects / place) if len(place) == 2 else ():
            if _ID.fullmatch(os.fsencode(place + name)):
                yield place + name, objects / place / name


def _packs(folder: Path) -> list[Path]:
    """The indexes of all packs."""
    return sorted((folder / "objects/pack").glob("pack-*.idx"))


def _packs_with_sizes(folder: Path) -> list[tuple[Path, int]]:
    return [(index, _size(index.with_suffix(".pack"))) for index in _packs(folder)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _packed(git: Git, index: Path) -> set[str]:
    said = git.run("show-index", given=index.read_bytes())
    return {line.split()[1] for line in said.decode().splitlines()}


def _noted(folder: Path) -> Iterator[str]:
    """What the places of workspaces speak of."""
    for name in _NOTES:
        for file in (folder / "workspaces").glob(f"*/{name}"):
            with suppress(FileNotFoundError):
                yield from (found.decode() for found in _ID.findall(file.read_bytes()))


def _reached(git: Git, needed: Iterable[str]) -> set[str]:
    """All that is needed, with what it holds; what is lost holds nothing."""
    known = git.held(needed)
    if not known:
        return set()
    said = git.run(
        "rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin",
        given="".join(f"{name}\n" for name in known).encode(), limit=IMPORT_LIMIT,
    )  # fmt: skip
    return set(said.decode().split())


def _is_old(path: Path, horizon: int) -> bool:
    try:
        return path.stat().st_mtime_ns < horizon
    except FileNotFoundError:
        return False


def _removed(path: Path, horizon: int) -> bool:
    # Looked at again: whoever uses an object that is there gives it a new time.
    if not _is_old(path, horizon):
        return False
    path.unlink(missing_ok=True)
    return True


def _remove_pack(index: Path) -> None:
    # The index first: without it git does not see the pack, and with it the pack must be there.
    for path in (index, index.with_suffix(".pack"), index.with_suffix(".rev")):
        path.unlink(missing_ok=True)
