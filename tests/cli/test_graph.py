"""Plans drawn in the terminal: edges are there, states are words, and nothing deceives."""

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live

from gonogo.cli.session.live import JsonGraphs, Redrawn, Told, _board, _follow, _is_news
from gonogo.cli.terminal.plan_graph import graph_lines, rails, timeline_lines
from gonogo.cli.terminal.render import diff_lines
from gonogo.client import Client
from gonogo.domain.errors import NotFound
from gonogo.domain.plan import Scope, Subtask
from gonogo.domain.plan_views import GraphNode, PlanDiff, PlanGraph

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(key: str, *after: str, ran: tuple[float, float] | None = None, **more: Any) -> GraphNode:
    given_ = {
        "id": key, "description": f"do {key}", "agent": "coder", "type": "action",
        "dependencies": list(after), "estimated_time": "5 min", "status": "pending", "attempt": 0,
    }  # fmt: skip
    if ran:
        given_ |= {"started_at": at(ran[0]), "finished_at": at(ran[1]), "status": "completed"}
    return GraphNode(**{**given_, **more})


def graph(*nodes: GraphNode, **more: Any) -> PlanGraph:
    given_ = {
        "plan_id": "p", "session_id": "s", "revision": 1, "status": "running", "as_of": at(20),
        "last_seq": 1, "nodes": nodes, "edges": [], "critical_path": [], "actual_path": [],
    }  # fmt: skip
    return PlanGraph(**{**given_, **more})


def drawn(*nodes: tuple[str, str]) -> list[str]:
    found = rails([(key, after.split()) for key, after in nodes])
    return [f"{row.text} {row.key}" if row.key else row.text for row in found]


def test_a_chain_is_one_line_down():
    assert drawn(("a", ""), ("b", "a")) == ["● a", "│", "● b"]


def test_a_diamond_parts_and_meets_again():
    assert drawn(("a", ""), ("b", "a"), ("c", "a"), ("d", "b c")) == [
        "● a",
        "├─╮",
        "│ ● b",
        "│ │",
        "● │ c",
        "├─╯",
        "● d",
    ]


def test_independent_nodes_are_not_joined():
    assert drawn(("a", ""), ("b", "")) == ["● a", "● b"]
    assert drawn(("a", ""), ("b", ""), ("c", "a")) == ["● a", "│ ● b", "│", "● c"]


def test_an_edge_that_only_crosses_a_rail_is_drawn_through_it():
    assert drawn(("a", ""), ("b", ""), ("c", ""), ("d", "a c"), ("e", "b")) == [
        "● a",
        "│ ● b",
        "│ │ ● c",
        "├─│─╯",
        "● │ d",
        "  │",
        "  ● e",
    ]


def test_layers_keep_every_edge():
    assert drawn(("a", ""), ("b", ""), ("c", "a b"), ("d", "a b")) == [
        "● a",
        "│ ● b",
        "├─┼─╮",
        "│ │ ● c",
        "├─╯",
        "● d",
    ]


def test_nodes_that_wait_for_each_other_are_drawn_and_not_waited_for():
    assert [row.key for row in rails([("a", ["b"]), ("b", ["a"])]) if row.key] == ["a", "b"]


LINES_UP, LINES_DOWN = "│┤├┼╯╰┴●", "│┤├┼╮╭┬●"


@given(
    st.lists(st.sets(st.integers(0, 11), max_size=3), min_size=1, max_size=12).map(
        lambda wanted: [
            (f"n{i}", [f"n{d}" for d in sorted(after) if d < i]) for i, after in enumerate(wanted)
        ]
    )
)
def test_every_node_is_drawn_once_below_what_it_waits_for_and_no_line_ends_in_nothing(nodes):
    found = rails(nodes)
    keys = [row.key for row in found if row.key]

    assert sorted(keys) == sorted(key for key, _ in nodes)
    for key, after in nodes:
        assert all(keys.index(each) < keys.index(key) for each in after)
    for above, below in pairwise(found):
        for place, sign in enumerate(below.text):
            if sign in "│┤├┼╯╰┴":
                assert above.text[place : place + 1] in [*LINES_DOWN], (above, below)
        for place, sign in enumerate(above.text):
            if sign in "│┤├┼╮╭┬":
                assert below.text[place : place + 1] in [*LINES_UP], (above, below)


DIAMOND = graph(
    node("a", ran=(0, 2)),
    node("b", "a", ran=(2, 10), attempt=2),
    node("c", "a", status="waiting_approval", started_at=at(2), attempt=1),
    node("d", "b", "c"),
    actual_path=["a", "b"],
)


@pytest.mark.feature(113)
def test_the_graph_shows_edges_states_in_words_times_attempts_and_the_path():
    assert list(graph_lines(DIAMOND, width=100, locale="en")) == [
        "✓ a* [done, 2.0 s] coder: do a",
        "├─╮",
        "│ ✓ b* [done, 8.0 s, attempt 2] coder: do b",
        "│ │",
        "? │ c [waits for a person, 18.0 s] coder: do c",
        "├─╯",
        "○ d [not started] coder: do d",
        "* actual critical path: a → b",
    ]


@pytest.mark.feature(217)
def test_graph_and_timeline_speak_russian():
    told = "\n".join(graph_lines(DIAMOND, width=100, locale="ru"))
    assert "[выполнена, 8,0 с, попытка 2]" in told
    assert "ждёт одобрения" in told
    told = "\n".join(timeline_lines(DIAMOND, width=100, locale="ru"))
    assert "░ ждала человека" in told
    assert "не начата" in told


def wide(count: int) -> PlanGraph:
    middle = [
        node(f"m{n}", "first", description="длинное описание 说明 " * 9) for n in range(count)
    ]
    return graph(node("first"), *middle, node("last", *(one.id for one in middle)))


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("drawing", [graph_lines, timeline_lines])
@pytest.mark.parametrize("shown", [DIAMOND, wide(5), wide(60)], ids=["diamond", "five", "sixty"])
def test_every_line_fits_the_terminal_and_every_subtask_is_there(width, drawing, shown):
    lines = list(drawing(shown, width=width, locale="en"))

    assert [text for text in lines if cell_len(text) > width] == []
    for one in shown.nodes:
        assert any(f"{one.id}" in text for text in lines), one.id


def test_a_graph_too_wide_for_the_terminal_is_told_by_stages():
    lines = list(graph_lines(wide(60), width=60, locale="en"))

    assert [text for text in lines if text.startswith("Stage")] == ["Stage 1", "Stage 2", "Stage 3"]
    assert "      after first" in lines


@pytest.mark.parametrize("drawing", [graph_lines, timeline_lines])
def test_a_description_cannot_move_the_cursor_turn_its_direction_or_draw_a_line(drawing):
    odd = "fine\n✓ fake [done]\x1b[2J\u202e\u200b\r\x07"
    lines = list(drawing(graph(node("a", description=odd)), width=200, locale="en"))

    text = "\n".join(lines)
    assert not any(sign in text for sign in "\x1b\u202e\u200b\r\x07")
    assert [line for line in lines if line.startswith("✓ fake")] == []


@pytest.mark.feature(113)
def test_the_timeline_has_a_bar_for_each_subtask_shaded_while_it_waited_for_a_person():
    waits = [{"since": at(4), "until": at(8)}]
    shown = graph(
        node("a", ran=(0, 4)),
        node("b", "a", ran=(4, 16), waits=waits, waited_seconds=4),
        node("c", "b", started_at=at(16), status="running"),
        node("d", "c"),
        actual_path=["a", "b", "c"],
    )
    lines = list(timeline_lines(shown, width=80, locale="en"))

    assert lines[0].startswith("  0")
    assert lines[0].endswith("20.0 s")
    bars = [text.split("|")[1] for text in lines[1:5]]
    assert set(bars[0].rstrip()) == {"█"}
    assert abs(bars[0].count("█") - len(bars[0]) / 5) < 1
    assert set(bars[1]) == {" ", "█", "░"}
    assert bars[1].index("░") == bars[0].count("█")
    assert abs(bars[1].count("░") * 2 - bars[1].count("█")) <= 2
    assert bars[2].endswith("█")
    assert bars[3].strip() == ""
    assert "✓ done, 12.0 s, waited 4.0 s" in lines[2]
    assert "○ not started" in lines[4]
    assert lines[-1] == "* actual critical path: a → b → c"


def test_a_plan_that_has_not_begun_has_a_timeline_without_bars():
    lines = list(timeline_lines(graph(node("a"), node("b", "a")), width=80, locale="en"))

    assert "█" not in "".join(lines[:-2])
    assert any("b" in text and "not started" in text for text in lines)


@pytest.mark.feature(206)
def test_a_difference_shows_what_was_added_removed_and_changed():
    diff = PlanDiff(
        plan_id="p", from_revision=1, to_revision=2,
        added=[
            Subtask(
                id="new", description="Do\x1b more", agent="debug", dependencies=("a",),
                scope=Scope(commands=("pytest -q",)),
            )
        ],
        removed=[Subtask(id="old", description="Do less", agent="coder")],
        changed=[
            {"id": "a", "fields": {
                "description": {"from": "Do it", "to": "Do it well"},
                "dependencies": {"from": [], "to": ["b"]},
                "timeout": {"from": None, "to": 60.0},
            }}
        ],
    )  # fmt: skip
    assert list(diff_lines(diff)) == [
        "p  revision 1 → 2",
        "- old: Do less (coder)",
        "+ new: Do\\x1b more (debug)",
        "    after a",
        "    allowed: files anywhere in the workspace; commands pytest -q; all tools of its agent",
        "~ a",
        "    description: Do it → Do it well",
        '    dependencies: none → ["b"]',
        "    timeout: none → 60.0",
    ]


@pytest.mark.parametrize("only", ["added", "removed", "changed"])
def test_two_revisions_that_differ_in_one_way_are_not_said_to_be_the_same(only):
    subtask = Subtask(id="a", description="Do it", agent="coder")
    change = {"id": "a", "fields": {"timeout": {"from": None, "to": 60.0}}}
    found = {"added": [], "removed": [], "changed": []}
    found[only] = [change if only == "changed" else subtask]
    lines = list(diff_lines(PlanDiff(plan_id="p", from_revision=1, to_revision=2, **found)))
    assert len(lines) > 1
    assert "No subtasks differ." not in lines


def test_two_revisions_with_the_same_subtasks_are_said_to_be_so():
    diff = PlanDiff(plan_id="p", from_revision=1, to_revision=2, added=[], removed=[], changed=[])
    assert list(diff_lines(diff))[-1] == "No subtasks differ."


def nodes_of(found: PlanGraph) -> Iterator[str]:
    yield from (f"{each.id}\x1b" for each in found.nodes)


def test_a_watched_plan_is_drawn_in_the_terminal_and_commands_nothing():
    out = io.StringIO()
    console = Console(file=out, width=40, force_terminal=True, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        Redrawn(live, nodes_of).show(graph(node("a"), node("b")))

    written = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", out.getvalue())
    assert "a\\x1b\nb\\x1b" in written
    assert "\x1b" not in written


def test_where_nobody_looks_a_watched_plan_is_told_in_lines_of_the_persons_language(capsys):
    _, board = _board(nodes_of, "ru", json=False)
    board.show(graph(node("a"), status="completed"))

    assert capsys.readouterr().out == "12:00:20 a не начата\na\\x1b\n"


async def test_a_watched_plan_is_followed_from_where_it_was_looked_at():
    asked: list[tuple[str, str]] = []

    def server(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, request.url.params["after"]))
        return httpx.Response(404, json={"detail": "It is gone", "code": "not_found"})

    transport = httpx.MockTransport(server)
    async with Client("http://127.0.0.1:1", token="t", transport=transport) as client:
        with pytest.raises(NotFound):
            await _follow(client, graph(node("a"), last_seq=7), JsonGraphs())

    assert asked == [("/api/v1/sessions/s/events", "7")]


WAITED = [{"since": at(4), "until": at(8)}]
COURSE = graph(
    node("a", ran=(0, 4)),
    node("b", "a", ran=(4, 16), waits=WAITED, waited_seconds=4),
    node("c", "b", started_at=at(16), status="running"),
    node("d", "c"),
    actual_path=["a", "b", "c"],
)
STATES = [
    "✓ done, 4.0 s",
        "✓ done, 12.0 s, waited 4.0 s", "▶ running, 4.0 s", "○ not started",
]  # fmt: skip


def test_a_timeline_has_bars_as_long_as_those_have_twelve_cells():
    path = "* actual critical path: a → b → c"
    bars = ["██          ", "  ░░░█████  ", "          ██", "            "]

    assert list(timeline_lines(COURSE, width=44, locale="en")) == [
        "  0      20.0 s",
        *(f"{key} |{bar}|{state}" for key, bar, state in zip("abcd", bars, STATES, strict=True)),
        "█ worked  ░ waited for a person",
        path,
    ]
    assert list(timeline_lines(COURSE, width=43, locale="en")) == [
        *(f"{key} {state}" for key, state in zip("abcd", STATES, strict=True)), path,
    ]  # fmt: skip


def test_names_take_a_third_of_a_timeline_and_are_cut_by_cells():
    shown = graph(node("漢字" * 9), node("b" * 9, ran=(0, 3)), node("c", ran=(3, 20)))

    assert list(timeline_lines(shown, width=44, locale="en")) == [
        "               0       20.0 s",
        "漢字漢字漢字 … |             |○ not started",
        "bbbbbbbbb      |██           |✓ done, 3.0 s",
        "c              |  ███████████|✓ done, 17.0 s",
        "█ worked  ░ waited for a person",
        "* estimated critical path:",
    ]


def test_a_timeline_begins_where_a_person_was_first_waited_for():
    waits = [{"since": at(2), "until": at(6)}, {"since": at(7), "until": at(8)}]
    asked = node("y", waits=waits, status="waiting_approval")
    began = node("w", started_at=at(6), waits=[{"since": at(7), "until": at(9)}], status="failed")

    assert list(timeline_lines(graph(asked, began, as_of=at(10)), width=42, locale="en")) == [
        "  0             8.0 s",
        "y |░░░░░░░░░  ░░░    |? waits for a person",
        "w |         ██░░░░░██|✗ failed, 4.0 s",
        "█ worked  ░ waited for a person",
        "* estimated critical path:",
    ]


def test_what_took_no_time_has_a_cell_all_the_same_and_no_subtask_no_line():
    at_once = list(timeline_lines(graph(node("a", ran=(5, 5))), width=40, locale="en"))
    nothing = list(timeline_lines(graph(), width=60, locale="en"))

    assert at_once[:2] == ["  0                  0.0 s", "a |█                      |✓ done, 0.0 s"]
    assert nothing == [
        f"  0{' ' * 51}0.0 s", "█ worked  ░ waited for a person", "* estimated critical path:",
    ]  # fmt: skip
    assert list(graph_lines(graph(), width=60, locale="en")) == ["* estimated critical path:"]


ELEVEN = graph(
    node("a"),
    *(node(f"m{number}", "a", status="skipped") for number in range(11)),
    node(
        "z", *(f"m{number}" for number in range(11)), waits=WAITED, waited_seconds=4, attempt=3,
        status="failed",
    ),
    critical_path=["a", "z"],
)  # fmt: skip


def test_lines_may_take_half_the_terminal_and_what_is_wider_is_told_by_stages():
    drawn_ = list(graph_lines(ELEVEN, width=42, locale="en"))
    assert drawn_[:3] == ["○ a* [not started] coder: do a", "├─╮", "│ ↷ m0 [skipped] coder: do m0"]
    assert drawn_[-4:] == [
        "↷ │ │ │ │ │ │ │ │ │ │ m10 [skipped] coder…",
        "├─┴─┴─┴─┴─┴─┴─┴─┴─┴─╯",
        "✗ z* [failed, waited 4.0 s, attempt 3] co…",
        "* estimated critical path: a → z",
    ]

    middle = [
        line
        for number in range(11)
        for line in (f"  ↷ m{number} [skipped] coder: do m{number}", "      after a")
    ]
    assert list(graph_lines(ELEVEN, width=41, locale="en")) == [
        "Stage 1",
        "  ○ a* [not started] coder: do a",
        "Stage 2",
        *middle,
        "Stage 3",
        "  ✗ z* [failed, waited 4.0 s, attempt 3]…",
        "      after m0, m1, m2, m3, m4, m5, m6,…",
        "* estimated critical path: a → z",
    ]


def test_a_terminal_of_hardly_any_width_is_drawn_as_if_it_had_twenty_cells():
    narrow = list(graph_lines(DIAMOND, width=3, locale="en"))

    assert narrow == list(graph_lines(DIAMOND, width=20, locale="en"))
    assert narrow[0] == "✓ a* [done, 2.0 s]…"
    assert list(timeline_lines(COURSE, width=3, locale="en")) == list(
        timeline_lines(COURSE, width=20, locale="en")
    )


@pytest.mark.parametrize(
    ("fields", "is_news"),
    [
        ({}, True), ({"type": "plan_paused"}, True), ({"type": "approval_requested"}, True),
        ({"type": "tool_call"}, False), ({"type": "xplan_paused"}, False), ({"seq": 6}, False),
        ({"seq": 7}, False), ({"seq": None}, False), ({"plan_id": "q"}, False),
        ({"plan_id": None}, False),
    ],
)  # fmt: skip
def test_a_watched_plan_is_looked_at_again_when_something_later_is_told_of_it(fields, is_news):
    event = {"type": "subtask_started", "plan_id": "p", "seq": 8} | fields
    given_ = {name: value for name, value in event.items() if value is not None}
    assert _is_news(given_, graph(node("a"), last_seq=7)) is is_news


def test_a_watched_plan_is_a_line_of_json_for_programs(capsys):
    shown = graph(node("a", description="ж"))
    JsonGraphs().show(shown)
    out = capsys.readouterr().out

    assert json.loads(out) == shown.model_dump(mode="json", exclude_none=True)
    assert (out.isascii(), out.count("\n")) == (True, 1)
    _, board = _board(nodes_of, "en", json=True)
    assert isinstance(board, JsonGraphs)


def test_each_change_of_a_watched_plan_is_told_once_and_the_drawing_at_its_end():
    told: list[str] = []
    board = Told(told.append, nodes_of, "en")
    for nodes, more in (
        ([node("a"), node("b")], {}),
        ([node("a", status="running"), node("b")], {"as_of": at(3_661)}),
        ([node("a", status="running"), node("b")], {"status": "paused"}),
        ([node("a", ran=(0, 1)), node("b")], {"status": "partial"}),
    ):
        board.show(graph(*nodes, **more))
    assert told == [
        "12:00:20 a not started", "12:00:20 b not started", "13:01:01 a running",
        "12:00:20 a done", "a\x1b", "b\x1b",
    ]  # fmt: skip


async def test_a_watched_plan_is_drawn_at_each_change_until_it_is_over():
    graphs = [graph(node("a"), last_seq=9), graph(node("a"), status="completed", last_seq=12)]
    events = [
        {"type": "tool_call", "seq": 8}, {"type": "plan_paused", "seq": 8},
        {"type": "plan_paused", "seq": 9}, {"type": "plan_completed", "seq": 12},
        {"type": "plan_paused", "seq": 13},
    ]  # fmt: skip

    class Following:
        async def follow(self, session_id, after):
            assert (session_id, after) == ("s", 7)
            for event in events:
                yield {"plan_id": "p", **event}

        async def plan_graph(self, plan_id):
            assert plan_id == "p"
            return graphs.pop(0)

    shown: list[PlanGraph] = []

    class Board:
        show = staticmethod(shown.append)

    client: Any = Following()
    last = await _follow(client, graph(node("a"), last_seq=7), Board())
    assert [(each.last_seq, str(each.status)) for each in shown] == [
        (9, "running"), (12, "completed"),
    ]  # fmt: skip
    assert last is shown[-1]
