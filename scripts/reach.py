"""Which tests run which function: measured once for each test file, and kept.

Each test is a context of coverage.py, with the processes that it starts. Left out are those in a
browser, and the comparison with bash in tests/policy/test_mutants.py, which takes longer than all
others together.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

from coverage import CoverageData

LEFT_OUT = ("tests/policy/test_mutants.py", "tests/console/")
WORDS = ["-q", "-p", "plugins.fresh", "--hypothesis-seed=0"]
PYTEST = [sys.executable, "-m", "pytest", *WORDS]
MEASURED = """
[run]
source_pkgs = gonogo
parallel = true
patch = subprocess
sigterm = true
"""
_PHASE = re.compile(r"\|(setup|run|teardown)$")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What was measured, by test files."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Test → how long it takes, with what is made ready for it."""
    tests: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Function, as `path::Class.name` → the tests that run it."""

    def add(self, kept: dict[str, Any]) -> None:
        """Add what one test file runs."""
        for test, (seconds, places) in kept["tests"].items():
            self.seconds[test] = seconds
            for place in places:
                self.tests[kept["places"][place]].add(test)

    def of(self, path: Path, names: Collection[str] | None = None) -> set[str]:
        """The tests that run one of these functions of a file, or any of it."""
        found = [place for place in self.tests if place.startswith(f"{path}::")]
        if names is not None:
            found = [f"{path}::{name}" for name in names]
        return set[str]().union(*(self.tests.get(place, ()) for place in found))


def reach(copy: Path, kept: Path, jobs: int) -> Reach:
    """Read what is known of the test files, and measure those that are new or changed.

    Args:
        copy: Of the whole repository, where tests are run.
        kept: The folder for what was measured, one file for each folder of tests.
    """
    kept.mkdir(exist_ok=True)
    files = [path.relative_to(copy) for path in sorted((copy / "tests").rglob("test_*.py"))]
    rooms = defaultdict[str, list[Path]](list)
    for path in files:
        if not str(path).startswith(LEFT_OUT):
            rooms[path.parts[1]].append(path)
    found = Reach()
    for room, paths in rooms.items():
        for known in _measured(copy, kept / f"{Path(room).stem}.json", paths, jobs).values():
            found.add(known)
    return found


def _measured(copy: Path, kept: Path, paths: Sequence[Path], jobs: int) -> dict[str, Any]:
    known: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        known = json.loads(kept.read_text())
    digests = {str(path): hashlib.sha256((copy / path).read_bytes()).hexdigest() for path in paths}
    known = {path: each for path, each in known.items() if digests.get(path) == each["digest"]}
    if missing := [path for path in digests if path not in known]:
        print(f"Which functions do {len(missing)} test files of {kept.stem} run?", flush=True)
        fresh = _measure(copy, missing, jobs)
        known |= {path: {"digest": digests[path], **fresh[path]} for path in missing}
        kept.write_text(json.dumps(known))
    return known


def _measure(copy: Path, paths: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """Run test files, and tell what each test of each runs."""
    folder = copy / ".reach"
    folder.mkdir(exist_ok=True)
    (folder / "config.ini").write_text(MEASURED)
    times, data = folder / "times.json", folder / "data"
    options = [
        "-p", "plugins.reach", "-n", str(jobs), "--dist", "worksteal", "--cov",
        "--cov-context=test", f"--cov-config={folder / 'config.ini'}", "--cov-report=",
    ]  # fmt: skip
    environment = {**surroundings(copy), "GONOGO_TIMES": str(times), "COVERAGE_FILE": str(data)}
    ran = subprocess.run(
        [*PYTEST, *options, *paths],
        cwd=copy,
        env=environment,
        check=False,
        stdout=PIPE,
        stderr=STDOUT,
    )
    told = ran.stdout.decode(errors="replace")[-20_000:]
    if ran.returncode not in (0, 1, 5):
        sys.exit(f"{told}\nThe tests did not run.")
    seconds: dict[str, float] = json.loads(times.read_text())
    if unseen := {*paths} - {test.split("::")[0] for test in seconds}:
        sys.exit(f"{told}\nNo test passed in {', '.join(sorted(unseen))}.")
    return _by_file(paths, seconds, _runs(copy, data))


def surroundings(copy: Path) -> dict[str, str]:
    """The environment of tests that run in a copy, and of the processes that they start."""
    path = os.pathsep.join(str(copy / each) for each in ("src", "tests"))
    return {**os.environ, "PYTHONPATH": path}


def _by_file(
    paths: list[str], seconds: dict[str, float], runs: dict[str, set[str]]
) -> dict[str, dict[str, Any]]:
    """Test file → its tests, each with its seconds and the places of what it runs in a list."""
    found = {path: {"places": dict[str, int](), "tests": dict[str, Any]()} for path in paths}
    for test, took in seconds.items():
        kept = found[test.split("::")[0]]
        number = kept["places"].setdefault
        ran = [number(place, len(kept["places"])) for place in sorted(runs.get(test, ()))]
        kept["tests"][test] = (took, ran)
    return {path: {**kept, "places": list(kept["places"])} for path, kept in found.items()}


def _runs(copy: Path, data: Path) -> dict[str, set[str]]:
    """Test → the functions that it ran."""
    measured, found = CoverageData(str(data)), defaultdict[str, set[str]](set)
    with suppress(FileNotFoundError):
        measured.read()
    for name in measured.measured_files():
        if not name.startswith(f"{copy}/"):
            continue
        owners = owned_lines(Path(name).read_text(encoding="utf-8"))
        place = Path(name).relative_to(copy)
        for line, contexts in measured.contexts_by_lineno(name).items():
            if owner := owners.get(line):
                for context in contexts:
                    found[_PHASE.sub("", context)].add(f"{place}::{owner}")
    return found


def owned_lines(source: str) -> dict[int, str]:
    """Line → the function or method, one within another counting as the outer one, of its body."""
    found: dict[int, str] = {}
    for owner, function in functions(ast.parse(source).body):
        lines = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        found.update(dict.fromkeys(lines, owner))
    return found


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module and the methods of its classes, by name."""
    for statement in body:
        if isinstance(statement, Function):
            yield f"{prefix}{statement.name}", statement
        elif isinstance(statement, ast.ClassDef):
            yield from functions(statement.body, f"{prefix}{statement.name}.")
