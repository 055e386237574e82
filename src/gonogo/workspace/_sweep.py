"""Sweeping a store of snapshots: what nobody needs any more goes, and nothing else.

Needed is what the caller names, what the indexes of workspaces and unfinished rollbacks speak of,
and whatever came or was used again lately, since its owner may not have written that down yet; each
with all that it holds. Cut off in the middle, a sweep has removed less, and no more than that.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gonogo.workspace._git import IMPORT_LIMIT, Git
from gonogo.workspace._index import now_in

GRACE = 3_600.0
"""Seconds for which everything that was written or used again stays."""
_ID = re.compile(rb"[0-9a-f]{40}")
_NOTES = ("index.json", "rollback.json")


def sweep(git: Git, keep: Iterable[str], grace: float = GRACE) -> int:
    """Remove what is not needed, while nobody takes a snapshot.

    A pack goes once nothing in it is needed. Gives how many objects and packs went.

    Raises:
        ToolFailed: `io_error` or `timeout`; what is needed was not found out, and nothing went.
    """
    horizon = now_in(git.folder) - round(grace * 1e9)
    loose = {path.parent.name + path.name: path for path in _loose(git.folder)}
    packs = {path: _packed(git, path) for path in (git.folder / "objects/pack").glob("*.idx")}
    needed = {*keep, *_noted(git.folder)}
    needed |= {name for name, path in loose.items() if not _is_old(path, horizon)}
    for index, names in packs.items():
        if not _is_old(index.with_suffix(".pack"), horizon):
            needed |= names
    reached = _reached(git, needed)
    gone = [path for name, path in loose.items() if name not in reached]
    done = sum(_removed(path, horizon) for path in gone)
    for index, names in packs.items():
        if reached.isdisjoint(names):
            done += _pack_removed(index, horizon)
    return done


def _loose(folder: Path) -> Iterator[Path]:
    for path in (folder / "objects").glob("[0-9a-f][0-9a-f]/*"):
        if _ID.fullmatch(os.fsencode(path.parent.name + path.name)):
            yield path


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
    told = "".join(f"{name}\n" for name in sorted(needed)).encode()
    there = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", given=told)
    known = [line.split()[0] for line in there.splitlines() if not line.endswith(b" missing")]
    if not known:
        return set()
    said = git.run(
        "rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin",
        given=b"\n".join(known) + b"\n", limit=IMPORT_LIMIT,
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


def _pack_removed(index: Path, horizon: int) -> bool:
    pack = index.with_suffix(".pack")
    if not _is_old(pack, horizon):
        return False
    # The index first: without it git does not see the pack, and with it the pack must be there.
    for path in (index, pack, index.with_suffix(".rev")):
        path.unlink(missing_ok=True)
    return True
