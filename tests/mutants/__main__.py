"""Mutants of the cases against bash: `python -m mutants [--count N] [--seed S]`."""

import argparse
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

from gonogo.workspace import Sandbox
from mutants.bash import TracedBash
from mutants.canary import Canary, readers
from mutants.check import FalseAllow, Judge, Tally, seeds
from mutants.more import EVERYTHING
from mutants.mutator import Seed, mutants
from mutants.sweep import sweep
from mutants.workspace import build

_AT_ONCE = 2_000


def main() -> int:
    """Print what came of it; 1 when something is allowed that is not what it seems."""
    asked = argparse.ArgumentParser(prog="mutants", description=__doc__)
    asked.add_argument("--count", type=int, default=100_000)
    asked.add_argument("--seed", type=int, default=int(time.time()))
    asked.add_argument("--run", type=int, default=2_000, help="how many of the allowed really run")
    asked.add_argument(
        "--options", action="store_true", help="run each option of each program, too"
    )
    options = asked.parse_args()
    sandbox = Sandbox.detect()
    if sandbox is None:
        asked.exit(2, "This needs bubblewrap.\n")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        build(root)
        judge = Judge(TracedBash(sandbox, root), root)
        tally = run(judge, options.count, options.seed)
        chosen = _sample([run_as for _, run_as in tally.allowed], options.run, options.seed)
        spilt = really_run(Canary(sandbox, root), chosen)
        if options.options:
            swept = [judge.verdict(Seed(line, EVERYTHING, allowed=True)) for line in sweep()]
            spilt += really_run(Canary(sandbox, root), readers(v.run_as for v in swept if v.run_as))
    return 1 if tally.wrong or spilt else 0


def run(judge: Judge, count: int, seed: int) -> Tally:
    """Judge `count` mutants and print as it goes."""
    tally, started = Tally(), time.monotonic()
    stream = itertools.islice(mutants(seeds(), seed), count)
    print(f"seed {seed}", flush=True)
    while batch := list(itertools.islice(stream, _AT_ONCE)):
        before = len(tally.wrong)
        judge.judge(batch, tally)
        for wrong in tally.wrong[before:]:
            print(_told(wrong), flush=True)
        print(f"so far {_counted(tally)}", file=sys.stderr, flush=True)
    print(_counted(tally))
    print(f"{time.monotonic() - started:.0f} s; programs: {dict(tally.programs.most_common())}")
    return tally


def _counted(tally: Tally) -> str:
    decided = ", ".join(f"{number} {name}" for name, number in sorted(tally.decisions.items()))
    return f"{tally.decisions.total()} mutants: {decided}; {len(tally.wrong)} false allows"


def _sample(commands: list[str], count: int, seed: int) -> list[str]:
    known = readers(commands)
    return random.Random(seed).sample(known, min(count, len(known)))


def really_run(canary: Canary, chosen: list[str]) -> int:
    """Run commands that were allowed; how many of them did harm."""
    spills = canary.spills(chosen)
    for spill in spills:
        print(f"HARM: {spill.run_as!r}\n  {spill.why}", flush=True)
    print(f"{len(chosen)} allowed commands really run: {len(spills)} changed or showed something")
    return len(spills)


def _told(wrong: FalseAllow) -> str:
    return f"FALSE ALLOW in {wrong.context}: {wrong.text!r}\n  runs {wrong.run_as!r}\n  {wrong.why}"


if __name__ == "__main__":
    raise SystemExit(main())
