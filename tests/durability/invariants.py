"""One checker for what must hold after whatever happened to a run of gonogo.

    problems = check_invariants(home / "gonogo.db", workspace, ledger(workspace), requests)
    assert problems == []

It reads the tables with plain SQL and holds them against each other and against what gonogo does
not write itself: the files, the ledger that commands keep, the requests that reached the model.
Each line it gives begins with the number of the invariant.

Checked here: I01-I06, I08, I10-I15, I20, I21 (files), I23, I25, I26, I28, I33, I35, I36 (attempts),
I37, I40, and I07 as far as rows can tell; `fingerprint` is for the rest of I07 and for I09, where a
test compares before and after. Not checked here: what needs a second principal (I16-I18), clocks
(I22), a second holder (I24), rollback (I27), load (I29-I31), a screen (I32), or a second run (I34,
I38).
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from durability import calls_hold, log_holds, plans_hold
from durability.evidence import TABLES, Evidence, Row, read

Problems = Iterator[str]


def check_invariants(
    database: Path | str,
    workspace: Path | None,
    ledger: Iterable[Row],
    model_requests: Iterable[Row],
    *,
    acknowledged: Iterable[Row] = (),
    settled: bool = True,
    edited_by_hand: Collection[str] = (),
    secrets: Collection[str] = (),
) -> list[str]:
    """What does not hold, a line each; empty when all is well.

    Args:
        database: The file of a SQLite database, or a URL.
        workspace: The folder that agents worked in; None when it is not to be looked at.
        ledger: Lines `{command, phase: start|end, …}` that the commands wrote themselves.
        model_requests: Bodies of Chat Completions requests.
        acknowledged: Events that clients were told.
        settled: Nothing runs any more, so whatever is open must wait for something that exists.
        edited_by_hand: Paths that somebody else changed, whose contents prove nothing.
        secrets: Texts that must be nowhere.
    """
    found = read(database, workspace, ledger, model_requests)
    if not found.tables:
        return [f"I37 {flaw}" for flaw in found.flaws]
    checks: list[Callable[[Evidence], Problems]] = [*log_holds.ALL, *calls_hold.ALL]
    checks += [*plans_hold.ALL, *(plans_hold.AT_REST if settled else [])]
    problems = [problem for check in checks for problem in check(found)]
    problems += calls_hold.effects_exist(found, edited_by_hand)
    problems += log_holds.acknowledged_survives(found, acknowledged)
    problems += log_holds.no_secret(found, secrets)
    return problems


def unreasoned(database: Path | str) -> list[str]:
    """What ran, was denied or was decided and has not its one entry that says why, or by whom."""
    tables = (
        "sessions", "tool_calls", "approvals", "audit", "events", "plans", "plan_revisions",
        "subtasks", "grants", "model_requests",
    )  # fmt: skip
    found = read(database, None, (), (), tables)
    checks = (
        calls_hold.nothing_runs_without_leave, calls_hold.denials_are_written_down,
        log_holds.questions_are_decided_once, plans_hold.only_what_was_approved_runs,
    )  # fmt: skip
    return [*found.flaws, *(problem for check in checks for problem in check(found))]


def fingerprint(database: Path | str, *but: str) -> str:
    """A hash of every row: equal when nothing has changed, but for the tables named."""
    found = read(database, None, (), ())
    kept: dict[str, Any] = {name: found.tables[name] for name in TABLES if name not in but}
    return hashlib.sha256(repr(kept).encode()).hexdigest()
