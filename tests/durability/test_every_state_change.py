"""A crash at every state change: right before and right after each commit, and around each file.

The process kills itself there, a new one takes the story up, and at the end everything holds: each
command ran as often as somebody allowed, each finished subtask stayed finished, and the files are
those of a run that nobody disturbed.

Every run of the tests takes a sample of them, another with
`GONOGO_DURABILITY_SEED=N`; `scripts/test --nightly` takes all of them, which is minutes.
"""

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from durability import story
from durability.ground import EVERYTHING, SEED
from durability.stage import Stage

SAMPLE, TWICE, STATEMENTS = 2, 1, 2
AROUND = 3
"""Commits around a retry, before or after each of which there may be a crash."""


@pytest.fixture(scope="module")
def counted(driver: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory):
    """How often each thing happens in a story that nobody disturbs."""
    stage = Stage(tmp_path_factory.mktemp("whole"), driver)
    ended = stage.play(fresh=True)
    assert ended["code"] == 0, stage.stderr
    assert stage.problems() == []
    return ended["count"]


def sampled(points: list[Any], size: int, why: str) -> list[Any]:
    if EVERYTHING or len(points) <= size:
        return points
    return sorted(random.Random(f"{SEED} {why}").sample(points, size))


@pytest.mark.feature(23)
@pytest.mark.feature(33)
def test_a_crash_at_any_commit_loses_nothing_and_repeats_nothing(
    driver: subprocess.Popen[str], counted: dict[str, int], tmp_path: Path
):
    points = [(n, side) for n in range(1, counted["before"] + 1) for side in ("before", "after")]
    wrong, reached = {}, 0
    for number, side in sampled(points, SAMPLE, "commits"):
        (folder := tmp_path / f"{number}-{side}").mkdir()
        stage = Stage(folder, driver)
        reached += stage.play(side, number)["signal"] == 9
        assert stage.play()["code"] == 0, stage.stderr
        if found := stage.problems():
            wrong[number, side] = found

    assert wrong == {}, f"seed {SEED}"
    # Writes that come together share a commit, so the last numbers are not always there.
    assert reached >= (0.75 * len(points) if EVERYTHING else SAMPLE - 1)


@pytest.mark.feature(23)
@pytest.mark.feature(116)
def test_a_crash_around_a_retry_neither_loses_it_nor_counts_an_attempt_twice(
    driver: subprocess.Popen[str], counted: dict[str, int], tmp_path: Path
):
    """The failure is recorded, the second attempt begins, its conversation begins."""
    assert counted["before_retry"] > AROUND
    points = [(side, n) for n in range(1, AROUND + 1) for side in ("before_retry", "after_retry")]
    points = sampled(points, AROUND, "retry")
    later = [(side, n) for n in range(1, 7) for side in ("before", "after")] if EVERYTHING else []
    wrong = {}
    for lives in [[point, *more] for point in points for more in [(), *zip(later)]]:
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        stage = Stage(folder, driver)
        assert stage.play(*lives[0])["signal"] == 9
        for crash in lives[1:]:
            stage.play(*crash)
        assert stage.play()["code"] == 0, stage.stderr
        if found := stage.problems():
            wrong[str(lives)] = found

    assert wrong == {}


def test_a_crash_during_the_recovery_from_a_crash_is_recovered_from(
    driver: subprocess.Popen[str], counted: dict[str, int], tmp_path: Path
):
    chance = random.Random(f"{SEED} twice")
    wrong = {}
    for number in range(60 if EVERYTHING else TWICE):
        first = chance.randint(2, counted["before"] - 2)
        lives = [(chance.choice(("before", "after")), first)]
        lives += [(chance.choice(("before", "after")), chance.randint(1, 6)) for _ in range(2)]
        (folder := tmp_path / str(number)).mkdir()
        stage = Stage(folder, driver)
        for crash in lives:
            stage.play(*crash)
        assert stage.play()["code"] == 0, stage.stderr
        if found := stage.problems():
            wrong[str(lives)] = found

    assert wrong == {}, f"seed {SEED}"


def test_a_crash_around_the_writing_of_a_file_leaves_the_old_or_the_new_one_and_nothing_beside_it(
    driver: subprocess.Popen[str], counted: dict[str, int], tmp_path: Path
):
    wrong = {}
    points = [(n, what) for n in range(1, counted["filled"] + 1) for what in ("filled", "placed")]
    for number, what in sampled(points, SAMPLE, "files"):
        (folder := tmp_path / f"{number}-{what}").mkdir()
        stage = Stage(folder, driver)
        assert stage.play(what, number)["signal"] == 9
        notes = (stage.workspace / "notes.md").read_text()
        assert notes in (story.FILES["notes.md"], story.AFTERWARDS["notes.md"])
        assert stage.play()["code"] == 0, stage.stderr
        if problems := stage.problems():
            wrong[number, what] = problems

    assert wrong == {}


def test_a_crash_while_the_database_is_made_or_at_any_statement_leaves_one_that_opens(
    driver: subprocess.Popen[str], counted: dict[str, int], tmp_path: Path
):
    wrong = {}
    early = sampled(list(range(1, 80)), STATEMENTS, "migration")
    # Two runs never have quite as many, so the last numbers are not always there.
    last = counted["statement"] * 9 // 10
    later = sampled(list(range(80, last, 7)), STATEMENTS // 2, "statements")
    for number in (*early, *later):
        (folder := tmp_path / str(number)).mkdir()
        stage = Stage(folder, driver)
        assert stage.play("statement", number, fresh=True)["signal"] == 9
        assert stage.play(fresh=True)["code"] == 0, stage.stderr
        if found := stage.problems():
            wrong[number] = found

    assert wrong == {}, f"seed {SEED}"
