"""A person refuses a change of a plan, and has the plan tried again; the process is killed at any
moment of that. What nobody approved never runs, and the plan comes to the end that it would have.
"""

import random
import signal
from pathlib import Path

import pytest

from durability.ground import EVERYTHING, SEED
from durability.invariants import unreasoned
from fakes.nursery import Nursery, python

COMMITS = 24
"""One more than a story has."""
SAMPLE = 3
POINTS = [(n, side) for n in range(1, COMMITS + 1) for side in ("before", "after")]


def lived(born: Nursery, root: Path, number: int, side: str) -> int:
    """How a process ended."""
    (root / "work").mkdir(exist_ok=True)
    words = [str(root), str(number), side]
    run = born.run(
        "fakes.refuser", *words, env=python(measured=False), cwd=root, stdin="", timeout=120
    )
    assert run.returncode in {0, -signal.SIGKILL}, run.stderr
    return run.returncode


@pytest.mark.feature(202)
def test_a_crash_at_any_moment_of_a_refusal_has_nothing_run_that_was_refused(
    born: Nursery, tmp_path: Path
) -> None:
    chosen = POINTS if EVERYTHING else random.Random(f"{SEED} refusals").sample(POINTS, SAMPLE)
    wrong, killed = {}, 0
    for number, side in chosen:
        (root := tmp_path / f"{number}-{side}").mkdir()
        killed += lived(born, root, number, side) == -signal.SIGKILL
        assert lived(born, root, 0, side) == 0
        found = unreasoned(root / "home" / "gonogo.db")
        found += [f"there is {path}" for path in (root / "work").glob("pwned")]
        if found:
            wrong[number, side] = found

    assert wrong == {}, f"seed {SEED}"
    assert killed >= len(chosen) // 2
