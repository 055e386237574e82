"""What a command names is looked up on the disk: where it leads decides, not its name."""

import os
from pathlib import Path

import pytest

from gonogo.execution.agent.gate import leads_out
from gonogo.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a\n")
    (root / ".env").write_text("KEY=1\n")
    (root / "notes.txt").symlink_to(".env")
    (root / "app.py").symlink_to("src/a.py")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    return Workspace(root)


@pytest.mark.parametrize("path", [".", "src", "src/a.py", "app.py", "not-there", "HEAD~1..main"])
def test_a_file_or_folder_of_the_workspace_leads_nowhere_else(
    workspace: Workspace, path: str
) -> None:
    assert not leads_out(workspace, path)


@pytest.mark.parametrize("path", ["up", "up/x", "..", "/etc/passwd", "pipe", "notes.txt"])
def test_a_link_out_or_to_a_secret_and_what_is_no_file_lead_elsewhere(
    workspace: Workspace, path: str
) -> None:
    assert leads_out(workspace, path)
