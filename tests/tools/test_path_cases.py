"""The tools keep to the workspace: every case of cases/paths.jsonl, on real files.

A case is played as the runtime plays a call: the arguments are read, the call is prepared, what
the case changes meanwhile is changed, and the call runs. `deny` is any refusal, `ask` what needs a
person's look, `allow` what needs none.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.domain.paths import is_secret, write_guard
from gonogo.domain.tool_calls import ToolClass
from gonogo.tools import Bench, Prepared, builtin_tools
from gonogo.workspace import Workspace
from gonogo.workspace.files.safe_open import exchange

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "paths.jsonl").read_text().splitlines()
]
TOOLS = builtin_tools()
CANARIES = ("CANARY-OUTSIDE", "CANARY-SECRET")
DEFAULTS: dict[str, dict[str, Any]] = {
    "write_file": {"content": "written\n"},
    "edit_file": {"old": "v1", "new": "v3"},
    "search_in_code": {"pattern": "x"},
}
MEANWHILE = {"race_swap", "race_write", "race_create"}


@dataclass
class Stage:
    """A case's own file system: `/` is a temporary folder, `/ws` the workspace in it."""

    top: Path

    @property
    def workspace(self) -> Path:
        return self.top / "ws"

    def place(self, path: str) -> Path:
        return self.top / path.lstrip("/") if path.startswith("/") else self.workspace / path

    def asked(self, path: str) -> str:
        inside = path.lstrip("/").startswith(("outside", "ws/", "ws-evil"))
        return f"{self.top}{path}" if path.startswith("/") and inside else path

    def do(self, op: dict[str, Any]) -> None:
        path = self.place(op["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        if op["op"] in ("race_swap", "race_create"):
            if path.exists():
                path.rename(path.with_name("moved-away"))
            op = {**op, **op["to"]}
        acts: dict[str, Callable[[], Any]] = {
            "file": lambda: path.write_text(op["content"]),
            "race_write": lambda: path.write_text(op["content"]),
            "bytes": lambda: path.write_bytes(bytes.fromhex(op["hex"])),
            "mkdir": lambda: path.mkdir(parents=True, exist_ok=True),
            "symlink": lambda: path.symlink_to(self._target(op["target"])),
            "hardlink": lambda: path.hardlink_to(self.place(op["target"])),
            "fifo": lambda: os.mkfifo(path),
            "sparse": lambda: self._large(path, op["size"]),
            "bigline": lambda: self._large(path, op["size"]),
        }
        acts[op["op"]]()

    def _large(self, path: Path, size: int) -> None:
        with path.open("wb") as file:
            file.write(b"x" * 100_000)
            file.truncate(size)

    def _target(self, target: str) -> str:
        return str(self.place(target)) if target.startswith("/") else target


def arguments_of(case: dict[str, Any], stage: Stage) -> dict[str, Any]:
    if case["tool"] == "execute_command":
        return {"command": case["path"], "cwd": "w"}
    path = json.loads(case["raw_json"])["path"] if "raw_json" in case else case["path"]
    if isinstance(path, dict):
        text, times = path["$repeat"]
        path = text * times
    return {**DEFAULTS.get(case["tool"], {}), **case.get("args", {}), "path": stage.asked(path)}


async def play(case: dict[str, Any], stage: Stage) -> tuple[str, str | None, Any]:
    """The outcome, the kind of a refusal, and the result of a call that ran."""
    tool, workspace = TOOLS[case["tool"]], Workspace(stage.workspace)
    try:
        prepared = tool.prepare(workspace, tool.parse(arguments_of(case, stage)))
        for op in case["setup"]:
            if op["op"] in MEANWHILE:
                stage.do(op)
        outcome = needs_a_look(case["tool"], prepared)
        if is_secret_read(prepared):
            return outcome, None, None
        bench = Bench(workspace=workspace, base_hashes=prepared.base_hashes)
        assert tool.run is not None
        return outcome, None, await tool.run(bench, tool.parse(prepared.arguments))
    except (ToolFailed, InvalidArguments) as refusal:
        return "deny", getattr(refusal, "kind", "invalid_arguments"), str(refusal)


def is_secret_read(prepared: Prepared) -> bool:
    return any(map(is_secret, prepared.access.reads))


def needs_a_look(tool: str, prepared: Prepared) -> str:
    access = prepared.access
    guarded = any(write_guard(path) for path in (*access.writes, *access.deletes))
    pure = TOOLS[tool].tool_class is ToolClass.PURE
    return "ask" if guarded or is_secret_read(prepared) or not pure else "allow"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    (tmp_path / "ws").mkdir()
    return Stage(tmp_path)


def test_the_cases_are_all_here() -> None:
    assert len(CASES) >= 113


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["id"] != "P086"], ids=lambda case: case["id"]
)
async def test_a_case_ends_as_it_must(case: dict[str, Any], stage: Stage) -> None:
    for op in case["setup"]:
        if op["op"] not in MEANWHILE:
            stage.do(op)

    with anyio.fail_after(60):
        outcome, kind, result = await play(case, stage)

    assert outcome in {case["expect"], *case["also_ok"]}, (kind, result)
    if outcome == "deny" == case["expect"] and not case["also_ok"] and "error" in case:
        assert kind in {case["error"], *ALSO.get(case["id"], ())}
    told = json.dumps(result)
    assert not any(canary in told for canary in CANARIES)
    assert "\x1b" not in told
    check_outside(stage)
    check_must_hold(case, stage)


ALSO = {
    # A read has no base that was approved: what is there now is named.
    "P092": ("not_a_regular_file",),
    # Arguments that no schema takes.
    "P231": ("invalid_arguments",),
}


def check_outside(stage: Stage) -> None:
    outside = stage.top / "outside"
    if not outside.exists():
        return
    assert {path.name for path in outside.iterdir()} <= {"secret.txt", "deep"}
    assert (outside / "secret.txt").read_text() == "CANARY-OUTSIDE\n"


def check_must_hold(case: dict[str, Any], stage: Stage) -> None:
    match case["id"]:
        case "P087":
            assert (stage.workspace / "src/app.py").read_text() == "v2\n"
        case "P114":
            assert (stage.workspace / "src/a").exists()
        case "P122":
            assert (stage.workspace / "latin1.txt").read_bytes() == b"\xe9\xe8\xe7"
        case _:
            pass


def uses_of(path: str) -> list[tuple[str, dict[str, Any]]]:
    patched = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+written\n"
    return [
        *((tool, {**DEFAULTS.get(tool, {}), "path": path}) for tool in (
            "read_file", "list_files", "search_in_code", "write_file", "edit_file",
            "create_directory", "delete_file",
        )),
        ("move_file", {"source": path, "destination": "moved.txt"}),
        ("move_file", {"source": "there.txt", "destination": path}),
        ("apply_patch", {"patch": patched}),
        ("execute_command", {"command": "cat secret.txt", "cwd": path}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["expect"] == "deny" and case["id"] != "P086"
     and case["tool"] != "execute_command"],
    ids=lambda case: case["id"],
)  # fmt: skip
async def test_what_one_tool_is_denied_no_other_tool_takes_outside(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path = arguments_of(case, Stage(tmp_path))["path"]
    for number in range(len(uses_of(path))):
        stage = Stage(tmp_path / str(number))
        stage.workspace.mkdir(parents=True)
        (stage.workspace / "there.txt").write_text("there\n")
        for op in case["setup"]:
            if op["op"] not in MEANWHILE:
                stage.do(op)
        tool, arguments = uses_of(arguments_of(case, stage)["path"])[number]
        with anyio.fail_after(60):
            told = await played(tool, arguments, case["setup"], stage)

        assert not any(canary in json.dumps(told) for canary in CANARIES), tool
        check_outside(stage)


async def played(
    tool: str, arguments: dict[str, Any], setup: list[dict[str, Any]], stage: Stage
) -> Any:
    workspace = Workspace(stage.workspace)
    try:
        prepared = TOOLS[tool].prepare(workspace, TOOLS[tool].parse(arguments))
        for op in setup:
            if op["op"] in MEANWHILE:
                stage.do(op)
        # What is a secret, or is kept from writing, is the gate's to refuse; commands need a box.
        if tool == "execute_command" or needs_a_look_at_all(prepared):
            return None
        bench = Bench(workspace=workspace, base_hashes=prepared.base_hashes)
        run = TOOLS[tool].run
        assert run is not None
        return await run(bench, TOOLS[tool].parse(prepared.arguments))
    except (ToolFailed, InvalidArguments) as refusal:
        return str(refusal)


def needs_a_look_at_all(prepared: Prepared) -> bool:
    access = prepared.access
    return is_secret_read(prepared) or any(map(write_guard, (*access.writes, *access.deletes)))


async def test_no_write_lands_outside_while_a_folder_is_swapped_all_the_time(
    stage: Stage,
) -> None:
    case = next(case for case in CASES if case["id"] == "P086")
    for op in case["setup"]:
        if op["op"] != "race_loop":
            stage.do(op)
    stop = threading.Event()
    swapper = threading.Thread(target=swap, args=(stage, stop))
    swapper.start()
    try:
        with anyio.fail_after(60):
            outcomes = [(await play(case, stage))[0] for _ in range(1_000)]
    finally:
        stop.set()
        swapper.join()

    check_outside(stage)
    assert "deny" in outcomes


def swap(stage: Stage, stop: threading.Event) -> None:
    (stage.workspace / "link").symlink_to(stage.top / "outside")
    folder = os.open(stage.workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not stop.wait(0.0002):
            assert exchange(folder, "d", "link")
    finally:
        os.close(folder)


async def test_a_link_that_points_to_a_secret_is_judged_by_the_secret(stage: Stage) -> None:
    stage.do({"op": "file", "path": ".env", "content": "CANARY-SECRET\n"})
    stage.do({"op": "symlink", "path": "notes.txt", "target": ".env"})

    prepared = TOOLS["read_file"].prepare(
        Workspace(stage.workspace), TOOLS["read_file"].parse({"path": "notes.txt"})
    )

    assert prepared.access.reads == (".env",)


async def test_a_link_into_the_repository_does_not_open_it_for_writing(stage: Stage) -> None:
    stage.do({"op": "mkdir", "path": ".git/hooks"})
    stage.do({"op": "symlink", "path": "hooks", "target": ".git/hooks"})
    tool = TOOLS["write_file"]

    with pytest.raises(ToolFailed) as failure:
        tool.prepare(
            Workspace(stage.workspace), tool.parse({"path": "hooks/pre-commit", "content": ""})
        )

    assert failure.value.kind == "protected_path"


async def test_a_socket_is_no_file(stage: Stage) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stage.workspace / "s"))

        outcome = await play({"tool": "read_file", "path": "s", "setup": []}, stage)

    assert outcome[:2] == ("deny", "not_a_regular_file")
