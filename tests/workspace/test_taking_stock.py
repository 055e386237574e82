"""How what a command takes is counted: of its box's processes, and of the disk."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from gonogo.workspace import Ceilings
from gonogo.workspace.sandbox import command
from gonogo.workspace.sandbox.bubblewrap import Box
from gonogo.workspace.sandbox.command import Disk, Space, _environment, _held, _named, _written

LEADER, OURS, ITS = 10, "pid:[1]", "pid:[5]"
PAGES_A_MIB = (1 << 20) // os.sysconf("SC_PAGE_SIZE")
PLAIN = {
    "PATH": "/opt/bin:/bin",
    "HOME": "/run/home",
    "TMPDIR": "/tmp",  # noqa: S108
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GONOGO_COMMAND": "m",
}


class Machine:
    """Processes as /proc shows them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.add("self", OURS)
        self.add(str(LEADER), OURS)

    def add(
        self, name: str, space: str, *, threads: int = 1, pages: int = 0, share: int | None = None
    ) -> None:
        place = self.folder / name
        (place / "ns").mkdir(parents=True)
        (place / "ns/pid").symlink_to(space)
        words = ["S", *("9" for _ in range(16)), str(threads), "8"]
        (place / "stat").write_text(f"{name} (a 1) b) {' '.join(words)}\n")
        (place / "statm").write_text(f"7 {pages} 6\n")
        if share is not None:
            (place / "smaps_rollup").write_text(f"Rss: 9 kB\nPss:  {share} kB\nPss_Dirty: 9 kB\n")

    def children(self, *pids: int, of: int = LEADER) -> None:
        place = self.folder / f"{of}/task/{of}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "children").write_text(" ".join(map(str, pids)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(command, "_PROC", tmp_path / "proc")
    return Machine(tmp_path / "proc")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "ws").mkdir()
    return Disk(tmp_path / "ws")


def over(disk: Disk, *, boxed: bool = True, **ceilings: int) -> str | None:
    return Ceilings(**ceilings)._over(LEADER, disk, boxed)


def test_the_processes_of_a_box_are_those_of_its_first_childs_space(machine: Machine) -> None:
    assert command._inside(LEADER) == []
    machine.children()
    assert command._inside(LEADER) == []
    machine.children(11, 12)
    assert command._inside(LEADER) == []
    machine.add("11", ITS)
    machine.add("12", OURS)
    machine.add("13", ITS)
    machine.add("14", "pid:[55]")
    assert sorted(path.name for path in command._inside(LEADER)) == ["11", "13"]
    machine.children(12)
    assert command._inside(LEADER) == []


def test_the_box_of_a_keeper_is_found_though_the_keeper_has_other_children(
    machine: Machine,
) -> None:
    machine.add("11", OURS)
    machine.add("12", OURS)
    machine.add("13", ITS)
    machine.children(9, 11, 12)
    machine.children(of=11)
    machine.children(13, of=12)
    assert [path.name for path in command._inside(LEADER)] == ["13"]


def test_threads_are_counted_up_to_the_limit(machine: Machine, disk: Disk) -> None:
    machine.children(11)
    machine.add("11", ITS, threads=4)
    machine.add("12", ITS, threads=3)
    machine.add("13", OURS, threads=100)

    assert over(disk, processes=7) is None
    assert over(disk, processes=6) == "processes"
    assert over(disk, processes=6, boxed=False) is None


def test_memory_is_that_of_all_processes_and_what_they_share_counts_once(
    machine: Machine, disk: Disk
) -> None:
    machine.children(11)
    machine.add("11", ITS, pages=PAGES_A_MIB - 1, share=1024)
    machine.add("12", ITS, pages=1)
    assert over(disk, memory=1) is None
    machine.add("13", ITS, pages=1, share=0)
    assert over(disk, memory=1) is None
    machine.add("14", ITS, share=1)
    assert over(disk, memory=1) == "memory"
    assert over(disk, memory=2) is None


def test_what_cannot_be_read_of_a_process_counts_as_nothing(machine: Machine) -> None:
    place = machine.folder / "20"
    place.mkdir()
    (place / "stat").write_text("20 (a) S")
    (place / "statm").write_text("7 x")

    assert command._number(place / "stat", 17) == 0
    assert command._number(place / "statm", 1, shell=False) == 0
    assert command._number(place / "none", 1) == 0
    assert command._share(place) == 0


def test_the_limits_are_said_to_the_shell_in_its_units() -> None:
    limits = Ceilings(processes=2, memory=3, file=4, open_files=5)

    assert limits.ulimits == "-c 0\n-n 5\n-u 2\n-d 3072\n-f 4096"


def test_space_is_passed_where_one_part_of_it_is() -> None:
    space = Space(5, 7)

    assert (space + Space(1, 2), space - Space(1, 2)) == (Space(6, 9), Space(4, 5))
    assert not space.passes(Space(5, 7))
    assert space.passes(Space(4, 7))
    assert space.passes(Space(5, 6))


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_files_that_were_written_since_are_counted_once_whatever_their_names(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    files = [tmp_path / "a", tmp_path / "sub/b"]
    for path in files:
        path.write_bytes(os.urandom(10_000))
    os.link(files[0], tmp_path / "sub/c")
    os.sync()

    assert _written(tmp_path, 0) == Space(sum(map(blocks, files)), 2)
    assert _written(tmp_path, files[1].stat().st_ctime_ns).files in (1, 2)
    assert _written(tmp_path, time.time_ns() + 10**12) == Space(0, 0)


def test_of_files_that_are_open_those_without_a_name_are_counted(tmp_path: Path) -> None:
    own = Path("/proc/self")
    before = _held([own])
    with tempfile.TemporaryFile(dir=tmp_path) as file, (tmp_path / "named").open("wb") as named:
        for each in (file, named):
            each.write(os.urandom(10_000))
            each.flush()
            os.fsync(each.fileno())
        size = os.fstat(file.fileno()).st_blocks * 512
        other = os.dup(file.fileno())
        after = _held([own, tmp_path / "none", own])
        os.close(other)

    assert after - before == Space(size, 1)


def test_a_disk_has_lost_too_much_only_past_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [Space(1_000, 100)]
    written = [Space(0, 0)]
    monkeypatch.setattr(command, "_free", lambda folder: free[0])
    monkeypatch.setattr(command, "_written", lambda folder, since: written[0])
    disk = Disk(tmp_path)

    free[0], written[0] = Space(900, 100), Space(101, 0)
    assert not disk.is_over(100)
    free[0] = Space(899, 100)
    assert disk.is_over(100)
    written[0] = Space(100, 0)
    assert not disk.is_over(100)
    # One byte is somebody else's from now on.
    free[0], written[0] = Space(899, 100), Space(200, 0)
    assert not disk.is_over(100)
    free[0] = Space(898, 100)
    assert disk.is_over(100)
    # More than twice as much nobody else takes.
    free[0], written[0] = Space(800, 100), Space(0, 0)
    assert not disk.is_over(100)
    free[0] = Space(599, 100)
    assert disk.is_over(100)


@pytest.mark.parametrize(
    ("box", "networked", "more"),
    [
        ({}, False, {}),
        ({"read_only": True}, False, {"GIT_CEILING_DIRECTORIES": "/w"}),
        (
            {"writes_git": True}, False,
            {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
             "GIT_ATTR_NOSYSTEM": "1"},
        ),
        (
            {}, True,
            {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1",
             "NODE_USE_ENV_PROXY": "1"},
        ),
    ],
)  # fmt: skip
def test_a_command_has_just_this_environment(
    box: dict[str, bool], networked: bool, more: dict[str, str]
) -> None:
    place = Path("/w/ws")
    of = Box(workspace=place, cwd=place, search_path="/opt/bin:/bin", **box)

    assert _environment(of, "/run/home", "m", networked=networked) == PLAIN | more
    assert _environment(of, "/h", "m", networked=networked) == (
        PLAIN | more | {"HOME": "/h", "TMPDIR": "/h"}
    )


def test_a_name_that_is_a_programs_is_told_to_the_shell_with_its_place() -> None:
    programs = {
        "tool": "/usr/bin/a tool", "own": "/ws/bin/own", "a b": "/x", "$x": "/x", "near": "/wsx/y",
    }  # fmt: skip

    assert _named(programs, Path("/ws")) == (
        "hash -p '/usr/bin/a tool' tool; own() { /ws/bin/own \"$@\"; }; hash -p /wsx/y near; "
    )
