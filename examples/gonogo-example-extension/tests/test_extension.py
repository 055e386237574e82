"""What the extension teaches gonogo, without a runtime."""

import pytest

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failures import Category
from gonogo.domain.failures import Patterns
from gonogo.domain.plan import parse_subtasks
from gonogo.domain.schedule import Outlook
from gonogo_example_extension import LICENCE, WAIT, shortest_first


def parsed(*subtasks):
    return parse_subtasks(
        [{"description": "d", "type": "wait", **subtask} for subtask in subtasks],
        agents=["coder"],
        kinds={"wait": WAIT},
    )


@pytest.mark.parametrize("inputs", [{}, {"seconds": 0}, {"seconds": "1"}, {"seconds": True}])
def test_a_wait_needs_its_seconds(inputs):
    with pytest.raises(InvalidPlan, match="seconds"):
        parsed({"inputs": inputs})


def test_a_wait_is_nobodys_work():
    with pytest.raises(InvalidPlan, match="not for the type 'wait'"):
        parsed({"inputs": {"seconds": 1}, "agent": "coder"})


def test_an_expired_licence_is_known_by_its_words():
    text = "build failed: licence has expired"

    assert Patterns().classify_text(text).category is Category.UNKNOWN
    found = Patterns().with_rule(LICENCE).classify_text(text)
    assert (found.category, found.requires_replanning) == (Category.ENVIRONMENT, True)


def test_the_shortest_starts_first():
    subtasks = parsed(
        {"id": "long", "estimated_time": "1 h", "inputs": {"seconds": 1}},
        {"id": "short", "estimated_time": "5 s", "inputs": {"seconds": 1}},
    )

    assert list(shortest_first(subtasks, Outlook(standings={}, remaining={}))) == ["short", "long"]
