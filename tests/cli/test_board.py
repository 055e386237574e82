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
    windows = {"look": "window 10%", "fix": "window 41%"}
    lines = board_lines(PLAN, width=80, height=20, locale="en", windows=windows)
    told = [line.plain for line in lines if "window" in line.plain]
    assert told == ["│ ▶   fix  coder · 10.0 s · attempt 2 · window 41%"]


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


EVERY_STATE = graph(
    node("done", "completed", started_at=TEN_SECONDS_AGO, finished_at=NOON),
    node(
        "bad", "failed", "done", started_at=TEN_SECONDS_AGO, attempt=3,
        finished_at=NOON - timedelta(seconds=4),
    ),
    node("gone", "skipped", "bad"),
    node("off", "cancelled", "bad", started_at=TEN_SECONDS_AGO),
    node("now", "running", "done", started_at=TEN_SECONDS_AGO),
    node("ask", "waiting_approval", "done", started_at=TEN_SECONDS_AGO),
    node("next", "pending", "done", started_at=TEN_SECONDS_AGO),
    node("last", "pending", "next", "now", "ask"),
)  # fmt: skip


def styled(plan: PlanGraph, width: int, height: int) -> list[tuple[str, str]]:
    lines = board_lines(plan, width=width, height=height, locale="en", since=2.5)
    return [(line.plain, str(line.style)) for line in lines]


def test_each_state_has_its_mark_its_colour_and_what_is_to_be_known_of_it():
    told = [
        ("✓ done coder · 10.0 s", "green"),
        ("✗ bad  coder · failed · 6.0 s · attempt 3", "red"),
        ("↷ gone coder · skipped", "dim"),
        ("■ off  coder · cancelled · 12.5 s", "dim"),
        ("▶ now  coder · 12.5 s", "bold cyan"),
        ("? ask  coder · waits for a person · 12.5 s", "bold yellow"),
        ("○ next coder", "dim"),
        ("○ last coder · after next, now, ask", "dim"),
    ]
    assert styled(EVERY_STATE, 60, 9)[1:] == told
    narrow = styled(EVERY_STATE, 59, 9)[1:]
    assert narrow == [(text.replace("coder · ", "").replace(" coder", ""), s) for text, s in told]


@pytest.mark.parametrize(
    ("height", "shown", "more"),
    [
        (8, ["done", "bad", "now", "ask", "next", "last"], ["… 2 more"]),
        (7, ["bad", "now", "ask", "next", "last"], ["… 3 more"]),
        (6, ["bad", "now", "ask", "next"], ["… 4 more"]),
        (5, ["bad", "now", "ask"], ["… 5 more"]),
        (4, ["now", "ask"], ["… 6 more"]),
        (3, ["now"], ["… 7 more"]),
        (2, ["now"], []),
        (1, [], []),
    ],
)
def test_what_a_person_wants_to_see_first_is_kept_in_the_room_there_is(height, shown, more):
    head, *lines = styled(EVERY_STATE, 80, height)

    assert head == ("4/8 ━━━━━━━━━━──────────", "bold")
    assert [text.split()[1] for text, _ in lines[: len(shown)]] == shown
    assert lines[len(shown) :] == [(text, "dim") for text in more]


@pytest.mark.parametrize(
    ("width", "height", "is_drawn"), [(20, 9, True), (19, 9, False), (20, 8, False)]
)
def test_lines_are_drawn_where_they_take_a_quarter_of_the_width_and_all_the_room(
    width, height, is_drawn
):
    assert (styled(PLAN, width, height)[2] == ("├─╮", "dim")) is is_drawn


def test_the_bar_is_as_full_as_the_plan_is_done_and_says_what_holds_it_up():
    over = node("a", "completed")
    bars = [
        graph(), graph(over, node("b", "failed"), node("c", "running")),
        graph(over, status="paused"), graph(over, status="replanning"),
    ]  # fmt: skip
    heads = [board_lines(each, width=50, height=9, locale="ru")[0] for each in bars]

    assert [head.plain for head in heads] == [
        "0/0 ────────────────────", "2/3 ━━━━━━━━━━━━━───────",
        "1/1 ━━━━━━━━━━━━━━━━━━━━ приостановлен", "1/1 ━━━━━━━━━━━━━━━━━━━━ перепланируется",
    ]  # fmt: skip
    assert [(span.start, span.end, span.style) for span in heads[1].spans] == [
        (4, 17, "green"), (17, 24, "dim"),
    ]  # fmt: skip
    assert heads[2].spans[-1].style == "bold yellow"
    assert board_lines(bars[2], width=12, height=9, locale="en")[0].plain == "1/1 ━━━━━━━━"


def test_names_and_who_does_it_are_cut_to_their_share_of_the_width():
    long = node("abcdefghijklmnopqrstuvwxyz", "running", agent="x" * 20)

    assert drawn(graph(long), width=60)[1] == "▶ abcdefghijklmnopqrs… xxxxxxxxxxx…"
    assert drawn(graph(long), width=60, height=1) == ["0/1 ────────────────────"]
