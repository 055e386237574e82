"""A sweep removes what nobody needs, and nothing that anybody does."""

import threading

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Snapshots, Workspace

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

    assert snapshots.verify(kept) == snapshots.verify(last) == ()
    assert snapshots.read(alone) == b"an ignored file"
    with pytest.raises(ToolFailed):
        snapshots.paths(lost)
    assert snapshots.sweep({kept, alone}, grace=AT_ONCE) == 0
    assert snapshots.verify(taken(snapshots, folder, "two")) == ()


def test_what_was_taken_or_used_again_lately_stays_whoever_needs_it(snapshots, folder):
    trees = [taken(snapshots, folder, text) for text in ("one", "two", "three")]

    assert snapshots.sweep(()) == 0
    assert [snapshots.verify(tree) for tree in trees] == [(), (), ()]


def test_a_pack_goes_once_nothing_in_it_is_needed(snapshots, folder, tmp_path):
    first = taken(snapshots, folder, "one", files=150)
    packs = tmp_path / "snapshots" / "objects" / "pack"
    [pack] = packs.glob("*.pack")
    second = taken(snapshots, folder, "two", files=150)

    snapshots.sweep({first}, grace=AT_ONCE)
    assert pack.exists()
    assert snapshots.verify(first) == ()
    snapshots.sweep((), grace=AT_ONCE)
    assert not pack.exists()
    assert snapshots.verify(second) == ()
    assert len(list(packs.glob("*.idx"))) == len(list(packs.glob("*.pack"))) == 1


def test_a_snapshot_that_is_lost_already_does_not_keep_others_from_being_swept(snapshots, folder):
    taken(snapshots, folder, "one")
    kept, last = taken(snapshots, folder, "two"), taken(snapshots, folder, "three")

    assert snapshots.sweep({kept, "1" * 40}, grace=AT_ONCE) > 0
    assert snapshots.verify(kept) == snapshots.verify(last) == ()


def test_snapshots_that_are_taken_meanwhile_are_whole(snapshots, folder):
    over, problems = threading.Event(), list[BaseException]()

    def sweeps():
        try:
            while not over.is_set():
                snapshots.sweep((), grace=AT_ONCE)
        except ToolFailed as problem:
            problems.append(problem)

    taken(snapshots, folder, "first")
    other = threading.Thread(target=sweeps)
    other.start()
    try:
        for n in range(15):
            tree = taken(snapshots, folder, f"text {n % 3}", files=3)
            assert snapshots.verify(tree) == ()
    finally:
        over.set()
        other.join(60)
    assert problems == []
