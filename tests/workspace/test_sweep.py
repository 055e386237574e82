"""A sweep removes what nobody needs, and nothing that anybody does."""

import os
import subprocess
import threading
import time

import pytest

from fakes.trees import paths_in
from gonogo.domain.errors import Busy, ToolFailed
from gonogo.workspace import Snapshots, Workspace
from gonogo.workspace.snapshots.git import Git
from plugins.nightly import examples

AT_ONCE = -60.0
"""Nothing is so young that it stays for that alone."""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def snapshots(tmp_path):
    return Snapshots(tmp_path / "snapshots")


def taken(snapshots, folder, text, files=1):
    """A snapshot of files with that text."""
    for n in range(files):
        (folder / f"{n}.txt").write_text(f"{text} {n}\n")
    return snapshots.take(Workspace(folder))


def test_what_is_kept_and_what_was_taken_last_stay_and_the_rest_goes(snapshots, folder):
    assert snapshots.sweep(()) == 0
    kept, lost, last = (taken(snapshots, folder, text) for text in ("one", "two", "three"))
    alone = snapshots.blob(b"an ignored file")

    assert snapshots.sweep({kept, alone}, grace=AT_ONCE) > 0

    assert snapshots.trees.verify(kept) == snapshots.trees.verify(last) == ()
    assert snapshots.read(alone) == b"an ignored file"
    with pytest.raises(ToolFailed):
        paths_in(snapshots, lost)
    assert snapshots.sweep({kept, alone}, grace=AT_ONCE) == 0
    assert snapshots.trees.verify(taken(snapshots, folder, "two")) == ()


def test_what_was_taken_or_used_again_lately_stays_whoever_needs_it(snapshots, folder):
    trees = [taken(snapshots, folder, text) for text in ("one", "two", "three")]

    assert snapshots.sweep(()) == 0
    assert [snapshots.trees.verify(tree) for tree in trees] == [(), (), ()]


def test_a_pack_goes_once_nothing_in_it_is_needed(snapshots, folder, tmp_path):
    first = taken(snapshots, folder, "one", files=150)
    packs = tmp_path / "snapshots" / "objects" / "pack"
    [pack] = packs.glob("*.pack")
    second = taken(snapshots, folder, "two", files=150)

    snapshots.sweep({first}, grace=AT_ONCE)
    assert pack.exists()
    assert snapshots.trees.verify(first) == ()
    snapshots.sweep((), grace=AT_ONCE)
    assert not pack.exists()
    assert snapshots.trees.verify(second) == ()
    # What both have in common lies beside the second now.
    assert len(list(packs.glob("*.idx"))) == len(list(packs.glob("*.pack"))) == 2


def test_a_snapshot_that_is_lost_already_does_not_keep_others_from_being_swept(snapshots, folder):
    taken(snapshots, folder, "one")
    kept, last = taken(snapshots, folder, "two"), taken(snapshots, folder, "three")

    assert snapshots.sweep({kept, "1" * 40}, grace=AT_ONCE) > 0
    assert snapshots.trees.verify(kept) == snapshots.trees.verify(last) == ()


def test_snapshots_that_are_taken_meanwhile_are_whole(snapshots, folder):
    over, problems = threading.Event(), list[BaseException]()

    def sweeps():
        try:
            # Long enough for whoever waits to come in between.
            while not over.wait(0.005):
                snapshots.sweep((), grace=AT_ONCE)
        except ToolFailed as problem:
            problems.append(problem)

    taken(snapshots, folder, "first")
    other = threading.Thread(target=sweeps)
    other.start()
    try:
        for n in range(examples(5, nightly=50)):
            tree = taken(snapshots, folder, f"text {n % 3}", files=3)
            assert snapshots.trees.verify(tree) == ()
    finally:
        over.set()
        other.join(60)
    assert problems == []


def room(tmp_path):
    """The bytes that the objects of the store take."""
    objects = tmp_path / "snapshots" / "objects"
    return sum(path.stat().st_size for path in objects.rglob("*") if path.is_file())


def objects_of(tmp_path):
    """Every object of the store, with its content."""
    store = tmp_path / "snapshots"
    command = ["git", "-C", str(store), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def test_a_snapshot_of_a_large_folder_takes_what_changed(snapshots, folder, tmp_path):
    taken(snapshots, folder, "a line that everybody writes", files=1_000)
    before, trees = room(tmp_path), []
    for n in range(30):
        (folder / f"{n}.txt").write_text(f"changed {n}\n")
        trees.append(snapshots.take(Workspace(folder)))

    # A tree of 1,000 names takes 24 KB; 256 KiB may wait to be brought together.
    assert room(tmp_path) - before < 30 * 1_500 + (256 << 10)
    assert [snapshots.trees.verify(tree) for tree in trees] == [()] * 30
    assert len(snapshots.trees.diff(trees[0], trees[-1])) == 29


def test_what_is_packed_is_found_and_held_once_by_others_too(snapshots, folder, tmp_path):
    trees = [taken(snapshots, folder, f"text {n}", files=600) for n in range(3)]
    again = [taken(snapshots, folder, f"text {n}", files=600) for n in range(3)]
    other = Snapshots(tmp_path / "snapshots")

    assert again == trees
    assert [other.trees.verify(tree) for tree in trees] == [()] * 3
    assert not (tmp_path / "snapshots" / "objects" / trees[0][:2] / trees[0][2:]).exists()


def test_a_snapshot_is_taken_although_it_cannot_be_packed(snapshots, folder, tmp_path):
    taken(snapshots, folder, "one", files=50)
    broken = tmp_path / "snapshots" / "objects" / "ab" / ("0" * 38)
    broken.parent.mkdir(exist_ok=True)
    broken.write_bytes(b"x" * (64 << 10))

    tree = taken(snapshots, folder, "two", files=50)
    assert snapshots.trees.verify(tree) == ()


def test_a_pack_of_which_a_part_is_needed_is_made_anew(snapshots, folder, tmp_path):
    lost = taken(snapshots, folder, "nobody wants this", files=150)
    kept = taken(snapshots, folder, "but this", files=150)
    taken(snapshots, folder, "and this")
    # Whatever lies where, one pack has all of it now.
    git = Git(tmp_path / "snapshots")
    git.run("repack", "-d", "-n", "-q", "--geometric=2")

    assert snapshots.sweep({kept}, grace=AT_ONCE) > 0
    assert snapshots.trees.verify(kept) == ()
    with pytest.raises(ToolFailed):
        paths_in(snapshots, lost)
    assert b"nobody wants this" not in objects_of(tmp_path)


def test_what_programs_that_were_killed_left_is_cleared_up(snapshots, folder, tmp_path):
    taken(snapshots, folder, "one")
    store = tmp_path / "snapshots"
    left = [store / "objects/pack/tmp_pack_1", store / "objects/aa/tmp_obj_1",
            store / "fast_import_crash_1",
            store / "objects/tmp_objdir-bulk-fsync-aB1/aa/tmp_obj_1"]  # fmt: skip
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")

    snapshots.sweep(())
    assert [path for path in left if path.exists()] == []


def test_what_a_workspace_had_is_forgotten_at_once(snapshots, folder, tmp_path):
    trees = [taken(snapshots, folder, text) for text in ("first", "second", "third")]
    blob = snapshots.hold(Workspace(folder), "0.txt")
    assert blob is not None

    assert snapshots.forget(folder, ()) > 0
    for tree in trees:
        with pytest.raises(ToolFailed):
            paths_in(snapshots, tree)
    assert b"third" not in objects_of(tmp_path)
    assert snapshots.trees.verify(taken(snapshots, folder, "third")) == ()


def test_what_others_have_or_were_just_given_is_not_forgotten(snapshots, folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    gone, kept = (taken(snapshots, folder, text) for text in ("gone", "shared"))
    # Held in another workspace, and written down by nobody yet.
    (tree, _) = (taken(snapshots, other, text) for text in ("shared", "last"))

    snapshots.forget(folder, {kept})
    assert snapshots.trees.verify(kept) == snapshots.trees.verify(tree) == ()
    with pytest.raises(ToolFailed):
        paths_in(snapshots, gone)
    # Its snapshot is somebody's: what is read of the workspace goes on where it was.
    assert snapshots.take(Workspace(folder)) == kept


def test_a_store_that_nobody_began_has_nothing_to_forget(snapshots, folder):
    assert snapshots.forget(folder, ()) == 0
    assert snapshots.size == 0


def lay_loose(store):
    """Have every object lie for itself."""
    for pack in (store / "objects/pack").glob("*.pack"):
        data = pack.read_bytes()
        for path in (pack.with_suffix(".idx"), pack):
            path.unlink()
        unpack = ["git", "-C", str(store), "unpack-objects", "-q"]
        subprocess.run(unpack, input=data, check=True)


def objects(tmp_path):
    """The objects that lie loose, with the bytes that each takes."""
    found = (tmp_path / "snapshots/objects").glob("[0-9a-f][0-9a-f]/*")
    return {path: path.stat().st_size for path in found}


@pytest.mark.parametrize(("seconds", "goes"), [(3_500, False), (3_700, True)])
def test_what_a_sweep_would_give_back_is_what_it_gives_back(
    snapshots, folder, tmp_path, seconds, goes
):
    _, kept, _ = (taken(snapshots, folder, text) for text in ("gone", "kept", "last"))
    lay_loose(tmp_path / "snapshots")
    before, old = objects(tmp_path), time.time() - seconds
    for path in before:
        os.utime(path, (old, old))
    # Whoever opens the store later knows nothing of what was given out.
    later = Snapshots(tmp_path / "snapshots")

    assert snapshots.useless({kept}) == 0
    hoped, removed = later.useless({kept}), later.sweep({kept})
    gone = [size for path, size in before.items() if not path.exists()]
    assert (hoped, removed) == (sum(gone), len(gone))
    assert bool(gone) is goes


def test_what_a_store_takes_is_the_size_of_its_files(snapshots, folder, tmp_path):
    taken(snapshots, folder, "one", files=3)

    files = [path for path in (tmp_path / "snapshots").rglob("*") if path.is_file()]
    assert snapshots.size == sum(path.stat().st_size for path in files) > 1_000


@pytest.mark.parametrize(("size", "most"), [(100_000, 3), (10, 34)])
def test_small_packs_and_what_lies_loose_are_brought_together_once_it_is_worth_it(
    snapshots, folder, tmp_path, size, most
):
    packs = tmp_path / "snapshots/objects/pack"
    snapshots.blob(b"loose")
    found = []
    for n in range(most):
        (folder / "a").write_bytes(os.urandom(size))
        tree = snapshots.take(Workspace(folder))
        found.append((len(objects(tmp_path)), len([*packs.glob("*.idx")])))
        if n + 2 == most:
            snapshots.blob(os.urandom(70_000 if size > 10 else 1))

    assert found == [*((1, n + 1) for n in range(most - 1)), (0, 1)]
    assert snapshots.trees.verify(tree) == ()


def test_a_store_that_cannot_be_written_is_busy_and_says_where(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Busy) as busy:
        Snapshots(tmp_path / "file/store").probe()
    said, _, why = busy.value.reason.partition(": ")
    assert (said, why[:6]) == ("the state folder cannot be written", "[Errno")
    Snapshots(tmp_path / "new/store").probe()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "new").iterdir()) == []
