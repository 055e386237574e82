"""The workspace promises that no path leaves it, that files change in one step and only from what
they were expected to hold, and that all this is true with and without the kernel's help."""

import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Query, Snapshots, Workspace
from gonogo.workspace.files import safe_open
from gonogo.workspace.files.safe_open import (
    best_opener,
    exchange,
    open_by_kernel,
    open_by_walk,
    told,
)

OPENERS = [open_by_walk, *([open_by_kernel] if best_opener() is open_by_kernel else [])]


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Workspace:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("CANARY")
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws", opener=request.param)


def refused(kind: str, why: str | None = None):
    return pytest.raises(ToolFailed, match=why, check=lambda failure: failure.kind == kind)


def test_a_file_is_written_with_its_missing_folders_and_read_back(workspace: Workspace) -> None:
    workspace.write("a/b/c.txt", b"one", base=None)

    assert workspace.read("a/b/c.txt") == b"one"
    assert workspace.hash("a/b/c.txt") == content_hash(b"one")


def test_nothing_is_left_beside_a_written_file(workspace: Workspace) -> None:
    workspace.write("f", b"one", base=None)
    workspace.write("f", b"two", base=content_hash(b"one"))
    with refused("changed_since_approval"):
        workspace.write("f", b"three", base=content_hash(b"one"))

    assert os.listdir(workspace.root) == ["f"]


def test_two_names_change_places_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert exchange(folder, "one", "two")
    finally:
        os.close(folder)
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["two", "one"]


def test_a_write_keeps_the_mode_of_the_file(workspace: Workspace) -> None:
    script = workspace.root / "run.sh"
    script.write_text("one")
    script.chmod(0o751)

    workspace.write("run.sh", b"two", base="any")

    assert stat.S_IMODE(script.stat().st_mode) == 0o751


def test_a_new_file_has_the_usual_mode(workspace: Workspace) -> None:
    (workspace.root / "usual").write_text("")
    workspace.write("f", b"", base=None)

    assert (workspace.root / "f").stat().st_mode == (workspace.root / "usual").stat().st_mode


def test_a_write_is_refused_when_the_file_is_not_as_expected(workspace: Workspace) -> None:
    workspace.write("f", b"one", base=None)

    with refused("changed_since_approval", "'f' was created after it was approved$"):
        workspace.write("f", b"two", base=None)
    with refused("changed_since_approval", "'f' has changed since it was approved$"):
        workspace.write("f", b"two", base=content_hash(b"else"))
    with refused("changed_since_approval", "'gone' was deleted after it was approved$"):
        workspace.write("gone", b"two", base=content_hash(b"one"))
    assert workspace.read("f") == b"one"


def test_writers_of_one_file_from_one_base_do_not_overwrite_each_other(
    workspace: Workspace,
) -> None:
    workspace.write("f", b"base", base=None)
    base = workspace.hash("f")
    wins: list[bytes] = []

    def write(data: bytes) -> None:
        try:
            workspace.write("f", data, base=base)
        except ToolFailed as failure:
            assert failure.kind == "changed_since_approval"  # noqa: PT017 - one of them wins
        else:
            wins.append(data)

    threads = [threading.Thread(target=write, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [workspace.read("f")] == wins


def in_the_last_instant(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody act once before a new file takes the place of another or of nothing."""
    acts = [act]

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            while acts:
                acts.pop()()
            return real(*arguments)

        return call

    for name in ("exchange", "rename_new"):
        monkeypatch.setattr(safe_open, name, before(getattr(safe_open, name)))


@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "without swapping"])
def test_what_somebody_does_to_a_file_in_the_last_instant_is_not_undone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, swaps: bool
) -> None:
    place = workspace.root / "f"
    moments = [
        (b"one", lambda: place.write_bytes(b"person"), "has changed since"),
        (b"one", place.unlink, "was deleted after" if swaps else "has changed since"),
        (None, lambda: place.write_bytes(b"person"), "was created after"),
    ]
    if not swaps:
        monkeypatch.setattr(safe_open, "exchange", lambda *_: False)
    for held, act, fact in moments:
        place.unlink(missing_ok=True)
        if held is not None:
            place.write_bytes(held)
        base = workspace.hash("f")
        with monkeypatch.context() as patched:
            in_the_last_instant(patched, act)
            with refused("changed_since_approval", f"'f' {fact} it was approved$"):
                workspace.write("f", b"two", base=base)
        left = {path.name: path.read_bytes() for path in workspace.root.iterdir()}
        assert left == ({} if act == place.unlink else {"f": b"person"})


OLD, NEW = b"old", b"new"


@pytest.mark.parametrize(
    ("now", "before", "stay"),
    [(OLD, OLD, set()), (NEW, OLD, {"new", "odd"}), (None, None, set()), (NEW, None, None)],
    ids=["unwritten", "written", "not yet made", "made"],
)
def test_of_what_a_killed_write_left_only_that_goes_which_is_certainly_no_persons(
    workspace: Workspace, now: bytes | None, before: bytes | None, stay: set[str] | None
) -> None:
    beside = safe_open._beside("f")
    left = {f"{beside}{name}.tmp": name.encode() for name in ("old", "new", "odd")}
    others = {
        f"{beside}old": OLD, f"{safe_open._beside('g')}old.tmp": OLD, "old.tmp": OLD, "g": OLD,
        **({} if now is None else {"f": now}),
    }  # fmt: skip
    for name, data in {**left, **others}.items():
        (workspace.root / name).write_bytes(data)

    workspace.clear("f", before=None if before is None else content_hash(before))

    kept = {name: data for name, data in left.items() if stay is None or data.decode() in stay}
    found = {path.name: path.read_bytes() for path in workspace.root.iterdir()}
    assert found == {**others, **kept}


def test_a_link_inside_is_followed_for_reading_and_not_for_writing(workspace: Workspace) -> None:
    workspace.write("real/f", b"one", base=None)
    (workspace.root / "link").symlink_to("real")

    assert workspace.real("link/f") == "real/f"
    assert workspace.read("link/f") == b"one"
    with refused("symlink_escape"):
        workspace.read("link/f", follow=False)
    with refused("symlink_escape"):
        workspace.write("link/f", b"two", base="any")
    with refused("symlink_escape"):
        workspace.mkdir("link/deeper")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("../outside", "link/secret.txt"),
        ("../outside/secret.txt", "link"),
        ("a/../../outside/secret.txt", "link"),
        ("/etc/passwd", "link"),
        ("/proc/self/root/etc/passwd", "link"),
        ("link", "link/x"),
    ],
)
def test_a_link_that_leads_out_is_refused_for_everything(
    workspace: Workspace, target: str, asked: str
) -> None:
    (workspace.root / "a").mkdir()
    (workspace.root / "link").symlink_to(target)

    for attempt in (
        lambda: workspace.real(asked),
        lambda: workspace.read(asked),
        lambda: workspace.hash(asked),
        lambda: workspace.write(asked, b"", base="any"),
        lambda: workspace.delete(asked, base="any"),
        lambda: workspace.move(asked, "new", base="any"),
        lambda: workspace.list(asked, depth=1, limit=10),
    ):
        with refused("symlink_escape"):
            attempt()
    assert (workspace.root / "../outside/secret.txt").read_text() == "CANARY"


@pytest.mark.parametrize("link", ["up", "up/ws"])
@pytest.mark.parametrize("opener", OPENERS)
def test_a_link_that_has_come_on_the_way_to_the_folder_leads_nobody_out(
    opener: safe_open.Opener, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_open, "best_opener", lambda: opener)
    for name in ("up/ws", "outside/ws"):
        (tmp_path / name).mkdir(parents=True)
    outside = tmp_path / "outside/ws"
    (outside / "f").write_text("CANARY")
    workspace, snapshots = Workspace(tmp_path / "up/ws"), Snapshots(tmp_path / "store")
    (tmp_path / link).rename(tmp_path / "aside")
    (tmp_path / link).symlink_to(tmp_path / link.replace("up", "outside"))

    for act in (
        lambda: workspace.read("f"),
        lambda: workspace.hash("f"),
        lambda: workspace.stat("f"),
        lambda: workspace.list(".", depth=1, limit=9),
        lambda: workspace.search(Query(pattern="CANARY")),
        lambda: workspace.write("f", b"x", base="any"),
        lambda: workspace.write("new", b"x", base=None),
        lambda: workspace.delete("f", base="any"),
        lambda: workspace.move("f", "g", base="any"),
        lambda: workspace.mkdir("folder"),
        lambda: snapshots.take(workspace),
        lambda: snapshots.hold(workspace, "f"),
        lambda: snapshots.plan_restore(workspace, {"f": None}, {"f": content_hash(b"CANARY")}),
        lambda: Workspace(tmp_path / "up/ws"),
    ):
        with refused("symlink_escape", "goes through a symbolic link now; put the folder back"):
            act()
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("f", "CANARY")]


def test_dots_after_a_link_are_refused_because_they_mean_two_things(workspace: Workspace) -> None:
    (workspace.root / "real/deep").mkdir(parents=True)
    (workspace.root / "d").symlink_to("real/deep")
    workspace.write("f", b"", base=None)

    with refused("symlink_escape"):
        workspace.read("d/../f")


def test_special_files_and_second_names_are_refused(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "hard").hardlink_to(workspace.root / "../outside/secret.txt")

    for path, kind in (("pipe", "not_a_regular_file"), ("hard", "hardlink")):
        with refused(kind):
            workspace.read(path)
        with refused(kind):
            workspace.write(path, b"", base="any")
        with refused(kind):
            workspace.delete(path, base="any")


def test_a_folder_is_no_file_and_a_file_is_no_folder(workspace: Workspace) -> None:
    workspace.write("a/f", b"", base=None)

    for attempt in (
        lambda: workspace.read("a"),
        lambda: workspace.write("a", b"", base="any"),
        lambda: workspace.write("a/f/below", b"", base=None),
        lambda: workspace.delete("a", base="any"),
        lambda: workspace.list("a/f", depth=1, limit=1),
        lambda: workspace.read("."),
        lambda: workspace.read("a/f/"),
        lambda: workspace.real_file("."),
        lambda: workspace.write(".", b"", base="any"),
    ):
        with refused("not_a_regular_file"):
            attempt()


def test_protected_files_are_never_changed_even_where_there_are_none(workspace: Workspace) -> None:
    workspace.write("f", b"", base=None)

    for attempt in (
        lambda: workspace.write(".git/hooks/pre-commit", b"", base=None),
        lambda: workspace.write("sub/.GIT/config", b"", base=None),
        lambda: workspace.write(".bashrc", b"", base=None),
        lambda: workspace.mkdir(".gonogo"),
        lambda: workspace.move("f", ".git/f", base="any"),
        lambda: workspace.delete(".git/config", base="any"),
    ):
        with refused("protected_path"):
            attempt()
    assert os.listdir(workspace.root) == ["f"]


def test_what_a_person_may_allow_is_not_denied(workspace: Workspace) -> None:
    workspace.write("Makefile", b"all:", base=None)

    assert workspace.read("Makefile") == b"all:"


def test_a_file_is_deleted_only_as_expected(workspace: Workspace) -> None:
    workspace.write("f", b"one", base=None)

    with refused("changed_since_approval"):
        workspace.delete("f", base=content_hash(b"else"))
    workspace.delete("f", base=content_hash(b"one"))
    with refused("file_not_found"):
        workspace.delete("f", base="any")


def test_a_move_replaces_nothing(workspace: Workspace) -> None:
    workspace.write("f", b"one", base=None)
    workspace.write("g", b"two", base=None)

    with refused("file_exists"):
        workspace.move("f", "g", base="any")
    workspace.move("f", "new/place/f", base=content_hash(b"one"))

    assert workspace.read("new/place/f") == b"one"
    assert workspace.hash("f") is None


def test_a_folder_is_made_once(workspace: Workspace) -> None:
    assert workspace.mkdir("a/b") is True
    assert workspace.mkdir("a/b") is False


def test_a_file_over_the_limit_is_not_read(workspace: Workspace) -> None:
    workspace.write("f", b"12345", base=None)

    assert workspace.read("f", limit=5) == b"12345"
    with refused("too_large"):
        workspace.read("f", limit=4)


def test_a_file_that_grows_while_it_is_read_is_over_the_limit_all_the_same() -> None:
    # Its size is said to be 0, as that of a file that somebody is only beginning to write.
    descriptor = os.open("/proc/self/status", os.O_RDONLY)
    try:
        with refused("too_large", "more than 100 bytes"):
            safe_open.read_all(descriptor, "f", 100)
    finally:
        os.close(descriptor)


def test_a_change_while_another_takes_too_long_says_that_the_workspace_is_locked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gonogo.workspace.files.workspace.LOCK_PATIENCE", 0.01)
    other = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with refused("io_error", "The workspace is locked by another change"):
            workspace.write("f", b"one", base=None)
    finally:
        os.close(other)
    workspace.write("f", b"one", base=None)


def test_a_folder_in_the_place_of_a_file_is_said_to_be_one(workspace: Workspace) -> None:
    workspace.mkdir("d")
    with pytest.raises(ToolFailed, match="'d' is a folder"), told("d"):
        (workspace.root / "d").read_bytes()


def test_status_is_told_without_following(workspace: Workspace) -> None:
    workspace.write("f", b"123", base=None)
    (workspace.root / "link").symlink_to("/etc/passwd")

    assert workspace.stat("nothing/at/all") is None
    assert (file := workspace.stat("f")) is not None
    assert (file.kind, file.size) == ("file", 3)
    assert (link := workspace.stat("link")) is not None
    assert link.kind == "link"
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "f").chmod(0o4751)
    (workspace.root / "d").mkdir(mode=0o700)
    found = [workspace.stat(path) for path in ("f", "d", "pipe")]
    assert [each and each.kind for each in found] == ["file", "folder", "other"]
    assert [each and each.mode for each in found[:2]] == [0o4751, 0o700]


@pytest.mark.parametrize(
    "path",
    [
        *("a\0b", "a\nb", "a\x1bb", "a\u202eb", "a\u200bb", "\u2066a", "a\ufe0f", "\ud800"),
        *("a\u2028b", "a\u2029b"),
        *("a\u034f", "\u180ba", "\ufffc", "a\U0001d159"),
        *("..\uff0fx", "\u2024\u2024/x", ".git::$DATA"),
        *("x" * 256, "x" * 5_000, "d/" * 101 + "x"),
    ],
)
def test_names_that_mislead_are_refused_before_the_disk_is_asked(
    workspace: Workspace, path: str
) -> None:
    with refused("bad_path"):
        workspace.normal(path)


@pytest.mark.parametrize("path", [".", "./", "src/.."])
def test_the_root_of_the_workspace_is_no_file_to_change(workspace: Workspace, path: str) -> None:
    for change in (
        lambda: workspace.write(path, b"x", base="any"),
        lambda: workspace.delete(path, base="any"),
        lambda: workspace.move(path, "elsewhere", base="any"),
    ):
        with pytest.raises(ToolFailed, match="The root of the workspace cannot be changed") as told:
            change()
        assert told.value.kind == "not_a_regular_file"


@pytest.mark.parametrize(
    "path", ["a b", "план.md", "日本.txt", "~x", "%2e%2e", "C:x", "...", "..x"]
)
def test_ordinary_names_are_taken_as_they_are(workspace: Workspace, path: str) -> None:
    assert workspace.normal(path) == path


def test_an_absolute_path_inside_is_the_same_as_its_relative_form(workspace: Workspace) -> None:
    assert workspace.normal(f"{workspace.root}/a/b") == "a/b"
    assert workspace.normal(str(workspace.root)) == "."
    with refused("path_outside_workspace"):
        workspace.normal(f"{workspace.root}-evil/a")


NAMES = st.sampled_from(["a", "b", "..", ".", "", "link", "out", "file"])


@given(parts=st.lists(NAMES, max_size=8), lead=st.sampled_from(["", "/", "./"]))
def test_whatever_the_path_nothing_outside_is_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], lead: str
) -> None:
    top = tmp_path_factory.getbasetemp() / "property"
    if not top.exists():
        (top / "ws/a/b").mkdir(parents=True)
        (top / "file").write_text("CANARY")
        (top / "ws/a/file").write_text("inside")
        (top / "ws/link").symlink_to("a/b")
        (top / "ws/a/b/link").symlink_to("../..")
        (top / "ws/out").symlink_to("..")
    workspaces = [Workspace(top / "ws", opener=opener) for opener in OPENERS]

    answers = {attempt(workspace, lead + "/".join(parts)) for workspace in workspaces}

    assert len(answers) == 1
    assert b"CANARY" not in answers


def attempt(workspace: Workspace, path: str) -> bytes | str:
    try:
        return workspace.read(path)
    except ToolFailed as failure:
        return failure.kind


@given(path=st.text(max_size=40))
def test_a_normal_path_is_relative_and_stays_itself(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    workspace = Workspace(tmp_path_factory.getbasetemp())
    try:
        normal = workspace.normal(path)
    except ToolFailed:
        return

    assert workspace.normal(normal) == normal
    assert not normal.startswith("/")
    assert ".." not in normal.split("/")
