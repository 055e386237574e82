"""A box is built of what stands on the machine: what goes meanwhile has it built anew.

The command itself never runs twice, and whether it ran is not for it to say.
"""

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import CommandOutput, Network, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox.bubblewrap import TRIES, Sign

BUBBLEWRAP = Sandbox.detect()
pytestmark = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
LIMIT = 120
MEDDLER = """#!/bin/sh
echo x >> {tries}
if [ $(wc -l < {tries}) -le {times} ]; then {harm}; fi
exec {program} "$@"
"""
"""A bubblewrap before which something on the machine changes, so many times."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


@pytest.fixture
def outside() -> Iterator[Path]:
    """The name of a socket that a box would show."""
    path = Path(f"/var/lib/gonogo-{secrets.token_hex(4)}.sock")
    yield path
    path.unlink(missing_ok=True)


def listens(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


class Meddled:
    """A sandbox whose machine changes between the look at it and the building of the box."""

    def __init__(self, folder: Path, harm: str, times: int) -> None:
        self.tries = folder / "tries"
        program = folder / "bwrap"
        program.write_text(
            MEDDLER.format(tries=self.tries, times=times, harm=harm, program=BUBBLEWRAP.program)
        )
        program.chmod(0o755)
        self.sandbox = Sandbox(str(program))

    @property
    def built(self) -> int:
        return len(self.tries.read_text().split())


async def run(workspace: Workspace, script: str, **more) -> CommandOutput:
    settings = {"cwd": None, "timeout": LIMIT, "sandbox": BUBBLEWRAP, **more}
    with anyio.fail_after(LIMIT):
        return await run_command(workspace, script, **settings)


@pytest.mark.parametrize("reached", [None, Network(hosts=True)], ids=["alone", "networked"])
async def test_a_socket_that_goes_while_the_box_is_built_has_it_built_anew(
    workspace: Workspace, tmp_path: Path, outside: Path, reached: Network | None
) -> None:
    meddled = Meddled(tmp_path, f"rm {outside}", 1)

    with closing(listens(outside)):
        done = await run(
            workspace, "echo ran >> log; cat log", sandbox=meddled.sandbox, network=reached
        )

    assert (done.exit_code, done.output, meddled.built) == (0, "ran\n", 2)


async def test_a_hidden_file_that_becomes_a_folder_meanwhile_is_hidden_as_one(
    workspace: Workspace, tmp_path: Path
) -> None:
    hidden = workspace.root / "key"
    hidden.write_text("CANARY")
    meddled = Meddled(tmp_path, f"rm {hidden}; mkdir {hidden}; echo CANARY > {hidden}/key", 1)

    done = await run(workspace, "cat key key/key", sandbox=meddled.sandbox, hidden=[hidden])

    assert "CANARY" not in done.output
    assert meddled.built == 2


async def test_a_box_that_cannot_be_built_is_no_end_of_the_command(
    workspace: Workspace, tmp_path: Path
) -> None:
    meddled = Meddled(tmp_path, "echo no such box >&2; exit 1", 1_000)

    with pytest.raises(
        ToolFailed, match=r"^The command cannot be started: no such box$"
    ) as failure:
        await run(workspace, "touch ran", sandbox=meddled.sandbox)

    assert failure.value.kind == "io_error"
    assert meddled.built == TRIES
    assert workspace.stat("ran") is None


@pytest.mark.parametrize(
    "end", ["exit 1", "exit 126", "kill -9 $$", "echo 'bwrap: nothing' >&2; exit 1", "exec 3>&- 1"]
)
async def test_a_command_that_began_is_not_run_again_however_it_ends(
    workspace: Workspace, tmp_path: Path, end: str
) -> None:
    meddled = Meddled(tmp_path, ":", 0)

    await run(workspace, f"echo ran >> log; {end}", sandbox=meddled.sandbox)

    assert (workspace.read("log"), meddled.built) == (b"ran\n", 1)


async def test_a_command_holds_nothing_by_which_it_could_say_whether_it_began(
    workspace: Workspace,
) -> None:
    plain = await run(workspace, "ls /proc/self/fd", sandbox=None)
    boxed = await run(workspace, "ls /proc/self/fd")

    assert boxed.output == plain.output


@contextmanager
def coming_and_going(paths: list[Path]) -> Iterator[None]:
    """Sockets that come and go all the time."""
    over = threading.Event()

    def churn() -> None:
        for number in range(1_000_000):
            path = paths[number % len(paths)]
            with closing(listens(path)):
                over.wait(0.005)
            path.unlink()
            if over.wait(0.02):
                return

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def test_sockets_that_come_and_go_keep_no_command_from_running_once(
    workspace: Workspace, outside: Path
) -> None:
    paths = [outside.with_suffix(f".{number}") for number in range(3)]

    with coming_and_going(paths):
        assert Sandbox.detect() == BUBBLEWRAP
        for number in range(20):
            done = await run(workspace, f"echo {number} >> log; tail -n1 log")
            assert (done.exit_code, done.output) == (0, f"{number}\n")

    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
    assert workspace.read("log").split() == [b"%d" % number for number in range(20)]


async def test_a_command_that_nobody_lets_begin_does_not_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(sign: Sign) -> None:
        del sign
        await anyio.sleep_forever()

    monkeypatch.setattr(Sign, "answer", silent)
    with anyio.fail_after(LIMIT):
        result = await run_command(workspace, "touch up", cwd=None, timeout=2, sandbox=BUBBLEWRAP)

    assert result.timed_out
    assert workspace.stat("up") is None


def found(folder: Path, name: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(name)]


@pytest.mark.parametrize(
    ("harm", "ran"), [("ln -s other way", []), ("cp -r other way", ["way/ws/made"])]
)
async def test_a_command_begins_in_no_box_of_another_folder_than_its_workspace(
    tmp_path: Path, harm: str, ran: list[str]
) -> None:
    for name in ("way", "other"):
        (tmp_path / name / "ws").mkdir(parents=True)
    (tmp_path / "way/ws/kept").touch()
    workspace = Workspace(tmp_path / "way/ws")
    meddled = Meddled(tmp_path, f"cd {tmp_path} && mv way gone && {harm}", 1)
    kind = None
    try:
        # Where another folder lies at the same path, it is looked at anew before.
        await run(workspace, "test -e kept || touch made", sandbox=meddled.sandbox)
    except ToolFailed as failure:
        kind = failure.kind
    assert found(tmp_path, "made") == ran
    assert (kind, meddled.built) == ((None, 2) if ran else ("symlink_escape", 1))
