"""The drawn terminal: what is settled scrolls, the rest is drawn anew, nothing commands it."""

import io
import re
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from fakes.until import until
from gonogo.cli.session.live import Live, safe_markdown
from gonogo.cli.terminal.input import Foot, key_prompt, line_prompt, rows_taken
from gonogo.cli.terminal.render import question_lines, question_texts
from gonogo.domain.errors import NotFound
from gonogo.domain.plan_views import GraphNode, PlanGraph
from gonogo.domain.views import ApprovalView

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

ERASED = "\r\x1b[K\x1b[A\x1b[K"
"""Two lines, taken away."""
KEYS = ["[a] approve", "[e] edit", "[h] hold: approve now, start later", "[r] reject"]


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(written: io.StringIO) -> Console:
    return Console(
        file=written,
        force_terminal=True,
        width=20,
        height=6,
        color_system=None,
        legacy_windows=False,
    )


@pytest.fixture
def foot(console: Console) -> Foot:
    return Foot(console)


def lines(*texts: str) -> list[Text]:
    return [Text(text) for text in texts]


def test_the_last_lines_are_drawn_in_the_place_of_those_before(foot, written):
    foot.body = lambda _width, _height: lines("one", "two")
    foot.draw()
    foot.draw()
    assert written.getvalue() == "one\ntwo"
    foot.above(Text("settled"))
    assert written.getvalue() == "one\ntwo" + ERASED + "settled\n" + "one\ntwo"
    with foot.used():
        pass
    assert written.getvalue().endswith("one\ntwo" + ERASED)


def test_lines_that_a_narrower_terminal_has_broken_are_taken_away_whole(foot, written, console):
    foot.body = lambda _width, _height: lines("x" * 15, "y" * 5)
    foot.draw()
    console.width = 10
    foot.clear()
    assert written.getvalue().endswith(ERASED + "\x1b[A\x1b[K")
    assert rows_taken([0, 10, 11, 0], 10) == 5


def test_where_there_is_no_room_the_question_stays(foot, written):
    foot.body = lambda _width, _height: lines(*"abcdefgh")
    foot.prompt = lambda _width: lines("Allow this?")
    foot.draw()
    assert written.getvalue() == "e\nf\ng\nh\nAllow this?"


def test_what_is_drawn_in_a_terminal_of_hardly_any_size_is_given_room_for_a_word(foot, console):
    given: list[tuple[int, int]] = []
    foot.body = lambda width, height: given.append((width, height)) or []
    foot.prompt = lambda width: given.append((width, 0)) or []
    console.width, console.height = 2, 1
    foot.draw()
    assert given == [(8, 0), (8, 3)]


def test_while_another_program_has_the_terminal_nothing_is_drawn(foot, written):
    foot.body = lambda _width, _height: lines("one")
    with foot.away():
        foot.draw()
    assert written.getvalue() == ""


def test_keys_are_broken_between_options_where_that_is_possible():
    text = [line.plain for line in key_prompt("Run this plan?", KEYS, 40)]
    assert text == [
        "Run this plan? [a] approve, [e] edit,",
        "[h] hold: approve now, start later,",
        "[r] reject >",
    ]
    narrow = [line.plain for line in key_prompt("Run this plan?", KEYS, 12)]
    assert max(map(len, narrow)) <= 12
    assert " ".join(narrow).replace(" ", "") == " ".join(text).replace(" ", "")


def test_of_a_line_that_is_too_long_its_end_is_shown():
    assert [line.plain for line in line_prompt(">", "漢" * 20, 20)] == ["> " + "漢" * 9]
    assert [line.plain for line in line_prompt("Why?\n>", "a\nb\x1b", 20)] == ["Why?", "> a⏎b\\x1b"]
    assert [line.plain for line in line_prompt("Why is that so?", "because", 18)] == [
        "Why is that so?", "because",
    ]  # fmt: skip


def shown(text: str, width: int = 60) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(
        safe_markdown(text)
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_code_is_drawn_in_the_terminals_own_colours():
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=True, color_system="truecolor")
    console.print(safe_markdown("```python\nreturn 1\n```"))
    assert "\x1b[" in out.getvalue()
    assert not re.search(r"[34]8;2;", out.getvalue())


def test_what_an_agent_writes_is_drawn_as_markdown():
    text = shown("# Done\n\n- **one** `x`\n\n```\ncode\n```\n")
    assert "Done" in text
    assert "• one x" in text
    assert "**" not in text


@pytest.mark.parametrize("odd", ["\x1b[2J", "&#27;[2J", "`\x1b[2J`", "&#x202e;", "\u202e", "\x07"])
@pytest.mark.parametrize("around", ["{}", "# {}", "- {}", "| a |\n|-|\n| {} |", "> {}", "    {}"])
def test_nothing_in_it_commands_the_terminal(odd: str, around: str):
    text = shown(around.format(f"a {odd} b"))
    assert not set(text) & {"\x1b", "\u202e", "\x07"}


def test_nothing_in_it_is_hidden():
    text = shown('<!-- secret -->\n\nx <b title="y">z</b> [here](https://evil.example "t") ![p](q)')
    for part in ("secret", '<b title="y">', "https://evil.example"):
        assert part in text


def approval(preview: str, **arguments: object) -> ApprovalView:
    return ApprovalView.model_validate(
        {
            "approval_id": "a", "request_id": "c", "kind": "tool", "request_type": "tool",
            "session_id": "s", "subject": "write_file", "tool_name": "write_file",
            "details": {"agent": "coder", "preview": preview}, "reason": "outside", "digest": "d",
            "status": "pending", "created_at": "2026-01-01T00:00:00Z", "arguments": arguments,
        }
    )  # fmt: skip


def asked(found: ApprovalView) -> list[Text]:
    return list(question_texts(found, list(question_lines(found)), first=True))


def test_a_question_has_the_call_and_its_difference_in_colours():
    preview = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n"
    texts = asked(approval(preview, path="x", content="new\x1b"))
    assert [(text.plain, str(text.style)) for text in texts] == [
        ("", ""),
        ("coder asks to use write_file:", "bold"),
        ('  write_file {"path": "x", "content": "new\\u001b"}', "cyan"),
        ("  --- a/x", "bold"),
        ("  +++ b/x", "bold"),
        ("  @@ -1 +1 @@", "cyan"),
        ("  -old", "red"),
        ("  +new", "green"),
        ("   same", ""),
        ("reason: outside", ""),
    ]


def test_what_is_no_difference_of_files_has_no_colours():
    texts = asked(approval("- a list\n+ of things"))
    assert {str(text.style) for text in texts[3:]} == {""}


def test_a_text_is_settled_once_also_where_the_agent_has_switched_before_it_is_whole(
    foot, console, written
):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    switched = {"from_agent": "coder", "to_agent": "orchestrator"}
    for event in (
        {"type": "assistant_message", "token": "Hel", "content": "Hel"},
        {"type": "assistant_message", "token": "lo", "content": "lo"},
        {"type": "agent_switched", "metadata": switched},
        {"type": "assistant_message", "content": "Hello", "is_final": True},
    ):
        live.show(event)
    assert written.getvalue().count("Hello") == 1


def test_a_terminal_of_two_rows_shows_three_lines_all_the_same(foot, written, console):
    console.height = 2
    foot.body = lambda _width, _height: lines(*"abcdefgh")
    foot.draw()
    assert written.getvalue() == "f\ng\nh"


def test_a_long_question_leaves_the_body_three_rows_to_fill(foot):
    given: list[int] = []

    def body(_width: int, height: int) -> list[Text]:
        given.append(height)
        return []

    foot.body, foot.prompt = body, lambda _width: lines(*"abcdefgh")
    foot.draw()
    assert given == [3]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "tool_call", "call_id": "c", "tool_name": "read_file", "arguments": {}},
        {"type": "error", "content": "It broke"},
        {"type": "agent_switched", "metadata": {"from_agent": "a", "to_agent": "b"}},
        {"type": "plan_notification", "content": "A plan",
         "metadata": {"plan_id": "p", "revision": 1, "subtasks": []}},
    ],
    ids=lambda event: event["type"],
)  # fmt: skip
def test_a_text_that_something_else_follows_is_settled_above_it(
    foot, console, written, event: dict[str, Any]
):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    live.show({"type": "assistant_message", "token": "Hello", "content": "Hello"})
    assert written.getvalue() == ""
    live.show(event)
    assert written.getvalue().startswith("Hello\n")


def node(name: str, status: str) -> GraphNode:
    return GraphNode(
        id=name, status=status, description="do", agent="coder", type="action", dependencies=[],
        estimated_time="1 min", attempt=1,
    )  # fmt: skip


def graph(*nodes: GraphNode, status: str = "running") -> PlanGraph:
    return PlanGraph(
        plan_id="p", session_id="s", revision=1, status=status, as_of=NOON, last_seq=1,
        nodes=list(nodes), edges=[], critical_path=[], actual_path=[],
    )  # fmt: skip


class Plans:
    """A client that has these graphs, one after the other; None is one that it has not."""

    def __init__(self, *graphs: PlanGraph | None) -> None:
        self.graphs, self.asked = list(graphs), []

    async def plan_graph(self, plan_id: str) -> PlanGraph:
        self.asked.append(plan_id)
        found = self.graphs.pop(0) if len(self.graphs) > 1 else self.graphs[0]
        if found is None:
            raise NotFound("none")
        return found


class Quiet:
    """A keyboard that a shell has changed so often."""

    def __init__(self, changed: int = 0) -> None:
        self.changed = changed

    def keep(self) -> bool:
        self.changed -= 1
        return self.changed >= 0


async def drawn_until(live: Live, written: io.StringIO, text: str) -> str:
    """What was written from now on until a text is, while the screen draws by itself."""
    written.seek(0)
    written.truncate()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(live.stay)
            while text not in written.getvalue():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    return written.getvalue()


async def test_the_board_follows_the_plan_of_which_something_is_told(foot, console, written):
    plans: Any = Plans(graph(node("a", "running")), None, graph(status="completed"))
    quiet: Any = Quiet()
    live = Live(console, foot, quiet, plans, "ru")
    live.glance({"type": "tool_approved", "plan_id": "p"})
    live.glance({"type": "plan_approved"})
    live.show({"type": "subtask_started", "plan_id": "p", "content": "Go", "metadata": {}})

    assert "▶ a" in await drawn_until(live, written, "▶ a")
    assert plans.asked == ["p"]
    live.look_at("q")
    live.show({"type": "assistant_message", "token": "Hello", "content": "Hello"})
    assert "Hello\n0/1" in await drawn_until(live, written, "▶ a")
    live.glance({"type": "approval_requested", "plan_id": "r"})
    live.show({"type": "assistant_message", "token": " you", "content": " you"})
    assert await drawn_until(live, written, "Hello you") == (
        "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[KHello you"
    )
    assert plans.asked == ["p", "q", "r"]


async def test_what_a_shell_wrote_over_is_drawn_below_it(foot, console, written):
    plans: Any = Plans(graph(node("a", "running")))
    once: Any = Quiet(1)
    live = Live(console, foot, once, plans, "en")
    foot.body = lambda _width, _height: lines("one")
    foot.draw()
    assert await drawn_until(live, written, "one") == "one"


async def test_nothing_is_drawn_while_an_editor_has_the_terminal(foot, console, written):
    nobody: Any = Plans(graph(node("a", "running")))
    once: Any = Quiet(1)
    live = Live(console, foot, once, nobody, "en")
    live.look_at("p")
    with foot.away():
        async with anyio.create_task_group() as group:
            group.start_soon(live.stay)
            await until(lambda: nobody.asked)
            group.cancel_scope.cancel()
    assert (written.getvalue(), once.changed, nobody.asked) == ("", 1, ["p"])


async def test_the_board_has_half_the_rows_and_what_is_written_its_end(foot, console, written):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    live._graph = graph(*(node(f"n{number}", "pending") for number in range(9)))
    live.show({"type": "assistant_message", "token": "\n\n".join("abcdefgh"), "content": ""})

    def body(height: int) -> list[str]:
        return [line.plain for line in foot.body(40, height)]

    board = ["0/9 ────────────────────", *(f"○ n{number}" for number in range(9))]
    assert body(30)[-10:] == board
    assert body(30)[:-10] == "a  b  c  d  e  f  g  h".split(" ")
    assert body(12) == ["", "f", "", "g", "", "h", *board[:5], "… 5 more"]
    assert body(6) == ["", "h", *board[:3], "… 7 more"]
    assert body(3) == ["h", *board[:2], "… 8 more"]


@pytest.mark.parametrize(
    ("event", "settled"),
    [
        ({"content": "Hello you"}, "Hello you\n"),
        ({"content": ""}, "Hello\n"),
        ({"content": "x", "subtask_id": "a"}, "[a] x\nHello"),
    ],
)
def test_a_text_is_settled_as_it_is_whole(foot, console, written, event, settled):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    live.show({"type": "assistant_message", "token": "Hello", "content": "Hello"})
    live.show({"type": "assistant_message", **event})
    assert written.getvalue() == settled


def test_a_text_of_blanks_is_none(foot, console, written):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    live.show({"type": "assistant_message", "token": " \n", "content": " \n"})
    assert foot.body(40, 10) == []
    live.show({"type": "assistant_message", "content": " \n"})
    live.show({"type": "plan_progress", "metadata": {}})
    live.show({"type": "error", "content": "lost\x07"})
    assert written.getvalue() == "error: lost\\x07\n"


def test_how_full_the_window_is_stands_below_and_is_drawn_anew(foot, console, written):
    nobody: Any = None
    live = Live(console, foot, nobody, nobody, "en")
    for tokens in (1_000, 13_400):
        live.show({"type": "window_used", "metadata": {"window": 32_000, "tokens": tokens}})
        foot.draw()
    assert written.getvalue().endswith("\x1b[Kwindow 41%")
    # Of a subtask it stands on the board, and of the search for a revision nowhere.
    live.show({"type": "window_used", "plan_id": "p", "metadata": {"window": 9, "tokens": 8}})
    foot.draw()
    assert written.getvalue().endswith("\x1b[Kwindow 41%")
