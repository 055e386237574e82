"""`python -m bench`: measure everything, print it, and write RESULTS.md; or only count."""

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import anyio

from bench import _counts, _growth, _postgres, _report
from bench._decisions import decision_ms
from bench._plans import layered_per_second, makespan_ratio, sequence_ms
from bench._processes import answerable_s, command_s, import_s, parked_cost, restart_s
from bench._report import Figure
from bench._rig import median, percentile
from bench._snapshots import CHANGED, FILES, snapshot_ms
from bench._waking import woken_per_second
from bench._yardstick import commit_ms
from bench.peers import beside
from gonogo.store import utc_now

T = TypeVar("T")


_YARDS: list[float] = []


def _measured(what: Callable[..., Awaitable[T]], *given: object, **named: object) -> T:
    _report.say(f"{what.__name__} {given} {named or ''}")
    _YARDS.append(commit_ms())
    found = anyio.run(partial(what, *given, **named))
    _YARDS.append(commit_ms())
    return found


def _commits(milliseconds: float) -> float:
    """A time in commits of the yardstick, as it was just before and just after."""
    return milliseconds / median(_YARDS[-2:])


def _plans(*, quick: bool) -> Iterator[Figure]:
    runs = 3 if quick else 7
    alone = _measured(sequence_ms, runs)
    yield Figure(
        work="200 no-op subtasks in sequence, each", unit="ms", value=alone, target="≤ 0.6",
        peers="1.5 to 46", commits=_commits(alone),
    )  # fmt: skip
    later = _measured(sequence_ms, runs, events_before=5_000)
    yield Figure(
        work="the same after 5,000 events, each", unit="ms", value=later, target="≤ 0.72",
        peers="1.2 to 13 times", commits=_commits(later),
    )  # fmt: skip
    at_once = _measured(layered_per_second, runs, 1, 50)
    yield Figure(
        work="50 no-op subtasks at once", unit="/s", value=at_once, target="≥ 5000",
        commits=_commits(1_000 / at_once),
    )  # fmt: skip
    layered = _measured(layered_per_second, 3, 4 if quick else 20, 50)
    yield Figure(
        work="layers of 50 no-op subtasks", unit="/s", value=layered, target="≥ 5000",
        peers="175 to 1,550", commits=_commits(1_000 / layered),
    )  # fmt: skip
    ratio = _measured(makespan_ratio, 1 if quick else 3)
    yield Figure(
        work="100 subtasks of 50 ms in layers ÷ critical path", unit="×", value=ratio,
        target="≤ 1.05", peers="1.15 to 2.4",
    )  # fmt: skip


def _people(*, quick: bool) -> Iterator[Figure]:
    took = _measured(decision_ms, 2 if quick else 5, 20)
    yield Figure(
        work="decision → the approved tool runs, p50", unit="ms", value=median(took),
        target="≤ 1.5", peers="3.6 to 500", commits=_commits(median(took)),
    )  # fmt: skip
    slow = percentile(took, 0.95)
    yield Figure(
        work="the same, p95", unit="ms", value=slow, target="≤ 3", commits=_commits(slow),
    )  # fmt: skip
    woken = _measured(woken_per_second, 200 if quick else 2_000)
    yield Figure(
        work="parked plans woken, each its own session", unit="/s", value=woken, target="≥ 5000",
        peers="30 to 200", commits=_commits(1_000 / woken),
    )  # fmt: skip
    memory, busy = _measured(parked_cost, 1_000 if quick else 10_000)
    yield Figure(
        work="a parked session's memory", unit="KiB", value=memory, target="≤ 2", peers="6 to 59"
    )
    yield Figure(
        work="cores taken while all are parked", unit="%", value=100 * busy, target="≤ 0.1",
        peers="0 to 45",
    )  # fmt: skip


def _starts(*, quick: bool) -> Iterator[Figure]:
    runs = 3 if quick else 5
    parked = _measured(answerable_s, runs, 100 if quick else 1_000)
    yield Figure(
        work="process start → an answer is taken, 1,000 parked", unit="s", value=parked,
        target="≤ 1.0", peers="5.7 to 33",
    )  # fmt: skip
    yield Figure(
        work="kill -9 → restart → the next step runs", unit="s", value=restart_s(runs),
        target="≤ 0.6", peers="0.35 to 9.7",
    )  # fmt: skip
    yield Figure(
        work="`gonogo --help`", unit="s", value=command_s(runs, "-m", "gonogo", "--help"),
        target="≤ 0.25", peers="imports alone 0.8 to 1.8",
    )  # fmt: skip
    yield Figure(work="`import gonogo.runtime`", unit="s", value=import_s(runs, "gonogo.runtime"))


def _files(*, quick: bool) -> Iterator[Figure]:
    _report.say("snapshot_ms")
    took = snapshot_ms(1 if quick else 3, 1_000 if quick else FILES)
    git = "git add and write-tree: {:,.0f} ms"
    yield Figure(
        work=f"first snapshot of {FILES:,} files", unit="ms", value=took.first,
        peers=git.format(took.git_first),
    )  # fmt: skip
    yield Figure(
        work=f"one more after {CHANGED} changes", unit="ms", value=took.again,
        peers=git.format(took.git_again),
    )  # fmt: skip


def _beside_peers() -> int:
    yard, rows = commit_ms(), list[str]()
    packages = [each for peer in beside.PEERS for each in peer.packages]
    packages += [peer.program[0] for peer in beside.PEERS if peer.program]
    for row in beside.table():
        print(row, flush=True)
        rows.append(row)
    _report.write_peers(rows, packages, (yard + commit_ms()) / 2, utc_now())
    return 0


def _grows(*, quick: bool) -> int:
    rows, loads = list[str](), [os.getloadavg()[0]]
    for row in _growth.curves(1 if quick else 3):
        print(row, flush=True)
        rows.append(row)
        loads.append(os.getloadavg()[0])
    if not quick:
        _report.write_growth(rows, "scripts/bench --growth", median(loads), utc_now())
    return 0


def _on_postgres() -> int:
    rows, loads = list[str](), [os.getloadavg()[0]]
    for row in _postgres.table():
        print(row, flush=True)
        rows.append(row)
        loads.append(os.getloadavg()[0])
    _report.write_postgres(rows, "scripts/bench --postgres", median(loads), utc_now())
    return 0


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs, no file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check", action="store_true", help="only count, and fail where a count grew"
    )
    parser.add_argument(
        "--renew", action="store_true", help="with --check: keep what is counted now"
    )
    parser.add_argument(
        "--peers", action="store_true", help="install peers, and measure gonogo beside them"
    )
    parser.add_argument(
        "--growth", action="store_true",
        help="measure how the processor time of a step grows with history, plans and sessions",
    )  # fmt: skip
    parser.add_argument("--postgres", action="store_true", help="measure PostgreSQL beside SQLite")
    given = parser.parse_args()
    if given.check or given.renew:
        return _counts.check(renew=given.renew)
    if given.peers:
        return _beside_peers()
    if given.postgres:
        return _on_postgres()
    if given.growth:
        return _grows(quick=given.quick)
    figures = [f for part in (_plans, _people, _files, _starts) for f in part(quick=given.quick)]
    yard = median(_YARDS)
    if not given.quick:
        _report.write(figures, yard, "scripts/bench", utc_now())
    if given.json:
        print(json.dumps(_report.as_json(figures, yard), indent=1, ensure_ascii=False))
    else:
        print(_report.as_table(figures, yard))
    return 0


if __name__ == "__main__":
    sys.exit(main())
