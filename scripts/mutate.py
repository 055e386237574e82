"""Change the code in small ways and see whether the tests notice.

Each change is tried by itself, in a copy of the repository, with those tests that run what is
changed: first those of its own room, the quickest first, until they take so many seconds in all;
where none of them fails, with what `scripts/check` says of a file. When all were tried so, those
that are left are tried with the next tests, for four times as long. A change is noticed when a test
fails with it that holds without it. One that runs into the time limit, or that the checks refuse,
counts as noticed too and is shown apart.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from queue import Queue
from typing import NoReturn

from changes import Change, changes_of, drawn, files
from reach import WORDS, Reach, reach, surroundings

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".mutation"
STRICT = frozenset({"policy", "execution/approvals"})
ENOUGH, ENOUGH_OF_STRICT = 0.85, 0.9
NOT_COPIED = (
    ".git",
    ".venv*",
    "node_modules",
    "__pycache__",
    ".hypothesis",
    ".mutation",
    ".*_cache",
)
_STARTS = multiprocessing.get_context("forkserver")
_STARTS.set_forkserver_preload([
    "mutate", "pytest", "_hypothesis_pytestplugin", "hypothesis", "sqlalchemy.orm",
    "fastapi", "httpx", "typer", "rich.live", "alembic.operations",
    "websockets.sync.client", "prometheus_client", "structlog",
])  # fmt: skip
"""What tests import from elsewhere is imported once, and not for each change."""
NOTICED = ("killed", "timeout", "checked")
CHECKS = (
    ("ruff", "check", "--quiet"),
    ("pyright", "--pythonpath", str(ROOT / ".venv" / "bin" / "python")),
)
"""What `scripts/check` says of one file; a file without a change passes."""
AGAIN = 4
"""Times the seconds of the first tests, for those that come after them."""
_ENDS = {None: "timeout", 0: "survived"}
"""By the exit code of the tests, where they were not red."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one change ended."""

    change: Change
    status: str
    """`killed`, `timeout`, `checked`, `survived`, or `no tests`."""
    seconds: float


@dataclass(frozen=True)
class Copy:
    """A copy of the repository, in which one change at a time is tried."""

    folder: Path
    _times: Iterator[int] = field(default_factory=lambda: count(1_000_000_000))

    @contextmanager
    def changed(self, change: Change, source: str) -> Iterator[None]:
        """For the time of the block the change is there."""
        file = self.folder / change.path
        before = file.read_text(encoding="utf-8")
        self._write(file, source)
        try:
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, source: str) -> None:
        file.write_text(source, encoding="utf-8")
        # What Python has compiled is taken for that of a file of the same size and second.
        now = next(self._times)
        os.utime(file, (now, now))

    def run(self, tests: Sequence[str], limit: float) -> int | None:
        """Run tests up to the first that fails. Gives the exit code, None at the time limit.

        Args:
            limit: Seconds.
        """
        names, temporary = self.folder / ".tests", self.folder / "t"
        names.write_text("\n".join(tests))
        temporary.mkdir(exist_ok=True)
        words = [*WORDS, "-x", f"--basetemp={temporary}", "--cache-clear", f"@{names}"]
        environment = {**surroundings(self.folder), "TMPDIR": str(temporary)}
        running = _STARTS.Process(target=_run_tests, args=(self.folder, words, environment))
        running.start()
        try:
            running.join(limit)
            return running.exitcode
        finally:
            _end_all(running.pid or 0, f"TMPDIR={temporary}")
            running.join()

    def is_refused(self, path: Path) -> bool:
        """Whether the checks refuse a file as it is."""
        return any(
            subprocess.run(
                [ROOT / ".venv" / "bin" / name, *arguments, path],
                cwd=self.folder, check=False, capture_output=True,
            ).returncode
            for name, *arguments in CHECKS
        )  # fmt: skip

    @property
    def failed(self) -> list[str]:
        """What failed in the last run."""
        with suppress(FileNotFoundError):
            return [*json.loads((self.folder / ".pytest_cache/v/cache/lastfailed").read_text())]
        return []


def _run_tests(folder: Path, words: list[str], environment: dict[str, str]) -> NoReturn:
    """In a process of its own, which has what tests import from elsewhere: run tests."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [str(folder / "src"), str(folder / "tests")]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    import pytest

    # Of pytest's own plugins, too, some were imported before it could look at their asserts.
    code = pytest.main([*words, "-W", "ignore::pytest.PytestAssertRewriteWarning"])
    sys.stdout.flush()
    os._exit(code)


def _end_all(leader: int, mark: str) -> None:
    """End whatever a run of the tests has left behind; its environment tells it."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Tries changes, each in a copy that nobody else uses meanwhile."""

    reach: Reach
    budget: float
    """Seconds that the tests of one change may take."""
    copies: Queue[Copy]
    sound: set[str] = field(default_factory=set[str])
    """Tests that failed with some change and held without it."""

    def tests_of(self, change: Change) -> list[str]:
        """The tests that run what is changed, or what is nearest to it, in their order."""
        own = f"tests/{change.room}/"

        def order(test: str) -> tuple[bool, bool, float]:
            # What those on PostgreSQL do, those on SQLite have mostly done already.
            return "[postgresql" in test, not test.startswith(own), self.reach.seconds[test]

        found = self.reach.of(change.path, change.users()) or self.reach.of(change.path)
        found = found or {test for test in self.reach.seconds if test.startswith(own)}
        return sorted(found, key=order)

    def within(self, tests: Sequence[str], budget: float) -> list[str]:
        """Those of the tests that fit into so many seconds, and one at least."""
        chosen: list[str] = []
        for test in tests:
            budget -= self.reach.seconds[test]
            if budget >= 0 or not chosen:
                chosen.append(test)
        return chosen

    def outcomes(self, changes: Sequence[Change], pool: Executor) -> list[Outcome]:
        """Try changes: all with their first tests and the checks, then what is left with more."""
        found = list(pool.map(partial(self._outcome, self._at_first), changes))
        left = [each.change for each in found if each.status == "survived"]
        print(f"\n{len(left)} of {len(found)} are tried with more tests.", flush=True)
        more = dict(zip(left, pool.map(partial(self._outcome, self._at_last), left), strict=True))
        return [more.get(each.change, each) for each in found]

    def _outcome(self, tried: Callable[[Copy, Change], str], change: Change) -> Outcome:
        copy, began = self.copies.get(), time.monotonic()
        try:
            status = tried(copy, change)
        finally:
            self.copies.put(copy)
        found = Outcome(change=change, status=status, seconds=time.monotonic() - began)
        print(f"{status:9} {found.seconds:5.0f} s  {change.path}: {change.owner}", flush=True)
        return found

    def _at_first(self, copy: Copy, change: Change) -> str:
        status = self._tried(copy, change, self.within(self.tests_of(change), self.budget))
        if status in NOTICED:
            return status
        with copy.changed(change, change.made()):
            return "checked" if copy.is_refused(change.path) else status

    def _at_last(self, copy: Copy, change: Change) -> str:
        tests = self.tests_of(change)
        tried = {*self.within(tests, self.budget)}
        rest = [test for test in tests if test not in tried]
        later = self._tried(copy, change, self.within(rest, AGAIN * self.budget)) if rest else ""
        return later if later in NOTICED else "survived"

    def _tried(self, copy: Copy, change: Change, tests: list[str]) -> str:
        source = change.made()
        while tests:
            limit = 60 + 3 * sum(self.reach.seconds[test] for test in tests)
            with copy.changed(change, source):
                code = copy.run(tests, limit)
            if code in _ENDS:
                return _ENDS[code]
            failed = copy.failed
            new = not failed or not self.sound.issuperset(failed)
            if not new or copy.run(failed or tests, limit) == 0:
                self.sound.update(failed)
                return "killed"
            # They fail without the change too, on a busy machine or since the code is another.
            tests = [test for test in tests if failed and not test.startswith((*failed,))]
        return "no tests"


def asked() -> argparse.Namespace:
    """What to change."""
    parser = argparse.ArgumentParser(prog="scripts/mutate")
    parser.add_argument("--room", action="append", metavar="NAME|PATH")
    parser.add_argument("--sample", type=int, metavar="N", help="so many, of all that there are")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument(
        "--seconds", type=float, default=120, metavar="N", help="of tests for each change"
    )
    return parser.parse_args()


def every_change(rooms: list[str] | None, jobs: int) -> list[Change]:
    """All changes of these rooms and files, or of all."""
    sources = [path for room in rooms or [None] for path in files(room)]
    with ProcessPoolExecutor(jobs) as pool:
        return [change for found in pool.map(changes_of, sources) for change in found]


def copied(folder: Path) -> Copy:
    """A copy of the repository."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return Copy(folder)


def tell(every: Sequence[Change], outcomes: Sequence[Outcome]) -> bool:
    """Print each change that nobody noticed, and the table. True when enough were noticed."""
    for found in outcomes:
        if found.status not in NOTICED:
            print(f"\n{found.change.shown()}")
    there, counts = (
        Counter(change.room for change in every),
        defaultdict[str, Counter[str]](Counter),
    )
    for found in outcomes:
        counts[found.change.room][found.status] += 1
    heads = "".join(f" {status:>8}" for status in NOTICED)
    print(f"\n{'room':22} {'all':>6} {'tried':>6}{heads} {'left':>6}")
    for room, tried in sorted(counts.items()):
        left = tried.total() - sum(tried[status] for status in NOTICED)
        dead = "".join(f" {tried[status]:8}" for status in NOTICED)
        print(f"{room:22} {there[room]:6} {tried.total():6}{dead} {left:6}")
    strict = [found for found in outcomes if found.change.room in STRICT]
    others = [found for found in outcomes if found.change.room not in STRICT]
    enough = [
        _enough(strict, ENOUGH_OF_STRICT, "policy, approvals"),
        _enough(others, ENOUGH, "others"),
    ]
    return all(enough)


def _enough(outcomes: Sequence[Outcome], wanted: float, what: str) -> bool:
    if not outcomes:
        return True
    noticed = sum(found.status in NOTICED for found in outcomes)
    share = noticed / len(outcomes)
    print(f"{what}: {noticed} of {len(outcomes)} noticed: {share:.1%} (wanted: {wanted:.0%})")
    return share >= wanted


def main() -> int:
    """Try the changes. 1 when too few were noticed."""
    args = asked()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        # What is changed is this copy's, whatever happens to the repository meanwhile.
        os.chdir(copied(Path(folder) / "as-it-is").folder)
        every = every_change(args.room, args.jobs)
        chosen = drawn(every, args.sample or len(every), args.seed)
        copies = Queue[Copy]()
        for number in range(args.jobs):
            copies.put(copied(Path(folder) / str(number)))
        known = reach(Path(folder) / "0", KEPT, args.jobs)
        trial = Trial(reach=known, budget=args.seconds, copies=copies)
        with ThreadPoolExecutor(args.jobs) as pool:
            outcomes = trial.outcomes(chosen, pool)
        enough = tell(every, outcomes)
        os.chdir(ROOT)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
