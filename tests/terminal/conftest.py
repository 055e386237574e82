"""Panes of a real tmux, in which commands run as a person runs them."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fakes.nursery import python
from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.template import lay_out

LIMIT = 60.0
"""Seconds; it only guards against hanging."""
GLANCE = 0.05
GONOGO = f"{shlex.quote(sys.executable)} -m gonogo"
_SERVER = f"gonogo-{os.getpid()}"


def tmux(*words: str) -> str:
    done = subprocess.run(
        ["tmux", "-L", _SERVER, "-f", os.devnull, *words],
        env=python(), capture_output=True, text=True, check=True, timeout=LIMIT,
    )  # fmt: skip
    return done.stdout


class Pane:
    """One terminal with a shell in it."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name, self.env = name, env

    def begin(self, *words: str, term: str = "screen") -> None:
        """Run a gonogo command on a clean screen; its code is shown when it ends."""
        # In one line: a shell that is told more before it asks writes its prompts between the rest.
        self.line(f"clear; TERM={term} {GONOGO} {shlex.join(words)}; echo CODE=$?")

    def line(self, text: str) -> None:
        self.type(text)
        self.keys("Enter")

    def type(self, text: str) -> None:
        tmux("send-keys", "-t", self.name, "-l", text)

    def keys(self, *names: str) -> None:
        tmux("send-keys", "-t", self.name, *names)

    def resize(self, width: int) -> None:
        tmux("resize-window", "-t", self.name, "-x", str(width), "-y", "30")

    @property
    def screen(self) -> str:
        """What is seen now."""
        return tmux("capture-pane", "-p", "-t", self.name)

    @property
    def all(self) -> str:
        """What has been seen, broken lines made whole."""
        return tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self.name)

    def broken_by_it(self, after: str) -> list[str]:
        """The lines that the terminal has broken itself, wherever that was, from a text on."""
        rows, whole = (
            tmux("capture-pane", "-p", *how, "-S", "-", "-t", self.name) for how in ((), ("-J",))
        )
        kept = {line.rstrip() for line in rows.split("\n")}
        lines = [line.rstrip() for line in whole[whole.index(after) :].split("\n")]
        return [line for line in lines if line not in kept]

    def shows(self, text: str) -> str:
        """Wait until a text is seen; gives the screen with it."""
        return self.until(lambda seen: text in seen, text)

    def prompts(self) -> str:
        """Wait until a message may be written."""
        return self.until(lambda seen: seen.rstrip().endswith("\n>"), "a prompt")

    def until(self, holds: Callable[[str], object], what: str) -> str:
        last = time.monotonic() + LIMIT
        while not holds(seen := tmux("capture-pane", "-p", "-J", "-t", self.name)):
            assert time.monotonic() < last, f"no {what!r} in:\n{self.all}"
            time.sleep(GLANCE)
        return seen

    def terminate(self) -> None:
        """Send SIGTERM to what runs in it."""
        shell = tmux("display-message", "-p", "-t", self.name, "#{pane_pid}").strip()
        children = Path("/proc", shell, "task", shell, "children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)

    def is_as_it_was(self) -> bool:
        """Whether the shell has lines, and shows what is typed."""
        self.line("stty -a | grep -c -e '-icanon' -e '-echo ' | sed s/^/RAW=/")
        return "RAW=0" in self.until(lambda seen: "RAW=0" in seen or "RAW=1" in seen, "RAW=")


@pytest.fixture(scope="module")
def model() -> Iterator[FakeOpenAI]:
    with fake_openai() as server:
        yield server


@pytest.fixture(scope="module")
def _tmux() -> Iterator[None]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    # A server lives as long as it has a session.
    tmux("-u", "new-session", "-d", "-s", "idle", "cat")
    yield
    tmux("kill-server")


@pytest.fixture
def pane(_tmux: None, model: FakeOpenAI, tmp_path: Path) -> Iterator[Callable[..., Pane]]:
    """Open a pane whose commands have a state folder of their own, and the scripted model."""
    home = tmp_path / "home"
    lay_out(home)
    opened: list[str] = []

    def opening(width: int = 80, cwd: Path = tmp_path, **more: str) -> Pane:
        name = f"{tmp_path.name}-{len(opened)}"
        opened.append(name)
        variables = _environment(home, model.base_url) | more
        given = [word for pair in variables.items() for word in ("-e", "=".join(pair))]
        size = ("-x", str(width), "-y", "30")
        tmux("-u", "new-session", "-d", "-s", name, *size, "-c", str(cwd), *given, "sh")
        return Pane(name, variables)

    yield opening
    for name in opened:
        tmux("kill-session", "-t", name)


def _environment(home: Path, base_url: str) -> Mapping[str, str]:
    return python() | {
        "GONOGO_HOME": str(home), "GONOGO_CONFIG": str(home / "no-config"),
        "GONOGO_MODEL": "openai:scripted", "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "x",
        "GONOGO_BACKGROUND": "false", "LANG": "C.UTF-8", "PS1": "$ ", "ENV": "",
    }  # fmt: skip
