"""Hold the acceptance table against the last whole run of the tests.

Prints `N missing: capability` for each row of docs/reference/features.md without a passing test,
then `P of N rows proven`. What counts as proven is said in tests/plugins/features.py. Rows that are
not built yet are listed here; when any other is missing, the script ends with 1.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "reference" / "features.md"
RESULT = ROOT / ".features.json"
NOT_BUILT: frozenset[int] = frozenset()
"""Rows that may be missing. One that is proven leaves this list for good."""
_ROW = re.compile(r"^\| (\d+) \|(.*)\|$")
_KINDS = re.compile(r"must|must \(was \w+\)|test|risk|measure")


def rows(table: str) -> dict[int, str]:
    """The capabilities of the table by their numbers, in its order."""
    found: dict[int, str] = {}
    for line in table.splitlines():
        if match := _ROW.match(line):
            cells = [cell.strip() for cell in match[2].split(" | ")]
            found[int(match[1])] = cells[1] if _KINDS.fullmatch(cells[0]) else cells[0]
    return found


def proven(result: dict[str, dict[str, dict[str, str]]]) -> set[int]:
    """The rows with a test that passed and none that failed."""
    return {
        int(row)
        for row, tests in result["rows"].items()
        if "passed" in tests.values() and "failed" not in tests.values()
    }


def is_stale() -> bool:
    """Whether the code or the tests have changed since the run."""
    made = RESULT.stat().st_mtime
    files = (path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))
    return any(path.stat().st_mtime > made for path in files)


def main() -> int:
    """Print the account; 1 when there is no run to read, or when a row that was proven is not."""
    if not RESULT.exists():
        sys.stderr.write("There is no whole run of the tests to read: run scripts/test.\n")
        return 1
    if is_stale():
        sys.stderr.write("Note: the code has changed since that run; scripts/test renews it.\n")
    table = rows(TABLE.read_text(encoding="utf-8"))
    good = proven(json.loads(RESULT.read_text(encoding="utf-8")))
    missing = table.keys() - good
    for number, capability in table.items():
        if number in missing:
            sys.stdout.write(f"{number} missing: {capability}\n")
    for number in sorted(good & NOT_BUILT):
        sys.stdout.write(f"{number} is proven: take it out of NOT_BUILT in scripts/features.py\n")
    sys.stdout.write(f"{len(good & table.keys())} of {len(table)} rows proven\n")
    return 1 if missing - NOT_BUILT or good & NOT_BUILT else 0


if __name__ == "__main__":
    sys.exit(main())
