"""The objects of a store of snapshots: read, compared, packed and swept."""

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

# Reading snapshots: their files, what differs between two, and whether they are whole.

_FILES = b"files/"
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")

_MOST_COUNTED = "core.bigFileThreshold=16m"
"""Above it the lines of a file are not counted."""

Entry = tuple[int, str]
"""The mode that is kept, and the blob."""


class Meta(Struct, frozen=True, kw_only=True):
    """What a snapshot says beside its files."""

    empty: tuple[str, ...]
    modes: Mapping[str, int]
    unseen: frozenset[str]

    def hides(self, path: str) -> bool:
        """Whether the snapshot left `path` alone, so that it knows nothing of it."""
        if not self.unseen:
            return False
        return path in self.unseen or any(f"{above}/" in self.unseen for above in parents(path))


class Trees:
    """The snapshots in one store."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def diff(self, before: Tree, after: Tree) -> tuple[Change, ...]:
        """What came, went or changed between two snapshots, in the order of the paths.

        A file that the first one left alone, such as one that was ignored, has no known state
        there: that it is in the second one is no change.
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
        """The folders that came or went between two snapshots, for `plan_restore`."""
        if before == after:
            return Folders()
        old, new = self._meta(before), self._meta(after)
        had = _folders(self._entries(before, old), old)
        has = _folders(self._entries(after, new), new)
        made = (path for path in has - had if not old.hides(path) and f"{path}/" not in old.unseen)
        gone = (path for path in old.empty if path not in has and not new.hides(path))
        return Folders(made=tuple(sorted(made)), gone=tuple(sorted(gone)))

    def hides(self, tree: Tree, path: str) -> bool:
        """Whether a snapshot left a path alone, such as one that is ignored: nobody knows of it."""
        return self._meta(tree).hides(path)

    def unified(self, before: Tree, after: Tree, path: str, *, limit: int = 1 << 20) -> str:
        """The difference of one file as text, empty when there is none.

        Args:
            limit: Characters; a longer text is cut, and ends with a line that says so.

        What could deceive is as it stands in the files: make it visible before it is shown.
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
        """The hunks of one numbered file, without the head that names it."""
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
            ToolFailed: `io_error` when the snapshot itself is lost.
        """
        left = deque(sorted(self.entries(tree).items()))
        lost: list[str] = []
        while left:
            lost += self._lost(left)
        return tuple(lost)

    def _lost(self, left: deque[tuple[str, Entry]]) -> list[str]:
        """Take files until git gives up; those of them whose contents are lost or damaged."""
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
        """The pairs of which all is held, and two trees of them, before and after."""
        held = set(self._git.held({check_id(blob) for pair in pairs for blob in pair if blob}))
        known = {n: pair for n, pair in enumerate(pairs) if held.issuperset(filter(None, pair))}
        before = self._numbered({n: pair[0] for n, pair in known.items()})
        after = self._numbered({n: pair[1] for n, pair in known.items()})
        return {*known}, (before, after)

    def _numbered(self, blobs: Mapping[int, str | None]) -> str:
        """The tree of contents that have numbers in the place of names."""
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
        """Add the files that differ in nothing but a mode that trees do not keep."""
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
    # A folder that was left alone ends in `/`: it counts as one that is there.
    return {above for path in named for above in parents(path)}


# The objects of a store of snapshots: packed so that they grow by what changed, and swept.
#
# A tree names every file of its folder, so that each snapshot of a large folder would take as much
# as the folder has names. What lies loose, and small packs, is brought into one pack, in which a
# tree is kept by what it has otherwise than another.
#
# A sweep removes what nobody needs any more, and nothing else. Needed is what the caller names,
# what the indexes of workspaces and unfinished rollbacks speak of, and whatever came or was used
# again lately, since its owner may not have written that down yet; each with all that it holds. Cut
# off in the middle, either has removed less, and no more than that: what is needed is in the new
# pack before it goes from where it was.

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
    keep_names(git.folder / "objects/pack")
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
