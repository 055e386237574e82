"""The processes of one command: which they are, what they say, and that all of them end."""

import os
import signal
import sys
from pathlib import Path
from subprocess import Popen

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import DEFAULT_PATH, Programs, bound_process
from gonogo.workspace.sandbox import process
from gonogo.workspace.sandbox.process import Sink, find_program, kill_group, kill_marked, lifeline

LEADER = 77


def sunk(cap: int, *chunks: bytes) -> tuple[str, bool]:
    sink = Sink(cap)
    for chunk in chunks:
        sink.add(chunk)
    return sink.text(), sink.truncated


@pytest.mark.parametrize(
    ("cap", "chunks", "said"),
    [
        (10, [b"12345", b"67890"], ("1234567890", False)),
        (10, [b"1234567890x"], ("12345\n[… 1 bytes left out …]\n7890x", True)),
        (10, [b"123", b"456", b"7890", b"xy"], ("12345\n[… 2 bytes left out …]\n890xy", True)),
        (10, [b"x" * 5, b"a" * 50, b"b" * 5], ("xxxxx\n[… 50 bytes left out …]\nbbbbb", True)),
        (5, [b"12345"], ("12\n[… 1 bytes left out …]\n45", True)),
        (0, [b"abc"], ("a\n[… 1 bytes left out …]\nc", True)),
        (4, ["éé".encode()], ("éé", False)),
        (6, ["éééé".encode()], ("é\ufffd\n[… 2 bytes left out …]\n\ufffdé", True)),
        (4, [b"\xff"], ("\ufffd", False)),
    ],
)
def test_of_output_the_first_and_the_last_half_are_kept_and_the_rest_counted(
    cap: int, chunks: list[bytes], said: tuple[str, bool]
) -> None:
    assert sunk(cap, *chunks) == said


def listed(folder: Path, pid: int, stat: str, environ: str | None = "") -> None:
    """A process as /proc shows it."""
    place = folder / str(pid)
    place.mkdir(parents=True)
    (place / "stat").write_text(f"{pid} ({stat}")
    if environ is not None:
        (place / "environ").write_text(environ)


def test_to_a_command_belongs_what_is_of_its_session_or_has_its_mark_and_is_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path)
    listed(tmp_path, 1, "leader) S 9 77 77 0")
    listed(tmp_path, 2, "odd) 1 2 3 4) S 9 5 77 0")
    listed(tmp_path, 3, "dead) Z 9 77 77 0", "GONOGO_COMMAND=m")
    listed(tmp_path, 4, "gone) X 9 77 77 0", "GONOGO_COMMAND=m")
    listed(tmp_path, 5, "runaway) R 1 5 5 0", "A=b\0GONOGO_COMMAND=m\0C=d")
    listed(tmp_path, 6, "other) S 77 77 6 0", "GONOGO_COMMAND=mm\0X_GONOGO_COMMAND=m")
    listed(tmp_path, 7, "hidden) S 1 7 7 0", None)
    listed(tmp_path, 8, "")
    listed(tmp_path, os.getpid(), "us) S 9 77 77 0", "GONOGO_COMMAND=m")
    (tmp_path / "self").mkdir()

    assert sorted(process._members(LEADER, "m")) == [1, 2, 5]


def test_where_there_is_no_proc_a_command_is_its_group_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path / "none")
    with Popen(["sleep", "300"], start_new_session=True) as sleeper:
        kill_marked(sleeper.pid, "m")
        assert sleeper.wait(60) == -signal.SIGKILL
    kill_group(sleeper.pid)


def test_what_left_the_group_is_found_by_its_mark() -> None:
    environment = {"PATH": DEFAULT_PATH, process.MARK: f"mark-{os.getpid()}"}
    with (
        Popen(["sleep", "300"], start_new_session=True) as leader,
        Popen(["sleep", "300"], start_new_session=True, env=environment) as runaway,
        Popen(["sleep", "300"], start_new_session=True) as stranger,
    ):
        kill_marked(leader.pid, environment[process.MARK])
        assert [leader.wait(60), runaway.wait(60)] == [-signal.SIGKILL] * 2
        assert stranger.poll() is None
        stranger.kill()


def test_a_lifeline_is_cut_when_its_block_ends_and_the_keeper_holds_the_one_end() -> None:
    with lifeline() as line:
        [theirs] = line.fds
        keeper = Path(process.__file__).with_name("keeper.py").read_text("utf-8")
        assert line.kept(["a", "b"]) == [
            str(Path(sys.executable).resolve()), "-I", "-S", "-c", keeper, str(theirs), "0",
            "a", "b",
        ]  # fmt: skip
        copy = os.dup(theirs)
        os.set_blocking(copy, False)
        line.spawned()
        line.spawned()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(theirs)
        with pytest.raises(BlockingIOError):
            os.read(copy, 1)
    assert os.read(copy, 1) == b""
    os.close(copy)


def test_only_a_box_that_another_machine_may_take_over_is_kept_by_a_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with lifeline() as alone, lifeline(lambda: True) as shared:
        shell = shared.kept(["a"], boxed=True)
        assert shell[:1] == [find_program("bash")]
        assert shell[-3:] == [str(shared.fds[0]), "3.5", "a"]
        assert alone.kept(["a"], boxed=True)[1:3] == shared.kept(["a"])[1:3] == ["-I", "-S"]
        monkeypatch.setattr(process, "find_program", lambda _: None)
        assert shared.kept(["a"], boxed=True)[1:3] == ["-I", "-S"]


def test_programs_are_found_on_the_systems_path_and_beside_the_interpreter() -> None:
    assert (
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:"
        f"{Path(sys.executable).parent}"
    ) == DEFAULT_PATH
    assert find_program("sh") in {"/usr/bin/sh", "/bin/sh"}
    assert find_program("sh", "/nowhere") is None


def test_what_an_agent_may_install_is_no_helper_of_ours() -> None:
    assert find_program("pytest", DEFAULT_PATH) is not None
    assert find_program("pytest") is None


def test_where_agents_write_is_no_place_of_the_machines_once_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    programs = Programs(path=f"{tmp_path}/later:/usr/bin")

    before = programs.elsewhere(tmp_path / "ws")
    programs.know(tmp_path)

    assert (before, programs.elsewhere(tmp_path / "ws")) == (
        f"{tmp_path}/later:/usr/bin", "/usr/bin",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "environment", "folder", "said"),
    [
        (["sh"], {}, ".", "There is no program 'sh' on its PATH"),
        (["sh"], {"PATH": "/nowhere"}, ".", "There is no program 'sh' on its PATH"),
        (["sh"], {"PATH": "/bin"}, "none",
         "'/bin/sh' cannot be started: [Errno 2] No such file or directory: '{}/none'"),
        (["sh", "a\0b"], {"PATH": "/bin"}, ".",
         "'/bin/sh' cannot be started: embedded null byte"),
    ],
)  # fmt: skip
async def test_a_program_that_cannot_be_started_is_told_with_the_reason(
    tmp_path: Path, argv: list[str], environment: dict[str, str], folder: str, said: str
) -> None:
    with pytest.raises(ToolFailed) as failed:
        async with bound_process(argv, environment, tmp_path / folder):
            pass

    assert (failed.value.kind, str(failed.value)) == ("io_error", said.format(tmp_path))
