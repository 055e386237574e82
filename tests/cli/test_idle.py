"""When the process in the background ends: nothing runs, nobody is there, nothing is due soon."""

import os
import signal
import sys
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from fakes.until import LIMIT
from gonogo.cli.daemon import (
    RuntimeLink,
    _alone,
    answers,
    facts_of_this,
    has_left,
    leaves,
    minimal,
    other_keys,
    runs_in_background,
    silent,
    stay_while_needed,
)
from gonogo.cli.folder import Folder
from gonogo.settings import Settings

MINUTE = timedelta(minutes=1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path / "home")
    found.prepare()
    return found


class Runtime:
    """A runtime that is idle or not, with something due after a time or never."""

    def __init__(self, *, idle: bool = True, due: timedelta | None = None) -> None:
        self.is_idle, self.looks = idle, 0
        self._due = due
        self.maintenance = self

    async def next_due(self) -> datetime | None:
        self.looks += 1
        return None if self._due is None else datetime.now(UTC) + self._due


async def stays(folder: Folder, runtime: Any, linger: float, seconds: float) -> bool:
    """Whether the process is still there after a time; where it left, nobody comes in any more."""
    with ExitStack() as last:
        with anyio.move_on_after(seconds):
            await stay_while_needed(folder, runtime, linger, last)
            with folder.visited() as inside:
                assert not inside
            return False
    with folder.visited() as inside:
        assert inside
    return True


@pytest.mark.parametrize(
    ("runtime", "linger", "is_there"),
    [
        (Runtime(), 0, False),
        (Runtime(), 60, True),
        (Runtime(idle=False), 0, True),
        (Runtime(due=9 * MINUTE), 0, True),
        (Runtime(due=-9 * MINUTE), 0, True),
        (Runtime(due=11 * MINUTE), 0, False),
    ],
)
async def test_it_leaves_when_it_is_idle_for_long_enough_and_nothing_is_due_soon(
    folder, runtime, linger, is_there
):
    assert await stays(folder, runtime, linger, 0.5 if is_there else LIMIT) is is_there


async def test_it_lingers_as_long_as_it_is_told_to(folder):
    began = anyio.current_time()
    assert not await stays(folder, Runtime(), 0.3, LIMIT)
    assert anyio.current_time() - began >= 0.3


async def test_it_stays_for_its_guests(folder):
    with folder.visited() as inside:
        assert inside
        assert await stays(folder, Runtime(), 0, 0.3)
    assert not await stays(folder, Runtime(), 0, LIMIT)


@pytest.mark.parametrize(
    ("number", "runtime", "is_there"),
    [
        (signal.SIGUSR1, Runtime(due=MINUTE), False),
        (signal.SIGUSR1, Runtime(idle=False), True),
        (signal.SIGHUP, Runtime(), True),
    ],
)
async def test_asked_to_it_leaves_at_once_if_it_is_idle_and_a_closed_window_is_nothing_to_it(
    folder, number, runtime, is_there
):
    found: list[bool] = []

    async def stay() -> None:
        found.append(await stays(folder, runtime, 600, 0.4 if is_there else LIMIT))

    async with anyio.create_task_group() as group:
        group.start_soon(stay)
        await anyio.wait_all_tasks_blocked()
        os.kill(os.getpid(), number)
    assert found == [is_there]


HOLD = """
import pathlib, signal, sys
from gonogo.cli.daemon import facts_of_this
from gonogo.cli.folder import Folder
folder = Folder(pathlib.Path(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
with folder.owned():
    folder.write_facts(facts_of_this(sys.argv[2]))
    print("there", flush=True)
    signal.sigwait({signal.SIGUSR1})
"""


@pytest.mark.parametrize(("kind", "left"), [("background", True), ("server", False)])
async def test_a_process_in_the_background_is_asked_to_leave_and_no_other_is(folder, kind, left):
    assert await leaves(folder)
    command = [sys.executable, "-c", HOLD, str(folder.home), kind]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    async with await anyio.open_process(command, env=env) as owner:
        assert owner.stdout is not None
        assert await BufferedByteReceiveStream(owner.stdout).receive_until(b"\n", 9) == b"there"
        assert not await has_left(folder, 0.1)
        assert await leaves(folder) is left
        if not left:
            owner.kill()
    assert await has_left(folder, 0.1)
    assert await leaves(folder)


async def test_an_owner_answers_once_it_listens_and_has_left_a_token(folder):
    assert not await answers(folder)
    folder.socket.touch()
    assert not await answers(folder)
    folder.write_token("secret")
    assert not await answers(folder)
    folder.socket.unlink()
    assert not await answers(folder)
    async with await anyio.create_unix_listener(folder.socket):
        assert await answers(folder)
        folder.token_file.unlink()
        assert not await answers(folder)


def test_an_owner_that_does_not_answer_is_named(folder):
    with folder.owned():
        said = str(silent(folder))
    assert said == (
        f"Process {os.getpid()} uses {folder.home} and does not answer; wait for it to end, or end"
        f" it with: kill {os.getpid()}"
    )


def test_what_a_process_says_of_itself_is_read_back_without_its_keys(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("GONOGO_MODEL_API_KEY", "sk-2")
    monkeypatch.setenv("GONOGO_OPENAI_BASE_URL", "http://x")
    monkeypatch.setenv("GONOGO_RECORD", "tape")
    before = datetime.now(UTC)
    facts = facts_of_this("command")
    folder.write_facts(facts)

    assert folder.read_facts() == facts
    assert (facts.pid, facts.kind, len(facts.salt)) == (os.getpid(), "command", 32)
    assert before <= facts.since <= datetime.now(UTC)
    assert {
        "OPENAI_API_KEY",
        "GONOGO_MODEL_API_KEY",
        "GONOGO_OPENAI_BASE_URL",
        "GONOGO_RECORD",
    } <= {*facts.keys}
    assert all(len(digest) == 64 for digest in facts.keys.values())
    assert facts_of_this("command").keys != facts.keys
    assert other_keys(facts) == []
    monkeypatch.setenv("OPENAI_API_KEY", "sk-3")
    monkeypatch.setenv("GONOGO_RECORD", "other")
    monkeypatch.delenv("GONOGO_MODEL_API_KEY")
    assert other_keys(facts) == ["GONOGO_RECORD", "OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("variables", "settings", "door", "runs"),
    [
        ({}, {}, True, True),
        ({}, {}, False, False),
        ({"CI": "1"}, {}, True, False),
        ({"CI": ""}, {}, True, True),
        ({}, {"background": True}, False, True),
        ({"CI": "1"}, {"background": True}, False, True),
        ({}, {"background": False}, True, False),
        ({}, {"db": "postgresql://x/y", "background": True}, True, False),
        ({}, {"db": "sqlite:////x", "background": True}, False, True),
    ],
)
def test_work_is_done_in_the_background_where_that_is_of_use(
    monkeypatch, tmp_path, variables, settings, door, runs
):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("GONOGO_BACKGROUND", raising=False)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert runs_in_background(Settings(home=tmp_path, **settings), door=door) is runs


@pytest.mark.parametrize(("terminal", "runs"), [(0, True), (1, True), (2, True), (3, False)])
def test_a_command_at_a_terminal_leaves_its_work_to_the_background(
    monkeypatch, tmp_path, terminal, runs
):
    for name in ("CI", "GONOGO_BACKGROUND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "isatty", lambda number: number == terminal)
    assert runs_in_background(Settings(home=tmp_path)) is runs


KEPT = (
    "PATH HOME USER LOGNAME SHELL TZ LANG LANGUAGE TMPDIR PYTHONPATH PYTHONUNBUFFERED VIRTUAL_ENV "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    "http_proxy https_proxy all_proxy no_proxy ENABLE_AUTO_REPLANNING LC_ALL XDG_DATA_HOME "
    "AUTO_REPLANNING_MAX AWS_REGION AZURE_X GOOGLE_X OTEL_X GONOGO_X A9_API_KEY B_BASE_URL C_TOKEN "
    "OPENAI_ORG named_in_mcp named_in_hooks named_in_models"
).split()
LEFT = "EDITOR API_KEY a_API_KEY A_API_KEYS XOPENAI_ORG GONOGO_UNATTENDED GONOGO_WORKSPACE".split()


def test_each_kind_of_variable_is_kept_and_no_other(tmp_path):
    for name in ("mcp", "hooks", "models"):
        (tmp_path / f"{name}.toml").write_text(f'é = "named_in_{name} GONOGO_WORKSPACE"')
    settings = Settings(home=tmp_path / "home", config=tmp_path)
    given = {name: f"of {name}" for name in [*KEPT, *LEFT]}

    kept = minimal(given | {"GONOGO_HOME": "elsewhere"}, settings)
    assert kept == {name: f"of {name}" for name in KEPT} | {"GONOGO_HOME": str(tmp_path / "home")}
    (tmp_path / "mcp.toml").write_bytes(b"named_in_mcp \xff")
    assert "named_in_mcp" not in minimal(given, settings)
    nothing = SimpleNamespace(
        mcp_file=tmp_path / "none", hooks_file=tmp_path, models_file=tmp_path / "none", home="/h"
    )
    assert minimal({"a": "b"}, nothing) == {"GONOGO_HOME": "/h"}  # type: ignore[arg-type]


class Gone(Exception):
    """What a command ended with."""


async def test_a_command_that_fails_stays_for_those_that_work_through_it(folder, monkeypatch):
    monkeypatch.setattr("gonogo.cli.daemon.owning", lambda *_: nullcontext(RuntimeLink(None, None)))
    ended = anyio.Event()

    async def fail() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with _alone(folder, Settings(), looks=False):
                raise Gone
        assert caught.group_contains(Gone)
        ended.set()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            with folder.visited() as inside:
                assert inside
                group.start_soon(fail)
                await anyio.wait_all_tasks_blocked()
                assert not ended.is_set()
            await ended.wait()
