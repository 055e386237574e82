"""What keeps a disk from being written is one sentence, which says what to do."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gonogo.disks import disk_problem


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, None),
        ({"f_flag": os.ST_RDONLY, "f_bavail": 0}, "the disk of /s is read-only; make it writable"),
        ({"f_bavail": 15}, "the disk of /s is full; free some space"),
        ({"f_bavail": 16}, None),
        ({"f_favail": 0}, "the disk of /s takes no more files (no inode is left); delete some"),
        ({"f_files": 0, "f_favail": 0}, None),
    ],
)
def test_what_keeps_a_folder_from_being_written_is_known_by_its_disk(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, int], problem: str | None
) -> None:
    disk = {"f_flag": 0, "f_bavail": 99, "f_frsize": 4096, "f_files": 9, "f_favail": 1, **found}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**disk))
    assert disk_problem(Path("/s")) == problem


def test_of_a_folder_that_is_gone_whoever_needs_it_tells(tmp_path: Path) -> None:
    assert disk_problem(tmp_path / "nowhere") is None
