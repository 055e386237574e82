"""A command takes no more of the machine than it may, however hard it tries."""

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from fakes.disk import own_disk
from gonogo.workspace import Ceilings, CommandOutput, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox import command
from gonogo.workspace.sandbox.command import Disk, Space

BUBBLEWRAP = Sandbox.detect()
pytestmark = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace of whose disk no other test takes anything, or gives it back."""
    with own_disk(tmp_path / "ws", megabytes=600) as folder:
        yield Workspace(folder)


def lay(path: Path, mebibytes: int) -> None:
    """A file, with its place on the disk."""
    with path.open("wb") as file:
        file.write(os.urandom(mebibytes << 20))
        file.flush()
        os.fsync(file.fileno())


def long_ago(folder: Path) -> None:
    """Wait until what is there counts as written before."""
    began = max(path.stat().st_ctime for path in folder.iterdir())
    while time.time() < began + 2.6:
        time.sleep(0.05)


async def run(workspace: Workspace, script: str, **ceilings: int) -> CommandOutput:
    with anyio.fail_after(90):
        return await run_command(
            workspace, script, cwd=None, timeout=60, sandbox=BUBBLEWRAP,
            ceilings=Ceilings(**ceilings),
        )  # fmt: skip


async def test_a_fork_bomb_ends_and_nothing_of_it_is_left(workspace: Workspace) -> None:
    token = f"bomb-{secrets.token_hex(6)}"
    # It grows by one and the other: a machine of others is not to suffer when the limit fails.
    script = f"while :; do (exec -a {token} sleep 100) & done 2>/dev/null"

    done = await run(workspace, script, processes=150)

    assert done.over == "processes" or "Resource temporarily unavailable" in done.output
    assert not done.timed_out
    assert done.exit_code != 0
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if token in _text(path)]  # noqa: ASYNC240
    assert left == []


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


async def test_processes_that_together_take_too_much_memory_are_ended(
    workspace: Workspace,
) -> None:
    hold = "python3 -c 'import time; x = b\"x\" * (40 << 20); print(1, flush=True); time.sleep(50)'"

    done = await run(workspace, f"for n in 1 2 3 4 5; do {hold} & done; wait", memory=120)

    assert done.over == "memory"
    assert done.exit_code == 137


async def test_one_process_gets_no_more_memory_than_it_may(workspace: Workspace) -> None:
    done = await run(workspace, "python3 -c 'x = bytearray(400 << 20)'", memory=200)

    assert "MemoryError" in done.output


async def test_the_commands_own_folders_and_files_are_bounded(workspace: Workspace) -> None:
    fill = "; ".join(
        f"head -c 20M /dev/zero >{path}/full; stat -c %s {path}/full"
        for path in ("/tmp", "/dev/shm", "$HOME", "/var/tmp")  # noqa: S108
    )

    done = await run(workspace, f"{fill}; head -c 20M /dev/zero >big; stat -c %s big",
                     temporary=2, file=3)  # fmt: skip

    sizes = [int(line) for line in done.output.splitlines() if line.isdigit()]
    assert sizes == [2 << 20, 2 << 20, 2 << 20, 2 << 20, 3 << 20]


async def test_hidden_folders_and_devices_cannot_be_filled(workspace: Workspace) -> None:
    done = await run(workspace, "touch /home/x /root/x /dev/x /sys/x; echo y >/dev/null && echo ok")

    assert done.output.count("Read-only file system") == 4
    assert done.output.endswith("ok\n")


async def test_what_namespaces_do_not_divide_is_not_there(workspace: Workspace) -> None:
    script = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
def errno(*arguments):
    return ctypes.get_errno() if libc.syscall(*arguments) < 0 else 0
print([errno(number, 0, 0, 0, 0) for number in (248, 249, 250, 321, 323, 298, 425)])
for family in (40, 38, 31, 17):
    try: socket.socket(family, socket.SOCK_DGRAM); print("open")
    except OSError as error: print(error.errno)
socket.socketpair(); socket.socket(); socket.socket(socket.AF_INET6); print("usual")
"""
    workspace.write("try.py", script.encode(), base=None)

    done = await run(workspace, "uname -m; python3 try.py")

    machine, calls, *families, usual = done.output.splitlines()
    if machine == "x86_64":
        assert calls == str([38] * 7)
    assert families == ["97"] * 4
    assert usual == "usual"


async def test_files_that_together_take_too_much_of_the_disk_end_the_command(
    alone: Workspace,
) -> None:
    # It waits for its end, however late it is looked at.
    write = "for n in $(seq 400); do head -c 1M /dev/urandom >f$n; done; sleep 50; echo all"

    done = await run(alone, write, disk=40, file=2)

    assert done.over == "disk"
    assert "all" not in done.output


@pytest.mark.parametrize("sandbox", [None, BUBBLEWRAP], ids=["plain", "boxed"])
async def test_files_without_a_name_count_as_well(
    alone: Workspace, sandbox: Sandbox | None
) -> None:
    hold = (
        "import os, time\n"
        "for n in range(30):\n"
        "    fd = os.open(f'f{n}', os.O_CREAT | os.O_RDWR); os.unlink(f'f{n}')\n"
        "    os.write(fd, os.urandom(8 << 20))\n"
        "time.sleep(50)"
    )
    with anyio.fail_after(90):
        done = await run_command(
            alone, f'exec python3 -c "{hold}"', cwd=None, timeout=40, sandbox=sandbox,
            ceilings=Ceilings(disk=60),
        )  # fmt: skip

    assert done.over == "disk"


def test_what_others_take_of_the_disk_is_not_held_against_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = Space(100 << 20, 100)
    monkeypatch.setattr(command, "_free", lambda folder: free)
    lay(tmp_path / "old", 8)
    long_ago(tmp_path)
    disk = Disk(tmp_path)

    free -= Space(6 << 20, 1)
    assert not disk.is_over(4 << 20)
    lay(tmp_path / "ours", 5)
    free -= Space(5 << 20, 1)
    assert disk.is_over(4 << 20)


def test_what_nobody_can_account_for_is_held_against_it_in_the_end(alone: Workspace) -> None:
    (alone.root / "ws").mkdir()
    disk = Disk(alone.root / "ws")
    lay(alone.root / "hidden", 12)

    assert disk.is_over(4 << 20)
