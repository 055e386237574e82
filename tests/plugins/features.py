"""Which rows of the acceptance table the last whole run of the tests proved.

A row is proven when at least one test marked `feature(n)` passed and none of them failed; a test
that was skipped proves nothing, and one that is expected to fail counts as failed. The outcome goes
to `.features.json` for `scripts/features`; a run of only some tests leaves that file alone.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

RESULT = ".features.json"

_rows: dict[int, dict[str, str]] = defaultdict(dict)


def pytest_configure() -> None:
    """Forget an earlier session of the same process."""
    _rows.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each report carry the rows of its test."""
    for item in items:
        for mark in item.iter_markers("feature"):
            item.user_properties.extend(("feature", row) for row in mark.args)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how each test of a row ended; its set-up and its clean-up count too."""
    for name, row in report.user_properties:
        if name == "feature":
            seen = _rows[int(str(row))]
            seen[report.nodeid] = _worse(seen.get(report.nodeid), _outcome(report))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the outcome, if the whole suite was asked for and nothing stopped it."""
    if hasattr(session.config, "workerinput"):
        return
    stopped = exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if stopped or not _is_whole(session.config):
        return
    rows = {str(row): dict(sorted(_rows[row].items())) for row in sorted(_rows)}
    (Path(session.config.rootpath) / RESULT).write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def _is_whole(config: pytest.Config) -> bool:
    option: Any = config.option
    narrowed = option.keyword or option.markexpr or option.collectonly or option.maxfail
    narrowed = narrowed or getattr(option, "lf", False) or getattr(option, "stepwise", False)
    narrowed = narrowed or option.ignore or option.ignore_glob or option.deselect
    return not narrowed and config.args_source is pytest.Config.ArgsSource.TESTPATHS


def _outcome(report: pytest.TestReport) -> str:
    return "failed" if hasattr(report, "wasxfail") else report.outcome


def _worse(one: str | None, other: str) -> str:
    order = ["passed", "skipped", "failed"]
    return max(one or "passed", other, key=order.index)
