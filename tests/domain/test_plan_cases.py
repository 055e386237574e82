"""The cases of plan edits hold: a defect is refused before anything else can look at it."""

import json
from pathlib import Path

import pytest

from gonogo.domain.base import loads
from gonogo.domain.errors import InvalidPlan, Refused, TooLarge
from gonogo.domain.messages import PlanDecision, parse_message
from gonogo.domain.plan import parse_subtasks

FILE = Path(__file__).parents[1] / "cases/ws_http.jsonl"
CASES = [
    case
    for line in FILE.read_text("utf-8").splitlines()
    if (case := json.loads(line))["category"] == "plan-edit"
]
AGENTS = ["coder", "debug", "ask", "universal"]
CODES = {InvalidPlan: {"422", "error_chunk:invalid_plan"}, TooLarge: {"413"}}


def written_out(value):
    match value:
        case {"$repeat": [text, times]}:
            return text * times
        case dict():
            return {key: written_out(each) for key, each in value.items()}
        case list():
            return [written_out(each) for each in value]
        case _:
            return value


def message_of(case):
    if "json" in case["send"]:
        return written_out(case["send"]["json"]["message"])
    size = 10_000
    chained = [
        {
            "id": f"n{n}",
            "description": "d",
            "agent": "coder",
            "dependencies": [f"n{n - 1}"] if n else [],
        }
        for n in range(size)
    ]
    if "cycle" in case["send"]["generate"]:
        chained[0]["dependencies"] = [f"n{size - 1}"]
    return {
        "type": "plan_decision", "plan_id": "p1", "decision": "edit", "modified_subtasks": chained,
    }  # fmt: skip


def read(message):
    """A plan edit from the wire to its subtasks, as the runtime reads one."""
    decision = parse_message(loads(json.dumps(message)))
    assert isinstance(decision, PlanDecision)
    return parse_subtasks(decision.modified_subtasks, agents=AGENTS)


def outcomes(message):
    """What came of a plan edit, in the words of the cases."""
    try:
        subtasks = read(message)
    except Refused as refused:
        return CODES[type(refused)]
    return {"accepted"} if len({s.id for s in subtasks}) == len(subtasks) else set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']} {case['why']}")
def test_the_cases_of_plan_edits_hold(case):
    assert outcomes(message_of(case)) & set(case["expect"])


def test_no_case_is_missing():
    assert len(CASES) == 27
