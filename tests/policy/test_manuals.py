"""What an attacker finds in the manuals of programs, and what must come of it.

Each case has rules as broad as a person may write them; a rule that is refused allows nothing.
"""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.policy import check_command, read_contexts
from gonogo.workspace import Sandbox
from mutants.canary import Canary, readers
from mutants.workspace import build, matching, outside

LINES = (Path(__file__).parents[1] / "cases" / "manuals.jsonl").read_text("utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def _context(case):
    return read_contexts({"A": {"allow": case["allow"]}})["A"]


def _name(case):
    return f"{case['id']} {case['cmd']}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_command_from_a_manual_gets_the_verdict_of_its_case(case):
    found = check_command(case["cmd"], _context(case))
    assert found.decision == case["expect"], f"{case['why']}: {found.reason}"


@pytest.mark.unmeasured
def test_what_is_allowed_of_them_changes_no_file_and_shows_no_secret(tmp_path):
    sandbox = Sandbox.detect()
    if sandbox is None:
        pytest.skip("commands are only tried where bubblewrap works")
    root = tmp_path.resolve()
    build(root)
    look = {"outside": outside(root), "matching": matching(root)}
    contexts = [(case["cmd"], _context(case)) for case in CASES]
    found = [
        check_command(command, replace(context, conditions=replace(context.conditions, **look)))
        for command, context in contexts
    ]
    # `cp` is what a rule allows, and no reader.
    run = [each.run_as for each in found if each.run_as and not each.run_as.startswith("cp ")]

    assert len(run) > 40
    assert Canary(sandbox, root).spills(readers(run)) == []
