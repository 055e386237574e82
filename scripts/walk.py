"""Follow two messages through the code, and count what they pass.

A pair is a package of `gonogo` that calls into another. `gonogo.execution` has rooms of its own, so
pairs are counted a second time with each of them apart; a call is upward where the layers of
pyproject.toml put the room that is called above the one that calls. What an event loop or a thread
calls is called by nobody.
"""

import argparse
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

import anyio

from gonogo.llm.scripted import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from rooms import room_of
from talk import calls, plan_of, say

ROOT = Path(__file__).resolve().parent.parent
SOURCES = f"{ROOT / 'src' / 'gonogo'}/"
SUBTASK = {"id": "a", "description": "Do a", "agent": "coder", "scope": {"paths": ["a.txt"]}}
LINES = {
    **plan_of(SUBTASK),
    "a": [calls("write_file", path="a.txt", content="made"), {"text": "Made."}],
}


def _room(file: str) -> str:
    return room_of(PurePath(file).relative_to(SOURCES))


def _package(room: str) -> str:
    return room.partition("/")[0]


def heights() -> dict[str, int]:
    """How high each room lies, by the layers that imports keep to."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [each["layers"] for each in contracts["contracts"] if each["type"] == "layers"]
    inner = {"execution": [f"execution/{name}" for name in _names(layers[1])]}
    found: dict[str, int] = {}
    for layer in reversed(layers[0]):
        for name in _names([layer]):
            for room in reversed(inner.get(name, [name])):
                found[room] = len(found)
    return found


def _names(layers: list[str]) -> list[str]:
    return [name.strip(" ()") for layer in layers for name in layer.split("|")]


class Walk:
    """What is passed while it is on."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], None] = {}
        self.pairs = Counter[tuple[str, str]]()
        self._on = False

    @contextmanager
    def on(self) -> Generator[None]:
        """Watch for the time of the block."""
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def see(self, frame: FrameType, event: str, _: Any) -> None:  # noqa: ANN401
        """What `sys.setprofile` calls."""
        code = frame.f_code
        if not (self._on and event == "call" and code.co_filename.startswith(SOURCES)):
            return
        self.functions.setdefault((code.co_filename, code.co_qualname))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCES):
            caller = caller.f_back
        if caller is not None:
            pair = _room(caller.f_code.co_filename), _room(code.co_filename)
            if pair[0] != pair[1]:
                self.pairs[pair] += 1

    def tell(self, name: str, *, listed: bool) -> None:
        """Print what was passed."""
        files = list(dict.fromkeys(file for file, _ in self.functions))
        rooms, height = {_room(file) for file in files}, heights()
        upward = [pair for pair in self.pairs if height.get(pair[0], 0) < height.get(pair[1], 0)]
        packages = {_package(low) for low in rooms}
        pairs = {(_package(low), _package(high)) for low, high in self.pairs}
        between = {(low, high) for low, high in pairs if low != high}
        print(
            f"{name}: {len(self.functions)} functions, {len(files)} files,"
            f" {len(packages)} packages, {len(between)} pairs"
        )
        print(
            f"  with the rooms of execution apart: {len(rooms)} rooms, {len(self.pairs)} pairs,"
            f" {len(upward)} of them upward"
        )
        for low, high in sorted(upward):
            print(f"  upward: {low} calls {high}, {self.pairs[low, high]} times")
        for file in files if listed else ():
            print(f"  {file.removeprefix(SOURCES)}")


async def walked() -> tuple[Walk, Walk]:
    """A message to its plan; its approval to the end."""
    message, approval = Walk(), Walk()

    def see(frame: FrameType, event: str, given: Any) -> None:  # noqa: ANN401
        message.see(frame, event, given)
        approval.see(frame, event, given)

    threading.setprofile(see)
    sys.setprofile(see)
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        settings = Settings(home=Path(folder, "home"), workspace=Path(folder))
        async with Runtime.open(settings, model=ScriptedModel(LINES)) as runtime:
            with message.on():
                told = (await say(runtime, None, type="user_message", content="Build it"))[-1]
            session, plan = told["session_id"], told["plan_id"]
            with approval.on():
                await say(runtime, session, type="plan_decision", plan_id=plan, decision="approve")
    sys.setprofile(None)
    threading.setprofile(None)
    return message, approval


def main() -> None:
    """Walk, and tell."""
    parser = argparse.ArgumentParser(prog="scripts/walk")
    parser.add_argument("--list", action="store_true", help="name the files, in their order")
    listed = parser.parse_args().list
    message, approval = anyio.run(walked)
    message.tell("a message to its plan", listed=listed)
    approval.tell("an approval to the end of a subtask", listed=listed)


if __name__ == "__main__":
    main()
