"""What a box is built of: its system calls, its folders, and what it refuses to be built around."""

import os
import platform
import socket
import struct
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import anyio
import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Sandbox
from gonogo.workspace.sandbox import bubblewrap
from gonogo.workspace.sandbox.bubblewrap import Box, Sign, WorkspaceCopy, filter_fd, sign_of

ALLOWED, NO_CALL, NO_FAMILY = 0x7FFF0000, 0x50000 | 38, 0x50000 | 97
MACHINES = {
    "x86_64": (0xC000003E, 41, [248, 249, 250, 298, 321, 323, 425]),
    "aarch64": (0xC00000B7, 198, [217, 218, 219, 241, 280, 282, 425]),
}
"""As the kernel numbers them: the architecture, `socket`, and the calls that no command gets."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    return root


def judged(program: bytes, arch: int, number: int, first: int = 0) -> int:
    """What the kernel makes of a system call by a filter."""
    steps = list(struct.iter_unpack("=HBBI", program))
    data = {0: number, 4: arch, 16: first}
    place = value = 0
    while True:
        code, met, unmet, operand = steps[place]
        place += 1
        match code:
            case 0x20:
                value = data[operand]
            case 0x15:
                place += met if value == operand else unmet
            case 0x35:
                place += met if value >= operand else unmet
            case 0x06:
                return operand
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_lets_through_what_the_box_divides_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: name)
    arch, opens, missing = MACHINES[name]
    with filter_fd() as given:
        assert given is not None
        program = os.read(given, 1 << 16)

    numbers = range(500)
    refused = [number for number in numbers if judged(program, arch, number, 1) != ALLOWED]
    families = [family for family in range(64) if judged(program, arch, opens, family) == ALLOWED]

    assert refused == missing
    assert {judged(program, arch, number) for number in missing} == {NO_CALL}
    assert families == [1, 2, 10, 16]
    assert judged(program, arch, opens, 17) == NO_FAMILY
    assert judged(program, arch, 0x3FFFFFFF) == ALLOWED
    assert judged(program, arch, 0x40000000) == NO_CALL
    assert judged(program, arch + 1, 0) == judged(program, arch - 1, 0) == NO_CALL


def test_on_a_machine_without_numbers_there_is_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with filter_fd() as given:
        assert given is None


def wrapped(box: Box, **more: object) -> list[str]:
    return Sandbox("/bin/bwrap", **more).wrap(["true", "x"], box)


def there(*folders: str) -> list[str]:
    """Those that this machine has."""
    return [each for each in folders if os.path.isdir(each) and not os.path.islink(each)]


def has(line: list[str], *words: str) -> bool:
    """Whether these words stand in a row."""
    return words in [tuple(line[n : n + len(words)]) for n in range(len(line))]


def test_a_box_begins_with_nothing_shared_and_ends_with_its_command(root: Path) -> None:
    box = Box(workspace=root, cwd=root / "sub")
    line = Sandbox("/bin/bwrap").wrap(["true", "x"], box, 9, {7: root / "a", 8: root / "b"})
    begin = (
        "/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
    )  # fmt: skip
    end = ("--dir", "/run/home", "--chdir", f"{root}/sub", "--", "true", "x")
    held = ("--ro-bind-data", "7", f"{root}/a", "--ro-bind-data", "8", f"{root}/b")

    assert tuple(line[: len(begin)]) == begin
    assert has(line, *held, "--seccomp", "9", *end)
    assert tuple(wrapped(box)[-len(end) :]) == end
    assert {"--seccomp", "--ro-bind-data"}.isdisjoint(wrapped(box))


def test_what_is_the_commands_own_is_of_the_size_that_was_given_and_the_rest_little(
    root: Path,
) -> None:
    line = wrapped(Box(workspace=root, cwd=root, temporary=5 << 20))
    usual = wrapped(Box(workspace=root, cwd=root))
    small = wrapped(Box(workspace=root, cwd=root, temporary=500))

    for own in there("/tmp", "/var/tmp", "/run", "/dev/shm"):  # noqa: S108
        assert has(line, "--size", str(5 << 20), "--tmpfs", own)
        assert has(usual, "--size", str(1 << 30), "--tmpfs", own)
        assert has(small, "--size", "500", "--tmpfs", own)
        assert not has(line, "--remount-ro", own)
    for other in there("/home", "/root", "/mnt", "/media", "/sys"):
        assert has(line, "--size", str(1 << 20), "--tmpfs", other)
        assert has(small, "--size", "500", "--tmpfs", other)
        assert has(line, "--remount-ro", other)
    assert has(line, "--remount-ro", "/dev")
    assert "--size" not in wrapped(Box(workspace=root, cwd=root), sizes=False)
    processors = ("/sys/devices/system/cpu",) * 2
    assert has(line, "--ro-bind-try", *processors)


def test_a_workspace_is_bound_as_it_may_be_written(root: Path, tmp_path: Path) -> None:
    copy = WorkspaceCopy(folder=tmp_path / "copy", left=(root / "big",))
    place = (str(root), str(root))

    written = wrapped(Box(workspace=root, cwd=root))
    read = wrapped(Box(workspace=root, cwd=root, read_only=True))
    copied = wrapped(Box(workspace=root, cwd=root, read_only=True, copy=copy))

    assert has(written, "--bind", *place)
    assert has(read, "--ro-bind", *place)
    assert not has(read, "--bind", *place)
    assert has(copied, "--bind", f"{tmp_path.resolve()}/copy", str(root))
    assert has(copied, "--ro-bind-try", f"{root}/big", f"{root}/big")
    assert copied.index(f"{root}/big") > copied.index(str(root))


def test_what_is_hidden_is_empty_and_cannot_be_filled(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").touch()
    hidden = (root / "folder", root / "file", root / "none")
    line = wrapped(Box(workspace=root, cwd=root, hidden=hidden))

    assert has(line, "--size", str(1 << 20), "--tmpfs", f"{root}/folder")
    assert has(line, "--remount-ro", f"{root}/folder")
    assert has(line, "--ro-bind", "/dev/null", f"{root}/file")
    assert f"{root}/none" not in line


def test_places_that_cannot_be_looked_at_are_left_out_and_the_box_is_built(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name that is too long fails as another user's folder does, and for the superuser too.
    closed = f"{root}/{'x' * 300}"
    listed = tmp_path / "unix"
    head = "Num       RefCount Protocol Flags    Type St Inode Path\n"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "s"))
        names = (f"{closed}/bus", str(root / "s"))
        listed.write_text(
            head + "".join(f"0: 00000002 00000000 00010000 0001 01 7 {name}\n" for name in names)
        )
        monkeypatch.setattr(bubblewrap, "_SOCKETS", listed)
        box = Box(workspace=root, cwd=root, hidden=(Path(closed),), search_path=f"{closed}:/bin")
        line = wrapped(box)

    assert has(line, "--ro-bind", "/dev/null", f"{root}/s")
    assert not any(closed in word for word in line)


def test_a_secret_that_is_not_shown_is_covered_and_a_folder_of_them_too(root: Path) -> None:
    (root / "secrets").mkdir()
    (root / ".env").touch()
    line = wrapped(Box(workspace=root, cwd=root, shown=lambda path: path == ".env"))
    none = wrapped(Box(workspace=root, cwd=root, shown=lambda path: False))

    assert f"{root}/.env" not in line
    assert has(line, "--tmpfs", f"{root}/secrets", "--remount-ro", f"{root}/secrets")
    assert has(none, "--ro-bind", "/dev/null", f"{root}/.env")


def test_mounts_stand_in_the_order_in_which_the_deeper_ones_hold(root: Path) -> None:
    (root / "a/b/.git").mkdir(parents=True)
    (root / ".git").mkdir()
    line = wrapped(Box(workspace=root, cwd=root))
    places = [str(root), f"{root}/.git", f"{root}/a/b/.git"]

    assert [line[line.index(place) - 1] for place in places] == ["--bind", *["--ro-bind-try"] * 2]
    assert all(line.index(one) < line.index(other) for one, other in pairwise(places))


def bound(root: Path, **more: object) -> set[str]:
    """What of a workspace is read-only in its box."""
    line = wrapped(Box(workspace=root, cwd=root, **more))
    places = [line[n + 1] for n, word in enumerate(line) if word == "--ro-bind-try"]
    return {each.removeprefix(f"{root}/") for each in places if each.startswith(f"{root}/")}


def test_where_git_writes_a_repository_is_open_but_for_what_git_obeys_in_it(root: Path) -> None:
    for path in (".git/hooks", ".git/objects/info", ".git/refs", "sub/.git/hooks"):
        (root / path).mkdir(parents=True)
    (root / ".git/config").touch()

    assert bound(root) == {".git", "sub/.git"}
    assert bound(root, writes_git=True) == {
        ".git/config", ".git/hooks", ".git/objects/info", "sub/.git",
    }  # fmt: skip


def test_our_own_programs_are_read_only_where_they_lie_in_the_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "deep/own").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", f"{root}/deep/own")

    assert bound(root) == {"deep/own"}


def test_the_home_of_who_runs_it_is_hidden_as_all_others_are(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(uid: int) -> NoReturn:
        raise KeyError(uid)

    (tmp_path / "me").mkdir()
    home = SimpleNamespace(pw_dir=str(tmp_path / "me"))
    for find, is_hidden in ((lambda uid: home, True), (nobody, False)):
        monkeypatch.setattr(bubblewrap.pwd, "getpwuid", find)
        line = wrapped(Box(workspace=root, cwd=root))
        assert has(line, "--tmpfs", str(tmp_path.resolve() / "me")) is is_hidden
        assert all(has(line, "--tmpfs", each) for each in there("/root", "/home"))
    home.pw_dir = "/"
    assert not has(wrapped(Box(workspace=root, cwd=root)), "--tmpfs", "/")


def test_of_many_installed_programs_the_upper_ones_are_bound(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a/b/.venv/bin", ".venv/bin", "c/.venv/bin"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setattr(bubblewrap, "BOUND_LIMIT", 2)
    line = wrapped(Box(workspace=root, cwd=root))

    shown = [each for each in line if each.startswith(f"{root}/") and each.endswith("/.venv/bin")]
    assert shown == [f"{root}/.venv/bin"] * 2 + [f"{root}/c/.venv/bin"] * 2


def test_programs_of_a_hidden_home_are_shown_and_no_home_is(root: Path, tmp_path: Path) -> None:
    home = tmp_path.resolve() / "home"
    for folder in ("tools/bin", "pyenv/shims"):
        (home / folder).mkdir(parents=True)
    path = f"{home}/tools/bin:{home}/pyenv/shims:{home}:{home}/none:relative:/usr/bin"
    line = wrapped(Box(workspace=root, cwd=root, hidden=(home,), search_path=path))

    shown = [line[n + 1] for n, word in enumerate(line) if word == "--ro-bind-try"]
    assert [each for each in shown if each.startswith(str(home))] == [
        f"{home}/pyenv", f"{home}/tools/bin",
    ]  # fmt: skip
    assert "/usr/bin" not in shown


def refusal(box: Box) -> tuple[str, str]:
    with pytest.raises(ToolFailed) as refused:
        box.guarded()
    return refused.value.kind, str(refused.value)


def test_what_a_box_cannot_guard_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b", "c"):
        (root / folder / ".git").mkdir(parents=True)
    box = Box(workspace=root, cwd=root)

    monkeypatch.setattr(bubblewrap, "MOST_BOUND", 3)
    assert [path.parent.name for path in box.guarded().protected] == ["a", "b", "c"]
    monkeypatch.setattr(bubblewrap, "MOST_BOUND", 2)
    assert refusal(box) == (
        "too_many_files",
        "The workspace has more than 2 protected names, such as .git; open a smaller folder",
    )  # fmt: skip
    monkeypatch.setattr("gonogo.workspace.sandbox.guards.SCAN_LIMIT", 4)
    assert refusal(box) == (
        "too_many_files",
        "The workspace has more than 100000 files, too many to find those that need protection; "
        "open a smaller folder",
    )  # fmt: skip


def program(folder: Path, script: str) -> Path:
    """A bubblewrap that writes down its tries."""
    found = folder / "bwrap"
    found.write_text(f"#!/bin/sh\necho x >>{folder}/tries\n{script}\n")
    found.chmod(0o755)
    return found


@pytest.mark.parametrize(
    ("script", "works", "tries"),
    [
        ("exit 42", {"sizes": True}, 1),
        ('case "$*" in *--size*) exit 1 ;; esac; exit 42', {"sizes": False}, 11),
        ("exit 0", None, 20),
        ("[ $(wc -l </{0}/tries) -ge 3 ] && exit 42", {"sizes": True}, 3),
    ],
)
def test_a_bubblewrap_is_taken_where_it_works_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, works: dict | None, tries: int
) -> None:
    found = program(tmp_path, script.replace("{0}", str(tmp_path)))
    monkeypatch.setattr(bubblewrap, "find_program", lambda name: str(found))

    assert Sandbox.detect() == (works and Sandbox(str(found), **works))
    assert len((tmp_path / "tries").read_text().split()) == tries


def test_without_a_bubblewrap_there_is_no_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_program", lambda name: None)

    assert Sandbox.detect() is None


async def answer(sent: bytes) -> tuple[bool, bytes]:
    """Whether a command began that asked so, and what it was told."""
    with sign_of(boxed=True) as sign:
        assert sign is not None
        with socket.socket(fileno=os.dup(sign.fds[0])) as theirs:
            theirs.setblocking(False)
            sign.spawned()
            theirs.sendall(sent)
            theirs.shutdown(socket.SHUT_WR)
            with anyio.fail_after(60):
                await sign.answer()
            try:
                return sign.given, theirs.recv(8)
            except BlockingIOError:
                return sign.given, b""


async def test_a_command_begins_when_it_asks_and_is_answered() -> None:
    assert [await answer(sent) for sent in (b".", b"?", b"")] == [
        (True, b"!"), (False, b""), (False, b""),
    ]  # fmt: skip


def test_a_sign_is_closed_with_its_block_and_there_is_none_without_a_box() -> None:
    with sign_of(boxed=False) as none:
        assert none is None
    with sign_of(boxed=True) as sign:
        assert isinstance(sign, Sign)
        assert not sign.given
        [theirs] = sign.fds
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(theirs)
