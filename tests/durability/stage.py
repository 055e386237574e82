"""A folder in which the story is played by processes that may kill themselves."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from durability import story
from durability.invariants import check_invariants
from durability.person import Told
from fakes.nursery import python

DRIVER = Path(__file__).with_name("crash_driver.py")
_DECISIONS = """
SELECT kind, subtask_id, subject, status FROM approvals
WHERE kind <> 'intervention' OR details LIKE '%"question"%'
ORDER BY decided_at
"""


class Stage:
    """A folder in which the story is played, life after life."""

    def __init__(self, folder: Path, driver: subprocess.Popen[str]) -> None:
        self.folder, self._driver = folder, driver
        self.workspace = story.lay_out(folder / "workspace")

    def play(self, *crash: Any, fresh: bool = False) -> dict[str, Any]:
        """One life, to the end or to its crash."""
        job = {"folder": str(self.folder), "crash": list(crash) or None, "fresh": fresh}
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(json.dumps(job) + "\n")
        self._driver.stdin.flush()
        answer = self._driver.stdout.readline()
        assert answer, f"the driver has ended with {self._driver.wait()}"
        ended = json.loads(answer)
        assert ended["signal"] in (0, 9) and ended["code"] in (0, -9), self.stderr  # noqa: PT018
        return ended

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    @property
    def database(self) -> Path:
        return self.folder / "home" / "gonogo.db"

    def violations(self) -> list[str]:
        """Which invariants do not hold."""
        requests = self.folder / "requests.jsonl"
        return check_invariants(
            self.database,
            self.workspace,
            story.ledger(self.workspace),
            [json.loads(line) for line in requests.read_text().splitlines()],
            acknowledged=Told(self.folder / "told.jsonl").events,
        )

    def problems(self) -> list[str]:
        """What is wrong with the story as it was played."""
        told, found = Told(self.folder / "told.jsonl"), self.violations()
        if story.contents(self.workspace) != story.AFTERWARDS:
            found.append(f"the files are {story.contents(self.workspace)}")
        with closing(sqlite3.connect(self.database)) as conn:
            decided = dict(conn.execute("SELECT id, status FROM approvals").fetchall())
            decisions = conn.execute(_DECISIONS).fetchall()
            events = [json.loads(body) for (body,) in conn.execute("SELECT body FROM events")]
            said = conn.execute("SELECT content FROM turns ORDER BY position").fetchall()
        found += [f"I13 {a} was decided" for a in told.decided if decided[a] == "pending"]
        if decisions != story.DECISIONS:
            found.append(f"decided was {decisions}")
        if (courses := story.courses(events)) != story.COURSES:
            found.append(f"the subtasks went {courses}")
        if said != [(story.FIRST,), (story.SECOND,)]:
            found.append(f"I07 the user said {said}")
        return found


@contextmanager
def crash_driver() -> Iterator[subprocess.Popen[str]]:
    """The process whose forks play."""
    with subprocess.Popen(
        [sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=python(measured=False),
    ) as process:  # fmt: skip
        yield process
        process.kill()
