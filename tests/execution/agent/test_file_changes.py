"""What calls do to files, as it is written down: by which globs, and after a crash again."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.errors import ToolFailed
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.file_changes import (
    ChangeTrace,
    Traces,
    _missing_folders,
    _samples,
    _unknown,
)
from gonogo.runtime import bare_thread
from gonogo.store import Store
from gonogo.store.checkpoints import Doer, Touched
from gonogo.workspace import Snapshots, Traffic, Workspace


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def traces(store: Store, tmp_path: Path) -> Traces:
    return Traces(store=store, snapshots=Snapshots(tmp_path / "kept"), traffic=Traffic())


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("a.txt", ("a.txt", "a.txt/_")),
        ("src/a.py", ("src/a.py", "src/a.py/_")),
        ("src/**", ("src/_", "src/_/_")),
        ("src/*.py", ("src/_", "src/_/_")),
        ("src/[ab]/c", ("src/_", "src/_/_")),
        ("src/{a,b}", ("src/_", "src/_/_")),
        ("src/a?", ("src/_", "src/_/_")),
        ("**", ("_", "_/_")),
    ],
)
def test_a_glob_is_tried_by_a_path_that_it_covers_and_one_below(
    glob: str, found: tuple[str, str]
) -> None:
    assert _samples(glob) == found


def placed(root: Path) -> Thread:
    return replace(
        bare_thread(root), session_id="s1", plan_id="p1", revision=2, subtask_id="a",
    )  # fmt: skip


def effect(path: str, before: str | None, after: str | None) -> dict[str, Any]:
    return {"path": path, "before": before, "after": after}


def test_a_call_that_was_left_behind_is_followed_as_it_was_begun(
    traces: Traces, tmp_path: Path
) -> None:
    effects = [
        effect("a.txt", None, "1"), effect("same", "2", "2"), effect("b.txt", "3", None),
        effect("new", None, "folder"), effect("old", "folder", "folder"),
    ]  # fmt: skip
    doer = Doer("s1", "p1", 2, "a", "call_1", str(tmp_path))

    found = traces.again(placed(tmp_path), rows.call(effects=effects, tree=None))
    assert found == ChangeTrace(
        doer=doer, is_open=False,
        touched=[
            Touched("a.txt", None, {"hash": "1"}), Touched("b.txt", {"hash": "3"}, None),
            Touched("new", None, {"folder": True}),
        ],
    )  # fmt: skip
    command = traces.again(placed(tmp_path), rows.call(tree="t" * 40))
    assert command == ChangeTrace(doer=doer, is_open=True, tree="t" * 40)
    assert command.checkpoint is None


def test_of_folders_on_the_way_only_those_are_made_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    workspace, folder = Workspace(tmp_path), {"folder": True}
    assert _missing_folders(workspace, "there/new/deep/a.txt", ()) == [
        Touched("there/new", None, folder), Touched("there/new/deep", None, folder),
    ]  # fmt: skip
    known = [Touched("there/new", None, folder)]
    assert _missing_folders(workspace, "there/new/deep/a.txt", known) == [
        Touched("there/new/deep", None, folder)
    ]
    assert _missing_folders(workspace, "there/a.txt", ()) == []
    assert _missing_folders(workspace, "a.txt", ()) == []


def test_what_nobody_could_look_at_is_unknown_and_says_why() -> None:
    failure = ToolFailed("io_error", "the disk is gone")
    assert _unknown([".", "a"], failure) == [
        Touched(".", None, {"unknown": "the disk is gone"}),
        Touched("a", None, {"unknown": "the disk is gone"}),
    ]
