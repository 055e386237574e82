"""Reads, compares, packs and sweeps the objects in a store of snapshots."""

import fcntl
import json
import os
import re
import shutil
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace.snapshots.git import (
    IMPORT_LIMIT,
    Git,
    Outlet,
    check_id,
    keep_names,
    outlet,
)
from gonogo.workspace.snapshots.scan import now_in
from gonogo.workspace.snapshots.states import (
    Change,
    FileState,
    Folders,
    Hunks,
    LineCount,
    Tree,
    parents,
)

# Reading snapshots: their files, the differences of two, and whether they are complete.

_FILES = b"files/"
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")

_MOST_COUNTED = "core.bigFileThreshold=16m"
"""The lines of larger files are not counted."""

Entry = tuple[int, str]
"""The mode, as snapshots keep it, and the blob."""


class Meta(Struct, frozen=True, kw_only=True):
    """The metadata of a snapshot, beside its files."""

    empty: tuple[str, ...]
    modes: Mapping[str, int]
    unseen: frozenset[str]

    def hides(self, path: str) -> bool:
        """Whether the snapshot left `path` out, so that nothing is known about it."""
        if not self.unseen:
            return False
        return path in self.unseen or any(f"{above}/" in self.unseen for above in parents(path))


class Trees:
    """The snapshots in one store."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def diff(self, before: Tree, after: Tree) -> tuple[Change, ...]:
        """The files that were made, deleted or changed between two snapshots, sorted by path.

        A file that the first snapshot left out, for example because it was ignored, has no known
        state there: if the second snapshot has it, that is not a change.
        """
        if before == after:
            return ()
        old, new = self._meta(before), self._meta(after)
        pairs = self._pairs(before, after, old, new)
        with outlet(self._git) as contents:
            return tuple(
                Change(path=path, before=_state(contents, first), after=_state(contents, second))
                for path, (first, second) in sorted(pairs.items())
                if first is not None or not old.hides(path)
            )

    def folders(self, before: Tree, after: Tree) -> Folders:
        """The folders that were made or removed between two snapshots, for `plan_restore`."""
        if before == after:
            return Folders()
        old, new = self._meta(before), self._meta(after)
        had = _folders(self._entries(before, old), old)
        has = _folders(self._entries(after, new), new)
        made = (path for path in has - had if not old.hides(path) and f"{path}/" not in old.unseen)
        gone = (path for path in old.empty if path not in has and not new.hides(path))
        return Folders(made=tuple(sorted(made)), gone=tuple(sorted(gone)))

    def hides(self, tree: Tree, path: str) -> bool:
        """Whether a snapshot left a path out, such as an ignored one: nothing is known about it."""
        return self._meta(tree).hides(path)

    def unified(self, before: Tree, after: Tree, path: str, *, limit: int = 1 << 20) -> str:
        """The difference of one file as text, empty if there is none.

        Args:
            limit: The most characters; a longer text is cut, and ends with a line that says so.

        Deceptive characters are as in the files: make them visible before you show them.
        """
        ids = (check_id(before), check_id(after))
        literal = os.fsdecode(_FILES) + path
        arguments = ("diff-tree", "-p", "--relative=files/", *_DIFF, *ids, "--", literal)
        said = self._git.run(*arguments).decode("utf-8", "replace")
        if len(said) <= limit:
            return said
        return f"{said[:limit]}\n[cut after {limit} of {len(said)} characters]\n"

    def changed_lines(
        self, pairs: Sequence[tuple[str | None, str | None]]
    ) -> list[LineCount | None]:
        """See `Snapshots.changed_lines`."""
        known, trees = self._sides(pairs)
        said = self._git.run(
            "-c", _MOST_COUNTED, "diff-tree", "-r", "-z", "--numstat", *_DIFF, *trees
        )
        counts: list[LineCount | None] = [
            LineCount(0, 0) if n in known else None for n in range(len(pairs))
        ]
        for line in said.split(b"\0")[:-1]:
            added, removed, name = line.split(b"\t")
            counts[int(name)] = None if added == b"-" else LineCount(int(added), int(removed))
        return counts

    def hunks(
        self, pairs: Sequence[tuple[str | None, str | None]], limit: int, in_all: int
    ) -> list[Hunks]:
        """See `Snapshots.hunks`."""
        known, trees = self._sides(pairs)
        found: list[Hunks] = []
        for n in range(len(pairs)):
            most = min(limit, in_all)
            if n in known and not most:
                found.append(Hunks("", cut=True))
                continue
            said = self._hunks_of(n, trees) if n in known else ""
            found.append(Hunks(said[:most], cut=len(said) > most))
            in_all -= len(found[-1].text)
        return found

    def _hunks_of(self, number: int, trees: Sequence[str]) -> str:
        """The hunks of one numbered file, without the header that names it."""
        patch = ("-c", _MOST_COUNTED, "diff-tree", "-p", *_DIFF, *trees, "--", str(number))
        _, start, hunks = self._git.run(*patch).decode("utf-8", "replace").partition("\n@@ ")
        return start[1:] + hunks

    def entries(self, tree: Tree) -> dict[str, Entry]:
        """Each file with its mode and blob."""
        return self._entries(tree, self._meta(tree))

    def _entries(self, tree: Tree, meta: Meta) -> dict[str, Entry]:
        said = self._git.run("ls-tree", "-r", "-z", check_id(tree), "--", "files/")
        found: dict[str, Entry] = {}
        for line in said.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, blob = facts.split(b" ")
            path = os.fsdecode(name.removeprefix(_FILES))
            found[path] = (_kept(int(mode, 8), meta.modes.get(path)), blob.decode())
        return found

    def verify(self, tree: Tree) -> tuple[str, ...]:
        """The files of a snapshot whose contents are lost or damaged.

        Raises:
            ToolFailed: `io_error` if the snapshot itself is lost.
        """
        left = deque(sorted(self.entries(tree).items()))
        lost: list[str] = []
        while left:
            lost += self._lost(left)
        return tuple(lost)

    def _lost(self, left: deque[tuple[str, Entry]]) -> list[str]:
        """Check files until git gives up, and return those whose contents are lost or damaged."""
        lost: list[str] = []
        try:
            with outlet(self._git) as contents:
                while left and not contents.has_ended:
                    path, (_, blob) = left.popleft()
                    if not _whole(contents, blob):
                        lost.append(path)
        except ToolFailed:
            if not lost:
                raise
        return lost

    def _sides(
        self, pairs: Sequence[tuple[str | None, str | None]]
    ) -> tuple[set[int], tuple[str, str]]:
        """The pairs whose contents are in the store, and two trees of them: before and after."""
        held = set(self._git.held({check_id(blob) for pair in pairs for blob in pair if blob}))
        known = {n: pair for n, pair in enumerate(pairs) if held.issuperset(filter(None, pair))}
        before = self._numbered({n: pair[0] for n, pair in known.items()})
        after = self._numbered({n: pair[1] for n, pair in known.items()})
        return {*known}, (before, after)

    def _numbered(self, blobs: Mapping[int, str | None]) -> str:
        """A tree of contents that have numbers as names."""
        lines = (f"100644 blob {blob}\t{n}\0" for n, blob in blobs.items() if blob)
        return self._git.run("mktree", "-z", given="".join(lines).encode()).decode().strip()

    def _pairs(
        self, before: Tree, after: Tree, old: Meta, new: Meta
    ) -> dict[str, tuple[Entry | None, Entry | None]]:
        ids = (check_id(before), check_id(after))
        said = self._git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", *ids)
        words = said.split(b"\0")[:-1]
        pairs: dict[str, tuple[Entry | None, Entry | None]] = {}
        for facts, name in zip(words[::2], words[1::2], strict=True):
            if not name.startswith(_FILES):
                continue
            path = os.fsdecode(name.removeprefix(_FILES))
            first, second, first_blob, second_blob, _ = facts.removeprefix(b":").split(b" ")
            pairs[path] = (
                _entry(first, first_blob, old.modes.get(path)),
                _entry(second, second_blob, new.modes.get(path)),
            )
        self._add_rare_modes(pairs, before, after, old, new)
        return pairs

    def _add_rare_modes(
        self,
        pairs: dict[str, tuple[Entry | None, Entry | None]],
        before: Tree,
        after: Tree,
        old: Meta,
        new: Meta,
    ) -> None:
        """Add the files that differ only in a mode that git trees do not keep."""
        paths = {path for path, _ in old.modes.items() ^ new.modes.items()} - pairs.keys()
        if not paths:
            return
        first, second = self.entries(before), self.entries(after)
        pairs.update({path: (first.get(path), second.get(path)) for path in paths})

    def _meta(self, tree: Tree) -> Meta:
        try:
            said = json.loads(self._git.run("cat-file", "blob", f"{check_id(tree)}:meta"))
            return Meta(
                empty=tuple(said["empty"]), modes=said["modes"], unseen=frozenset(said["unseen"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ToolFailed("io_error", "The snapshot {tree!r} is damaged", tree=tree) from error


def _kept(mode: int, rare: int | None) -> int:
    if stat.S_ISLNK(mode):
        return stat.S_IFLNK
    return mode if rare is None else stat.S_IFREG | rare & 0o777


def _entry(mode: bytes, blob: bytes, rare: int | None) -> Entry | None:
    number = int(mode, 8)
    return (_kept(number, rare), blob.decode()) if number else None


def _state(contents: Outlet, entry: Entry | None) -> FileState | None:
    if entry is None:
        return None
    mode, blob = entry
    return FileState(blob=blob, mode=mode, hash=content_hash(contents.read(blob)))


def _whole(contents: Outlet, blob: str) -> bool:
    try:
        contents.read(blob)
    except ToolFailed:
        return False
    return True


def _folders(entries: Iterable[str], meta: Meta) -> set[str]:
    named = [*entries, *meta.unseen, *(f"{path}/" for path in meta.empty)]
    # A folder that was left out ends in `/`: it counts as an existing one.
    return {above for path in named for above in parents(path)}


# Packing and sweeping the objects of a store of snapshots.
#
# A tree names every file of its folder, so each snapshot of a large folder would take space for all
# its names. Therefore loose objects and small packs are combined into one pack, which stores a tree
# as its difference from another one.
#
# A sweep removes only what nobody needs any more. Needed are the objects that the caller names,
# those that the indexes of workspaces and unfinished rollbacks name, and those that were written or
# used lately, as their owner may not have written that down yet; each with everything in it. If
# packing or a sweep is cut off, it has only removed less: needed objects are in the new pack before
# they are removed from their old place.

GRACE = 3_600.0
"""For how many seconds objects stay after they were written or used again."""
NO_GRACE = -10 * 365 * 86_400.0
"""Everything that is not needed is removed, however new it is."""
_WAITING = 256 << 10
"""So many bytes in loose objects and in packs of single snapshots are worth packing."""
_MANY = 32
"""So many packs of single snapshots are worth packing."""
_SMALL = 1 << 20
"""A pack of fewer bytes is combined with new ones."""
_ID = re.compile(rb"[0-9a-f]{40}")
_NOTES = ("index.msgpack", "rollback.json")


def pack(git: Git) -> None:
    """Combine loose objects and small packs into one pack, if that is worth it.

    Raises:
        ToolFailed: `io_error` or `timeout`; everything is still in its old place.
    """
    if not _is_worth_it(git.folder):
        return
    loose = dict(_loose(git.folder))
    with (git.folder / "pack.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another process is packing.
            return
        small = [index for index, size in _packs_with_sizes(git.folder) if size < _SMALL]
        names = {name for index in small for name in _packed(git, index)}
        _into_one_pack(git, {*loose, *names}, small)
        for path in loose.values():
            path.unlink(missing_ok=True)


def _is_worth_it(folder: Path) -> bool:
    small = sorted(size for _, size in _packs_with_sizes(folder) if size < _SMALL)
    # The largest small pack is the result of the last packing.
    waiting = small[:-1]
    loose = sum(_size(path) for _, path in _loose(folder))
    return len(waiting) > _MANY or sum(waiting) + loose >= _WAITING


class _Held(Struct, frozen=True):
    """The objects of a store, and which of them are needed."""

    loose: Mapping[str, Path]
    packs: Mapping[Path, set[str]]
    reached: set[str]
    horizon: int

    @property
    def useless(self) -> set[str]:
        """The objects that can be removed."""
        return {*self.loose, *(name for names in self.packs.values() for name in names)} - (
            self.reached
        )


def sweep(git: Git, keep: Iterable[str], grace: float = GRACE) -> int:
    """Remove what is not needed, while nobody takes a snapshot, and return the number of objects.

    If a part of a pack is needed, a new pack is made of that part.

    Raises:
        ToolFailed: `io_error` or `timeout`; everything that is needed is still there.
    """
    held = _held(git, keep, grace)
    _clear_up(git.folder)
    gone = [path for name, path in held.loose.items() if name not in held.reached]
    done = sum(_removed(path, held.horizon) for path in gone)
    return done + _sweep_packs(git, held.packs, held.reached)


def useless(git: Git, keep: Iterable[str], grace: float = GRACE) -> int:
    """About how many bytes a sweep would free.

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
    """Remove unfinished files of killed programs; nobody else is at work in the store now."""
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
    """Make a pack of objects, and remove the packs that it replaces."""
    place = git.folder / "objects/pack/pack"
    told = "".join(f"{name}\n" for name in sorted(names)).encode()
    said = git.run(
        "pack-objects", "--quiet", "--window=10", "--depth=50", str(place), given=told,
        limit=IMPORT_LIMIT,
    )  # fmt: skip
    made = f"pack-{said.decode().strip()}"
    keep_names(git.folder / "objects/pack")
    for index in replaced:
        if index.stem != made:
            _remove_pack(index)


def _loose(folder: Path) -> Iterator[tuple[str, Path]]:
    # This runs after each snapshot; `glob` would take three times as long.
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
    """The ids in the indexes and rollback notes of workspaces."""
    for name in _NOTES:
        for file in (folder / "workspaces").glob(f"*/{name}"):
            with suppress(FileNotFoundError):
                yield from (found.decode() for found in _ID.findall(file.read_bytes()))


def _reached(git: Git, needed: Iterable[str]) -> set[str]:
    """The needed objects, with all objects in them; lost objects are skipped."""
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
    # Check again: whoever uses an existing object gives it a new time.
    if not _is_old(path, horizon):
        return False
    path.unlink(missing_ok=True)
    return True


def _remove_pack(index: Path) -> None:
    # The index first: git ignores a pack without index, but an index without its pack is an error.
    for path in (index, index.with_suffix(".pack"), index.with_suffix(".rev")):
        path.unlink(missing_ok=True)
