"""What differs between two snapshots is shown as far as an answer holds it, and it says so."""

from pathlib import Path
from typing import Any

import pytest

from fakes.rows import NOW
from gonogo.domain.errors import Conflict
from gonogo.domain.records import Checkpoint
from gonogo.runtime.changes import _snapshot, diff_view
from gonogo.workspace import Snapshots, Tree, Workspace


def checkpoint(**more: Any) -> Checkpoint:
    given = {
        "id": "k1", "session_id": "s1", "plan_id": "p1", "revision": 1, "subtask_id": "a",
        "attempt": 1, "reason": "subtask", "standings": "p", "event_seq": 1, "last_change": 0,
        "tree": "t", "hash": "h", "created_at": NOW,
    }  # fmt: skip
    return Checkpoint(**{**given, **more})


def two_states(root: Path) -> tuple[Snapshots, Tree, Tree]:
    work, snapshots = root / "work", Snapshots(root / "snapshots")
    work.mkdir()
    for name in ("gone", "kept", "other"):
        (work / name).write_text(f"{name}\n")
    before = snapshots.take(Workspace(work))
    (work / "gone").unlink()
    (work / "kept").write_text("\x1b[2J\n")
    (work / "new").write_text("new\n")
    return snapshots, before, snapshots.take(Workspace(work))


def test_each_file_is_shown_with_what_became_of_it_and_nothing_that_deceives(
    tmp_path: Path,
) -> None:
    snapshots, before, after = two_states(tmp_path)
    found = diff_view(snapshots, "k1", "k2", before, after)

    assert [(each.path, each.status) for each in found.files] == [
        ("gone", "deleted"), ("kept", "modified"), ("new", "added"),
    ]  # fmt: skip
    assert "-kept\n+\\x1b[2J\n" in found.files[1].diff
    assert (found.checkpoint_id, found.to, found.truncated) == ("k1", "k2", False)


@pytest.mark.parametrize(("most", "shown", "truncated"), [(2, 2, True), (3, 3, False)])
def test_an_answer_holds_so_many_files_and_says_where_there_are_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, shown: int, truncated: bool
) -> None:
    monkeypatch.setattr("gonogo.runtime.changes._FILES", most)
    snapshots, before, after = two_states(tmp_path)
    found = diff_view(snapshots, "k1", None, before, after)

    assert (len(found.files), found.truncated, found.to) == (shown, truncated, None)


def test_a_checkpoint_without_its_snapshot_says_why() -> None:
    assert _snapshot(checkpoint()) == Tree("t")
    for given, said in (
        (
            {"tree": None},
            (
                "Checkpoint k1 has no snapshot, because its subtask changed nothing; choose "
                "another checkpoint"
            ),
        ),
        ({"swept_at": NOW}, "The snapshot of checkpoint k1 was deleted; choose a newer checkpoint"),
    ):
        with pytest.raises(Conflict) as refused:
            _snapshot(checkpoint(**given))
        assert str(refused.value) == said
