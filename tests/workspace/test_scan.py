"""What a snapshot looks at: its limits in words, what it remembers, and who waits for whom."""

import os
from pathlib import Path

import pytest

from fakes.trees import files_id
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Snapshots, Workspace
from gonogo.workspace.files.safe_open import root_opened
from gonogo.workspace.snapshots import scan as scanning
from gonogo.workspace.snapshots.scan import (
    FoundFile,
    HeldFile,
    Index,
    Scan,
    ScanRecord,
    content,
    held_folder,
    lock,
    now_in,
    open_store,
    settled,
)
from gonogo.workspace.snapshots.states import SnapshotLimits

STEP, COARSE = 50_000_000, 2_500_000_000
FINE, WHOLE = 7_000_000_001, 7_000_000_000


def refusal(kind: str = "io_error"):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


@pytest.mark.parametrize(
    ("mtime", "ctime", "step"),
    [(1, FINE, STEP), (FINE + 5, FINE, STEP + 5), (1, WHOLE, COARSE), (FINE, WHOLE, COARSE + 1)],
)
def test_a_signature_is_believed_once_the_clock_has_gone_on_by_a_step(
    mtime: int, ctime: int, step: int
) -> None:
    signature = (1, 2, mtime, ctime, 3)

    assert settled(signature, ctime + step) is None
    assert settled(signature, ctime + step + 1) == signature


def test_a_signature_tells_files_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("abc")
    status = (tmp_path / "a").lstat()

    assert FoundFile("a", status).signature == (
        status.st_mode, 3, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", [".gitignore", "a/.gitignore", "a/b/.git/HEAD", "x/.git/commondir"]
)
@pytest.mark.parametrize("kind", ["pipe", "long", "link"])
def test_what_git_would_not_read_to_its_end_is_named_and_git_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    root, snapshots = tmp_path / "ws", Snapshots(tmp_path / "store")
    (root / "a").mkdir(parents=True)
    (root / "f").write_text("one")
    before = snapshots.take(Workspace(root))
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/dev/zero")
    else:
        place.touch()
        os.truncate(place, (8 << 20) + 1)
    monkeypatch.setattr(scanning, "_status", lambda *_: pytest.fail("git is asked"))
    for store in (snapshots, Snapshots(tmp_path / "another")):
        with refusal("not_a_regular_file") as refused:
            store.take(Workspace(root))
        assert str(refused.value).startswith(
            f"No snapshot: git would not come to the end of {name!r}"
        )
    monkeypatch.undo()
    place.unlink()
    assert files_id(snapshots, snapshots.take(Workspace(root))) == files_id(snapshots, before)


@pytest.mark.parametrize("target", ["gone", ".gitignore"])
def test_a_link_that_leads_nowhere_is_no_rules(tmp_path: Path, target: str) -> None:
    (root := tmp_path / "ws").mkdir()
    (root / ".gitignore").symlink_to(target)
    snapshots = Snapshots(tmp_path / "store")
    assert {*snapshots.trees.entries(snapshots.take(Workspace(root)))} == {".gitignore"}


def test_where_git_is_asked_about_all_that_is_looked_at_first_however_old_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, snapshots = tmp_path / "ws", Snapshots(tmp_path / "store")
    (root / "old/.git").mkdir(parents=True)
    snapshots.take(Workspace(root))
    os.mkfifo(root / "old/.git/commondir")
    for number in range(201):
        (root / f"new{number}").touch()
    monkeypatch.setattr(scanning, "_status", lambda *_: pytest.fail("git is asked"))
    with refusal("not_a_regular_file"):
        snapshots.take(Workspace(root))


@pytest.mark.parametrize("how", ["new", "same", "mixed"])
def test_the_limits_of_a_snapshot_hold_to_the_byte_and_are_told(tmp_path: Path, how: str) -> None:
    for name, size in (("a", 7), ("b", 5), ("c", 4)):
        (tmp_path / name).write_bytes(bytes(size))
    files = {name: FoundFile(name, (tmp_path / name).lstat()) for name in "abc"}
    held = {name: HeldFile(0o100644, "", file.signature) for name, file in files.items()}
    found = {
        "new": Scan(changed=[*files.values()]),
        "same": Scan(folders={".": held_folder(held)}),
        "mixed": Scan(
            changed=[files["c"]], same={".": {"a": held["a"]}},
            folders={"d": held_folder({"b": held["b"]})},
        ),
    }[how]  # fmt: skip

    scanning._check_size(found, SnapshotLimits(files=3, total=16, file=7))
    said = []
    for limits in ({"files": 2}, {"file": 6}, {"total": 15}):
        with refusal("too_large") as refused:
            scanning._check_size(found, SnapshotLimits(**limits))
        said.append(str(refused.value))
    assert said == [
        "No snapshot: the workspace has more than 2 files. Name generated files in "
        ".gitignore, or raise the limit",
        "No snapshot: 'a' has 7 bytes, more than 6. Name it in .gitignore, or raise the limit",
        "No snapshot: the workspace has 16 bytes, more than 15. Name generated files in "
        ".gitignore, or raise the limit",
    ]


def test_what_a_file_or_a_link_holds_is_read_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_bytes(b"abc")
    (tmp_path / "sub/link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "leads").symlink_to("sub")
    file, link, pipe, folder = (
        FoundFile(path, (tmp_path / path).lstat())
        for path in ("sub/file", "sub/link", "pipe", "sub")
    )
    with root_opened(tmp_path) as root:
        assert content(root, file, 3) == (b"abc", file.signature)
        assert content(root, link, 3) == (b"nowhere", link.signature)
        others = (
            FoundFile("sub/none", file.status), FoundFile("leads/file", file.status),
            FoundFile("leads/link", link.status), FoundFile("sub/none", link.status), pipe, folder,
        )  # fmt: skip
        assert [content(root, other, 3) for other in others] == [None] * len(others)
        with refusal("too_large") as refused:
            content(root, file, 2)
    assert str(refused.value) == "'sub/file' has more than 2 bytes"


@pytest.fixture
def record(tmp_path: Path) -> ScanRecord:
    found = ScanRecord(tmp_path / "store", Path("/code"))
    found.prepare()
    return found


HELD = Index(
    {
        ".": held_folder({
            "a": HeldFile(0o100644, "b" * 40, (1, 2, 3, 4, 5)),
            "\udcff": HeldFile(0o120000, "c", None),
        }),
        "\udcfe": held_folder({"d": HeldFile(0o100600, "d", (1, 7, 3, 4, 5))}),
    },
    "t" * 40, "m", {"out/", "\udcfd"}, {".gitignore": (1, 2, 3, 4, 5), "\udcfc": None},
    {".": "e", "\udcfe": "f"},
)  # fmt: skip


def test_what_was_held_last_is_remembered_by_every_process(
    record: ScanRecord, tmp_path: Path
) -> None:
    other = ScanRecord(tmp_path / "store", Path("/code"))
    assert other.load() == Index()
    record.save(HELD)

    assert record.load() is HELD
    assert other.load() == HELD
    assert ScanRecord(tmp_path / "store", Path("/other")).load() == Index()
    assert HELD.names() == {"b" * 40, "c", "d", "t" * 40, "m", "e", "f"}
    assert HELD.distrusted() == Index(
        {
            ".": held_folder(
                {"a": HeldFile(0o100644, "", None), "\udcff": HeldFile(0o120000, "", None)}
            ),
            "\udcfe": held_folder({"d": HeldFile(0o100600, "", None)}),
        }
    )
    assert HELD.distrusted().names() == set()
    other.save(Index(meta="n"))
    assert record.load() == Index(meta="n")
    assert record.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "harm",
    [
        *(b"", b"\x94", b"\x90", b"\x80", b"7"),
        *(b"\x97\x03\xc0\xa0\x90\xc0\x80\x80", b"\x97\x04\xc0\xa0\x90\xc0\x80\x05"),
        b"\x97\x04\xc0\xa0\x90\xc0\x81\xa1d\x81\xa1f\x05\x80",
    ],
)
def test_what_cannot_be_read_is_as_if_nothing_had_been_held(
    record: ScanRecord, harm: bytes
) -> None:
    record.save(HELD)
    file = record.folder / "index.msgpack"
    assert file.read_bytes()[1] == 4
    file.write_bytes(harm)

    assert record.load() == Index()


def test_what_is_somebody_elses_by_now_is_not_forgotten(record: ScanRecord) -> None:
    places = [record.note, record.folder / "index.msgpack"]
    record.save(HELD)
    places[0].write_text("x")

    record.forget([HELD.tree])
    assert [place.exists() for place in places] == [False, True]
    assert record.load() == HELD
    record.forget(["u" * 40])
    assert [place.exists() for place in places] == [False, False]
    assert record.load() == Index()
    record.forget([])


def test_one_snapshot_of_a_workspace_is_taken_at_a_time(
    record: ScanRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PATIENCE", 0.01)
    other = ScanRecord(tmp_path / "store", Path("/code"))
    with record.held():
        assert (record.folder / "lock").stat().st_mode & 0o777 == 0o600
        with refusal() as refused, other.held():
            raise AssertionError("it is held")
        with ScanRecord(tmp_path / "store", Path("/other")).held():
            pass
    assert str(refused.value) == "Another snapshot of this workspace takes too long"
    with other.held():
        pass


def test_several_are_in_a_store_and_one_who_takes_things_away_is_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PATIENCE", 0.01)
    with (
        open_store(tmp_path),
        open_store(tmp_path),
        refusal() as first,
        open_store(tmp_path, alone=True),
    ):
        raise AssertionError("others are there")
    with open_store(tmp_path, alone=True), refusal() as second, open_store(tmp_path):
        raise AssertionError("somebody is there alone")
    said = "The snapshot store is busy for too long"
    assert (str(first.value), str(second.value)) == (said, said)


def test_a_lock_says_what_it_was_told_to_say(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(scanning, "PATIENCE", 0.01)
    one, two = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        lock(one, "never said")
        with refusal() as refused:
            lock(two, "it is busy")
    finally:
        os.close(one)
    assert str(refused.value) == "it is busy"
    lock(two, "never said")
    os.close(two)


def test_the_time_is_that_of_the_folders_own_clock(tmp_path: Path) -> None:
    first = now_in(tmp_path)
    (tmp_path / "later").touch()

    assert (tmp_path / "stamp").stat().st_mode & 0o777 == 0o600
    assert first <= (tmp_path / "later").stat().st_mtime_ns
    assert now_in(tmp_path) >= first
