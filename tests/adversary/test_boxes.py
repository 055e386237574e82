"""Hostile commands in a real box: what they may not change stands, and what they leave is seen.

Git itself says what is a repository afterwards, so that our own list is not its own judge.
"""

from pathlib import Path

import anyio
import pytest

from adversary.boxes import CANARY, TRICKS, Workshop
from gonogo.workspace import Sandbox, Workspace, run_command
from gonogo.workspace.sandbox.guards import guarded_paths, topmost

BUBBLEWRAP = Sandbox.detect()
USUAL = (
    "a hook", "exchanged", "a secret", "a namespace", "bare by half", "times put back",
    "an environment in its place", "left running",
)  # fmt: skip
"""Of each sort one; the others run with what takes long."""


async def _tried(root: Path, script: str) -> None:
    workshop = Workshop(root)
    marks = guarded_paths(root).marks
    before = {*workshop.obeyed().values()}

    with anyio.fail_after(120):
        done = await run_command(
            Workspace(root), script, cwd=None, timeout=60, sandbox=BUBBLEWRAP,
            shown=lambda path: False,
        )  # fmt: skip

    assert CANARY not in done.output
    assert workshop.changed() == []
    told = topmost(guarded_paths(root).since(marks))
    unseen = {path for path, which in workshop.obeyed().items() if which not in before}
    assert {p for p in unseen if not any(f"{p}/".startswith(f"{name}/") for name in told)} == set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
@pytest.mark.parametrize("trick", USUAL)
async def test_no_trick_changes_what_is_guarded_or_leaves_what_nobody_sees(root, trick):
    await _tried(root, TRICKS[trick])


@pytest.mark.nightly
@pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
@pytest.mark.parametrize("trick", sorted({*TRICKS} - {*USUAL}))
async def test_neither_does_any_other(root, trick):
    await _tried(root, TRICKS[trick])
