"""A plan under way, as a terminal's last lines: all of it that matters, in the room there is."""

from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from gonogo.cli.terminal.plan_graph import board_lines
from gonogo.domain.plan_views import GraphNode, PlanGraph

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def node(name: str, status: str, *after: str, **fields: object) -> GraphNode:
    facts = {"description": "do", "agent": "coder", "type": "action", "estimated_time": "1 min"}
    return GraphNode.model_validate(
        {"id": name, "status": status, "dependencies": after, "attempt": 1, **facts, **fields}
    )


def graph(*nodes: GraphNode, status: str = "running") -> PlanGraph:
    return PlanGraph(
        plan_id="p", session_id="s", revision=1, status=status, as_of=NOON, last_seq=1,
        nodes=list(nodes), edges=[], critical_path=[], actual_path=[],
    )  # fmt: skip


def drawn(plan: PlanGraph, width: int = 80, height: int = 20, since: float = 0.0) -> list[str]:
    lines = board_lines(plan, width=width, height=height, locale="en", since=since)
    return [line.plain for line in lines]


TEN_SECONDS_AGO = NOON - timedelta(seconds=10)
PLAN = graph(
    node("look", "completed", started_at=TEN_SECONDS_AGO, finished_at=NOON),
    node("fix", "running", "look", started_at=TEN_SECONDS_AGO, attempt=2),
    node("ask", "waiting_approval", "look", started_at=TEN_SECONDS_AGO),
    node("tell", "pending", "look", "fix", "ask"),
)


def test_each_subtask_has_its_state_agent_time_and_retries_and_lines_to_those_that_wait_for_it():
    assert drawn(PLAN, since=2.5) == [
        "1/4 ━━━━━───────────────",
        "✓     look coder · 10.0 s",
        "├─╮",
        "│ ▶   fix  coder · 12.5 s · attempt 2",
        "├─│─╮",
        "│ │ ? ask  coder · waits for a person · 12.5 s",
        "├─┴─╯",
        "○     tell coder",
    ]


def test_how_full_the_window_of_those_at_work_is_stands_beside_them():
    windows = {"look": "window 10 %", "fix": "window 41 %"}
    lines = board_lines(PLAN, width=80, height=20, locale="en", windows=windows)
    told = [line.plain for line in lines if "window" in line.plain]
    assert told == ["│ ▶   fix  coder · 10.0 s · attempt 2 · window 41 %"]


def test_where_there_is_no_room_for_lines_each_says_what_it_waits_for():
    assert drawn(PLAN, height=8, since=2.5) == [
        "1/4 ━━━━━───────────────",
        "✓ look coder · 10.0 s",
        "▶ fix  coder · 12.5 s · attempt 2",
        "? ask  coder · waits for a person · 12.5 s",
        "○ tell coder · after fix, ask",
    ]


def test_a_plan_that_stands_still_says_so():
    assert drawn(graph(node("a", "pending"), status="paused"))[0].endswith(" paused")


@pytest.mark.parametrize("width", [12, 20, 40, 200])
def test_every_line_fits_the_width_and_the_states_are_in_it(width: int):
    wide = node("ж漢" * 40, "failed", "look", started_at=TEN_SECONDS_AGO, finished_at=NOON)
    for height in (7, 20):
        lines = drawn(graph(*PLAN.nodes, wide), width=width, height=height)
        assert max(map(cell_len, lines)) <= width
        states = [mark for line in lines for mark in line if mark in "✓▶?○✗"]
        assert states == ["✓", "▶", "?", "○", "✗"]


def test_a_name_keeps_eight_cells_where_there_is_little_room():
    narrow = drawn(graph(node("abcdefghijkl", "running", attempt=2)), width=24)
    assert narrow[1].startswith("▶ abcdefg… ")


def test_where_there_is_no_room_for_all_what_runs_or_waits_is_kept():
    idle = [node(f"n{number}", "pending") for number in range(30)]
    over = [node(f"d{number}", "completed") for number in range(30)]
    lines = drawn(graph(*over, *idle, *PLAN.nodes), height=6)
    assert len(lines) == 6
    assert [line.split()[1] for line in lines[1:5]] == ["n0", "n1", "fix", "ask"]
    assert lines[5] == "… 60 more"


def test_names_from_a_plan_have_no_power_over_the_terminal():
    assert "\x1b" not in "".join(drawn(graph(node("a\x1b[2J", "running", "b\x1b[2J"))))
