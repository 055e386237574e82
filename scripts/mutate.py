"""Change the code in small ways (mutmut) and see whether the tests notice.

Each change is tried by itself, in a copy of the source, with those tests of its room that run the
changed function. A change is killed when a test fails with it; one that runs into the time limit
counts as killed too and is shown apart. Of the tests those on PostgreSQL are left out, which do
again what those on SQLite do, and the comparison with bash in tests/policy/test_mutants.py, which
takes longer than all others together.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["policy", "approvals"]
ENOUGH = 0.85
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {files}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "plugins.fresh", "-k", "not postgresql", "--hypothesis-seed=0"]
# What runs in a process that has run tests before meets what those have left there.
process_isolation = "forkserver"
# Seconds: three times what its tests take and twenty.
timeout_constant = 20.0
timeout_multiplier = 3.0
"""


@dataclass(kw_only=True)
class Outcome:
    """How the changes of one file ended."""

    path: Path
    counts: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    """The changes that no test noticed."""

    @property
    def every(self) -> int:
        """How many changes there are."""
        return self.counts.total()

    @property
    def tried(self) -> int:
        """How many of them were tried."""
        return self.every - self.counts["not checked"]

    @property
    def killed(self) -> int:
        """How many of those a test noticed, or the time limit."""
        return self.counts["killed"] + self.counts["timeout"]


def asked() -> argparse.Namespace:
    """What to change."""
    parser = argparse.ArgumentParser(prog="scripts/mutate")
    parser.add_argument("--room", action="append", metavar="NAME|PATH")
    parser.add_argument("--sample", type=int, metavar="N", help="of each file")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    return parser.parse_args()


def files(room: str) -> list[Path]:
    """The sources of a room, or the one file that is meant."""
    found = Path(room)
    if found.suffix != ".py":
        found = Path("src/gonogo") / room
    return [found] if found.is_file() else sorted(found.rglob("*.py"))


def prepare(scratch: Path, sources: list[Path]) -> None:
    """Copy what mutmut and the tests need, and say what is to be changed and run."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, scratch / folder, ignore=ignored)
    tests = sorted({f"tests/{path.parts[2]}" for path in sources})
    settings = SETTINGS.format(
        files=json.dumps([str(path) for path in sources]),
        tests=json.dumps([*tests, "--ignore=tests/policy/test_mutants.py"]),
    )
    (scratch / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + settings)


def drawn(sources: list[Path], count: int, seed: int) -> list[str]:
    """The names of so many changes of each file, by chance."""
    names: list[str] = []
    for path in sources:
        every = mutate_file_contents(str(path), path.read_text()).mutant_names
        chosen = random.Random(f"{seed} {path}").sample(every, min(count, len(every)))  # noqa: S311
        names += [get_mutant_name(path, name) for name in chosen]
    return names


def run(names: list[str]) -> None:
    """Have mutmut try the changes. What it draws as it goes is for terminals only."""
    drawing = None if sys.stdout.isatty() else subprocess.PIPE
    program = str(Path(sys.executable).with_name("mutmut"))
    ran = subprocess.run([program, "run", *names], check=False, stdout=drawing)
    if ran.returncode:
        print((ran.stdout or b"").decode(errors="replace")[-20_000:])
        ran.check_returncode()


def outcome(path: Path) -> Outcome:
    """Read what mutmut has written about a file."""
    found = Outcome(path=path)
    written = json.loads((Path("mutants") / f"{path}.meta").read_text())
    for name, code in written["exit_code_by_key"].items():
        status = status_by_exit_code[code]
        found.counts[status] += 1
        if status not in {"killed", "timeout", "not checked"}:
            found.left.append(name)
    return found


def share(outcomes: list[Outcome]) -> float:
    """The part that is killed. Of a sample, each file counts by how many changes it has."""
    tried = [found for found in outcomes if found.tried]
    killed = sum(found.every * found.killed / found.tried for found in tried)
    return killed / max(1, sum(found.every for found in tried))


def tell(outcomes: list[Outcome]) -> None:
    """Print each change that was left alive, and the table."""
    for found in outcomes:
        for name in found.left:
            print(name, get_diff_for_mutant(name, path=found.path), sep="\n", end="\n\n")
    print(f"{'file':44} {'all':>6} {'tried':>6} {'killed':>7} {'timeout':>8} {'left':>6}")
    for found in outcomes:
        dead = f"{found.counts['killed']:7} {found.counts['timeout']:8}"
        print(f"{found.path!s:44} {found.every:6} {found.tried:6} {dead} {len(found.left):6}")
    tried, killed = sum(found.tried for found in outcomes), sum(found.killed for found in outcomes)
    print(f"{killed} of {tried} killed: {share(outcomes):.1%}")


def main() -> int:
    """Try the changes. 1 when too few were killed."""
    args = asked()
    os.chdir(ROOT)
    sources = [path for room in args.room or ROOMS for path in files(room)]
    with tempfile.TemporaryDirectory(prefix="gonogo-mutate-") as folder:
        prepare(Path(folder), sources)
        os.chdir(folder)
        names = drawn(sources, args.sample, args.seed) if args.sample else []
        run(names)
        outcomes = [outcome(path) for path in sources]
        tell(outcomes)
        os.chdir(ROOT)
    return 0 if share(outcomes) >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
