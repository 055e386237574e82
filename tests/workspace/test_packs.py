"""Packs are git's own: what is written here git reads, and what is looked up is what git has."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from gonogo.workspace.snapshots import git as packs
from gonogo.workspace.snapshots.git import (
    Git,
    PackIndex,
    object_id,
    outlet,
    pack_writer,
    tree_object,
)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    found = Git(tmp_path / "store")
    found.prepare()
    return found


def test_git_reads_what_was_written_whatever_its_size(git: Git) -> None:
    contents = [random.Random(size).randbytes(size) for size in (0, 1, 15, 16, 2047, 2048, 300_000)]
    names = [object_id("blob", data) for data in contents]
    modes = ("100644", "100755", "120000")
    first = [*zip(modes, names, strict=False)]
    entries = [(f"{n} \udcff", mode, name) for n, (mode, name) in enumerate(first)]
    tree = tree_object(entries)
    with pack_writer(git.folder) as pack:
        for name, data in zip(names, contents, strict=True):
            pack.write("blob", name, data)
        pack.write("tree", object_id("tree", tree), tree)

    given = b"".join(b"%s blob %s\t%d \xff\0" % (m.encode(), n.encode(), k)
                     for k, (m, n) in enumerate(first))  # fmt: skip
    assert git.run("mktree", "-z", given=given).decode().strip() == object_id("tree", tree)
    with outlet(git) as read:
        assert [read.read(name) for name in names] == contents
    assert git.run("fsck", "--strict", "--full").count(b"dangling") > 0
    [place] = (git.folder / "objects/pack").glob("*.pack")
    assert place.stem == f"pack-{packs._sha1(place.read_bytes()[:-20]).hexdigest()}"
    found = PackIndex(place.with_suffix(".idx"))
    assert found.find({*names, "0" * 40, "f" * 40}) == found.seen == {*names}


def test_few_and_many_names_are_found_alike(git: Git) -> None:
    names = [object_id("blob", b"%d" % number) for number in range(200)]
    with pack_writer(git.folder) as pack:
        for number, name in enumerate(names):
            pack.write("blob", name, b"%d" % number)
    [place] = (git.folder / "objects/pack").glob("*.idx")

    for wanted in ({names[7]}, {*names[:100]}, {*names}):
        assert PackIndex(place).find({*wanted, "0" * 40, "f" * 40}) == wanted


def test_a_tree_has_the_order_that_git_gives_to_it(git: Git) -> None:
    blob = git.keep(b"")
    below = git.run("mktree", given=f"100644 blob {blob}\tx\n".encode()).decode().strip()
    names = [("a", "40000", below), ("a.b", "100644", blob), ("a0", "100644", blob)]
    data = tree_object(names)
    with pack_writer(git.folder) as pack:
        pack.write("tree", object_id("tree", data), data)

    listed = git.run("ls-tree", "--name-only", object_id("tree", data)).decode().split()
    assert listed == ["a.b", "a", "a0"]
    git.run("fsck", "--strict", "--full")


def test_nothing_is_left_of_a_pack_that_was_not_finished_or_has_nothing(git: Git) -> None:
    with pack_writer(git.folder):
        pass
    with suppress(ZeroDivisionError), pack_writer(git.folder) as pack:
        pack.write("blob", object_id("blob", b"x"), b"x")
        raise ZeroDivisionError

    assert [*(git.folder / "objects/pack").iterdir()] == []


def test_what_lies_far_in_a_pack_has_its_place_in_a_table_of_its_own(git: Git) -> None:
    places = (12, packs._FAR - 1, packs._FAR, 5 << 30)
    objects = [(bytes([n] * 20), n, place) for n, place in enumerate(places)]
    said = git.run("show-index", given=packs._index(objects, bytes(20))).decode().split("\n")[:-1]

    assert [int(line.split()[0]) for line in said] == [*places]
    assert [line.split()[1] for line in said] == [name.hex() for name, *_ in objects]


@pytest.mark.parametrize("data", [b"", b"\xfftOc", bytes(2_000)])
def test_a_pack_whose_index_is_damaged_has_nothing(git: Git, data: bytes) -> None:
    path = git.folder / "objects/pack/pack-1.idx"
    path.write_bytes(data)
    path.with_suffix(".pack").touch()

    assert PackIndex(path).find({"0" * 40, "1" * 40}) == set()
