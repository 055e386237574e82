"""The cases of tests/cases/ws_http.jsonl, one an object."""

import json
from pathlib import Path

_FILE = Path(__file__).parent.parent / "cases" / "ws_http.jsonl"
CASES = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
