"""The terminal as a person has it: plans and questions in a real one, answered by keys.

A few long walks: each begins with a new Python, as commands do.
"""

import json
import re

import pytest

from fakes.world import call, calls
from gonogo.demo import lay_out, run_tests

TASK = "Fix the failing test and add a --json flag"
OUTSIDE = "python3 -m tally expenses.csv --json"
EDITOR = "sed -i 's/Add the amounts of one category up/Sum up each category/'"
PAUSED = "Paused: no new subtasks start. What next?"
NOTE = {"path": "note.md", "content": "# Notes\n\nall *well*\n"}


def progress(screen: str) -> list[str]:
    return re.findall(r"^\d/5 ", screen, re.MULTILINE)


@pytest.fixture
def project(tmp_path):
    lay_out(tmp_path / "project")
    return tmp_path / "project"


def test_a_plan_is_edited_approved_paused_left_joined_again_and_done(pane, project):
    at = pane(cwd=project, GONOGO_MODEL="demo", EDITOR=EDITOR)
    at.begin("run", TASK)
    at.shows("Run this plan? [a] approve")
    at.keys("e")
    at.shows("Approve the plan as edited?")
    at.keys("s")
    at.until(lambda seen: re.search(r"▶ +reproduce", seen), "the first subtask")
    pauses_and_goes_on(at)
    leaves(at)
    assert "Sum up each category" in at.all

    at.begin("attach")
    joined = at.until(
        lambda seen: PAUSED in seen and re.search(r"\? +verify", seen), "where it stands"
    )
    assert TASK in joined
    assert progress(joined) == ["4/5 "]
    at.keys("r")
    at.shows("Allow this? [a] approve")
    at.keys("a")
    at.shows("Completed: 5")
    at.prompts()
    at.line("And now?")
    at.shows("The plan is done; the result is above.")
    at.prompts()
    at.keys("C-d")
    at.shows("CODE=0")
    assert at.is_as_it_was()
    assert run_tests(project).passed


def pauses_and_goes_on(at):
    """One Ctrl-C pauses and asks; the terminal may be made narrow meanwhile."""
    at.keys("C-c")
    # From then on nothing is drawn for which the other size of the terminal could come too late.
    at.until(lambda seen: PAUSED in seen and re.search(r"✓ +reproduce +universal", seen), "its end")
    at.resize(40)
    small = at.until(lambda seen: re.search(r"○[ │]+document\n", seen), "a narrow board")
    assert progress(small) == ["1/5 "]
    assert all(len(line) <= 40 for line in at.screen.splitlines())
    at.resize(80)
    at.keys("r")
    # Two keys that are read as one answer nothing.
    at.until(lambda _: f"{PAUSED} resume" in " ".join(at.all.split()), "its answer")


def leaves(at):
    """A key that is typed before its question is no answer; two Ctrl-C leave."""
    at.type("a")
    at.shows("Allow this? [a] approve")
    assert OUTSIDE in at.all
    at.keys("C-c")
    at.shows(PAUSED)
    at.keys("C-c")
    assert "Resume it: " in at.shows("CODE=130")
    assert at.is_as_it_was()


@pytest.mark.parametrize(
    ("width", "kind"), [(60, "screen"), (80, "screen"), (120, "screen"), (60, "dumb")]
)
def test_no_word_is_broken_however_wide_and_plain_the_terminal_is(pane, project, width, kind):
    at = pane(width=width, cwd=project, GONOGO_MODEL="demo")
    at.begin("run", TASK, term=kind)
    at.shows("[a] approve")
    at.keys("C-d")
    at.shows("CODE=3")
    assert "search_in_code" in at.all
    assert at.broken_by_it("This needs several steps") == []


def asks(name: str, **arguments: object) -> dict[str, object]:
    return calls(call(name, **arguments))


def test_calls_are_shown_with_their_difference_and_answered_by_a_key_or_elsewhere(
    pane, model, tmp_path, born
):
    (tmp_path / "note.md").write_text("old\n")
    model.replies(
        asks("switch_mode", mode="coder"),
        asks("write_file", **NOTE),
        asks("write_file", **NOTE | {"path": "other.md"}),
        {"text": ["It is **do", "ne**: ", "\x1b[2J", " see `note.md`."], "pause": 0.05},
        asks("switch_mode", mode="coder"),
        asks("write_file", path="last.md", content="x"),
    )
    at = pane(width=40)
    at.begin("run", "Write a note")
    asked = at.shows("Allow this? [a] approve")
    for line in ("  -old", "  +# Notes", '  write_file {"path": "note.md"'):
        assert line in asked
    assert all(len(line) <= 40 for line in at.screen.splitlines())
    at.keys("a")

    at.until(
        lambda seen: "+++ b/other.md" in seen and "Allow this? [a]" in seen, "another question"
    )
    assert (tmp_path / "note.md").read_text() == NOTE["content"]

    def elsewhere(*words):
        return born.run("gonogo", *words, env=at.env, cwd=tmp_path, stdin="", timeout=60).stdout

    [waiting] = json.loads(elsewhere("approvals", "list", "--json"))["approvals"]
    elsewhere("approvals", "decide", waiting["approval_id"], "reject")
    at.shows("Meanwhile, ")
    ended = at.shows("CODE=4")
    assert "It is done: \\x1b[2J see note.md." in ended
    assert not (tmp_path / "other.md").exists()

    at.begin("attach", waiting["session_id"])
    assert "coder: It is **done**" in at.prompts()
    at.line("And the last one")
    at.shows("Allow this? [a] approve")
    at.terminate()
    at.shows("CODE=130")
    assert at.is_as_it_was()
    assert not (tmp_path / "last.md").exists()
