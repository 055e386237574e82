"""A plan as a text is the plan, whatever stands in it; what is wrong is said where it stands."""

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gonogo.cli import plan_yaml as form
from gonogo.cli.plan_file import Flaw, as_json, marked, own_plan, subtasks_of, unmarked
from gonogo.domain.base import MAX_DEPTH, loads
from gonogo.domain.checks import DoneCheck, FileText
from gonogo.domain.plan import RetryPolicy, Scope, Subtask, parse_subtasks
from gonogo.domain.text_safety import _LOOKS_ESCAPED, guarded, is_blank, visible
from plugins.nightly import examples

PIECES = (
    "## x", "# t", "- agent: a", "* type : b", "- scope:", "  - tools: x", "\\", "\\\\", "\\x1b",
    "\\u202e", "\\U00110000", "\x1b", "\u202e", "\u2028", "\x85", "\ufeff", "\r", "\r\n", "\n",
    "\n\n", " ", "\t", "---", "...", "<!--", "-->", "```", "~~~", ":", ": ", " #", "&a", "*a",
    "!!str", "no", "null", "true", "1e5", "2024-01-01", "|", ">", "%", "@", "`", '"', "'", '""',
    "[", "]", "{", "}", ",", "x41", "é", "\U0001f600", "план",
)  # fmt: skip
# The wire takes neither.
LETTERS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=3)
ODD = st.lists(st.sampled_from(PIECES) | LETTERS, max_size=6).map("".join)
WORDS = ODD.map(lambda text: text[:60])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
SEVERAL = st.lists(ODD, max_size=3).map(tuple)
HOSTS = st.sampled_from([False, True, ("true",), ("example.org", "*.example.org:443")])
PATHS = ODD.map("x{}".format)
CHECKS = (
    st.builds(DoneCheck, command=ODD.filter(bool), timeout=st.none() | st.floats(0.1, 3_600))
    | st.builds(DoneCheck, file_exists=PATHS)
    | st.builds(DoneCheck, file_contains=st.builds(FileText, path=PATHS, text=ODD.filter(bool)))
    | st.builds(DoneCheck, unchanged=st.lists(PATHS, min_size=1, max_size=3).map(tuple))
    | st.builds(DoneCheck, ask=ODD.filter(bool))
)
SUBTASK = st.builds(
    Subtask,
    id=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", fullmatch=True),
    description=ODD.filter(lambda text: not is_blank(text)),
    agent=st.none() | ODD,
    tool=st.none() | ODD,
    type=st.from_regex(r"[a-z][a-z0-9_-]{0,63}", fullmatch=True),
    dependencies=SEVERAL,
    estimated_time=WORDS.filter(bool),
    inputs=st.none() | st.dictionaries(ODD, JSON, max_size=3),
    condition=st.none() | ODD,
    scope=st.none()
    | st.builds(Scope, tools=SEVERAL, paths=SEVERAL, commands=SEVERAL, network=HOSTS),
    approval_required=st.booleans(),
    retry_policy=st.none()
    | st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 20),
        delay=st.floats(0, 86_400),
        backoff=st.floats(1, 10),
        on=SEVERAL,
    ),
    timeout=st.none() | st.floats(0, 86_400, exclude_min=True),
    on_reject=st.sampled_from([None, "skip", "fail"]),
    after_skipped=st.sampled_from([None, "skip", "run"]),
    done_when=st.none() | st.lists(CHECKS, min_size=1, max_size=3).map(tuple),
    must_change=st.sampled_from([None, True, False]),
)


def read_back(goal, subtasks):
    reading = form.read(form.write(goal, subtasks), "en")
    assert reading.flaws == []
    assert reading.goal == goal
    return [Subtask.model_validate(item.fields) for item in reading.items]


@given(goal=ODD, subtasks=st.lists(SUBTASK, max_size=2))
@settings(deadline=None, max_examples=examples(25, nightly=60))
def test_what_was_written_is_read_as_it_was(goal, subtasks):
    assert read_back(goal, subtasks) == subtasks


def unescaped(text: str) -> str:
    """What `visible` was given, read from what it gave."""

    def read(escape: re.Match[str]) -> str:
        backslashes, code = "\\" * (len(escape[1]) // 2), int(escape[2][1:], 16)
        if len(escape[1]) % 2 == 0:
            return backslashes + escape[2]
        return backslashes + chr(code) if code <= sys.maxunicode else escape[0]

    return re.sub(rf"(\\+)({_LOOKS_ESCAPED.pattern})", read, text)


@given(ODD)
@example("\\\x1b\\x1b\\\\u202e\\U00110000")
def test_an_escape_is_read_as_what_it_stands_for(text):
    assert unescaped(visible(text)) == text
    assert unescaped(visible(text, lines=False)) == text


@given(goal=ODD, subtask=SUBTASK)
@settings(deadline=None, max_examples=20)
def test_no_character_of_the_text_deceives(goal, subtask):
    text = form.write(goal, [subtask])
    assert guarded(text) == text


def told(text):
    """What is wrong with a text: the line, and how it begins."""
    reading = form.read(text, "en")
    subtasks_of(reading, "Goal", "en")
    return [(flaw.line, flaw.message) for flaw in reading.flaws]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("subtasks:\n- id: a\n  description: [", 4, "not valid YAML"),
        ("subtasks:\n- &x {id: a, description: Do}\n- *x", 2, "anchors and aliases"),
        ("subtasks:\n- id: !!str a", 2, "tags are not supported"),
        ("subtasks:\n- id: a\n  id: b", 3, "id is given twice"),
        ("subtasks:\n- id: a\n  description: D\n  inputs: {1: x}", 4, "field names must be text"),
        ("subtasks:\n- id: a\n  description: D\n  agnet: x", 4, "no field agnet"),
        ("subtasks:\n- id: a\n  description: 5", 3, "description: Input should be a valid string"),
        ("subtasks:\n- id: a\n  description: D\n  timeout: 1e999", 4, "out of range"),
        ("- {id: a, description: D}\n" * 501, 0, "500"),
        ("subtasks: {}", 1, "expected goal"),
        ("goal: g\nsubtask:\n- {id: a}", 2, "no field subtask; the fields are: goal, subtasks"),
        (
            "- {id: a, description: D, scope: {paths: src}}",
            1,
            "scope.paths: Input should be a valid li",
        ),
        ("- 5", 1, "expected goal"),
        ("hello", 1, "expected goal"),
        ("# Goal\n## a\n\nDo", 4, "expected goal"),
        ("goal: Other\nsubtasks:\n- {id: a, description: D}", 0, "an edit cannot change the goal"),
        ("- " * 40, 1, "nested deeper"),
        ("\x00", 0, "not valid YAML"),
        ("", 0, "no subtask"),
        ("x" * 8_388_609, 0, "more than"),
    ],
)
def test_what_is_wrong_in_yaml_is_said_with_its_line(text, line, said):
    (found, *_) = told(text)
    assert found[0] == line
    assert said in found[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {id: a, description: D, scope: {paths: src}}", "scope.paths: нужен список"),
        ("- {id: a, description: 5}", "description: нужна строка"),
        ("- {id: a, description: D, dependencies: [a]}", "Подзадача «a» зависит от самой себя"),
    ],
)
def test_what_is_wrong_in_a_plan_is_said_in_the_readers_language(text, said):
    reading = form.read(text, "ru")
    subtasks_of(reading, "Goal", "ru")
    assert reading.flaws[0].message.startswith(said)


def test_what_is_nested_as_deep_as_a_message_may_be_is_read_and_nothing_deeper():
    def nested(lists):
        return f"- {{id: a, description: D, inputs: {{x: {'[' * lists}{']' * lists}}}}}"

    around = 3
    (item,) = form.read(nested(MAX_DEPTH - around), "en").items
    assert str(item.fields["inputs"]["x"]).count("[") == MAX_DEPTH - around
    assert "nested deeper" in told(nested(MAX_DEPTH - around + 1))[0][1]


def test_plain_words_of_yaml_are_what_they_look_like():
    text = (
        "- {id: a, description: no, estimated_time: 1:30, inputs: {on: 2024-01-01, n: ~, x: 1e2}}"
    )
    (item,) = form.read(text, "en").items

    assert item.fields["description"] == "no"
    assert item.fields["estimated_time"] == "1:30"
    assert item.fields["inputs"] == {"on": "2024-01-01", "n": None, "x": 100.0}


def test_yaml_is_read_where_its_library_has_no_part_in_c():
    code = (
        "import sys, yaml; vars(yaml).pop('CSafeLoader', None)\n"
        "from gonogo.cli import plan_yaml as form\n"
        "print(form.read(sys.stdin.read(), 'en').items[0].fields)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="goal: G\nsubtasks:\n- {id: a, description: no}\n",
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "{'id': 'a', 'description': 'no'}"


def test_what_an_editor_does_to_a_file_does_not_change_the_plan():
    plan = [
        Subtask(id="a", description="Do it\n\n  so ", agent="coder"),
        Subtask(id="b", description="x"),
    ]
    text = form.write("Goal", plan)
    other = "\ufeff" + text.replace("\n", "\r\n").rstrip()

    assert [Subtask.model_validate(i.fields) for i in form.read(other, "en").items] == plan


def test_what_is_wrong_stands_at_the_top_and_beside_the_subtask_and_goes_away_again():
    plan = [Subtask(id="a", description="Do"), Subtask(id="b", description="x\ny")]
    text = form.block("About\nit") + form.write("Goal", plan)
    place = form.read(text, "en").line_of("b")

    flaws = [Flaw(0, "all --> of it"), Flaw(place, "b is wr\x1bong"), Flaw(0, "so:  ")]
    shown, added = marked(text, flaws, form.comment, "Wrong:", "End.")
    lines = shown.split("\n")
    line = form.read(shown, "en").line_of("b")

    assert lines[2] == form.comment(f"! {line}: b is wr\\x1bong")
    assert lines[line - 2] == form.comment("! b is wr\\x1bong")
    assert [Subtask.model_validate(i.fields) for i in form.read(shown, "en").items] == plan
    assert unmarked(shown, added) == text
    assert unmarked(shown.replace("\n", "\r\n"), added) == text.replace("\n", "\r\n")


WORKERS = (
    {"agent": "coder", "tool": None}, {"agent": None, "tool": "write_file"},
    {"agent": None, "tool": None},
)  # fmt: skip


@st.composite
def plans(draw):
    """A goal, and subtasks as a plan has them: each depends on earlier ones only."""
    goal = draw(ODD.map(str.strip).filter(bool))
    found: list[Subtask] = []
    ids = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,8}", fullmatch=True)
    for key in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
        worker = draw(st.sampled_from(WORKERS))
        asks = {} if worker["agent"] else {"done_when": None, "must_change": None}
        some = st.lists(st.sampled_from(found), max_size=2, unique_by=lambda s: s.id)
        before = draw(some) if found else []
        fixed = {"id": key, "type": "action", "dependencies": tuple(s.id for s in before)}
        found.append(draw(SUBTASK).model_copy(update={**fixed, **worker, **asks}))
    return goal, tuple(found)


@pytest.mark.feature(241)
@given(plans())
@settings(deadline=None, max_examples=examples(25, nightly=60))
def test_a_plan_that_is_exported_comes_back_the_same(plan):
    goal, subtasks = plan
    reading = form.read(form.write(goal, subtasks), "en")
    read_goal, read = own_plan(reading, "en")
    assert reading.flaws == []
    sent = loads(json.dumps({"goal": read_goal, "subtasks": as_json(read)}))
    taken = parse_subtasks(sent["subtasks"], agents={"coder"}, tools={"write_file"})
    assert (sent["goal"], taken) == plan


@pytest.mark.feature(241)
def test_a_plan_of_a_persons_own_has_a_goal_and_subtasks_and_each_flaw_its_line():
    def told_of(text):
        reading = form.read(text, "en")
        own_plan(reading, "en")
        return [(flaw.line, flaw.message.partition(";")[0]) for flaw in reading.flaws]

    named = "- id: a\n  description: Do a\n  agent: coder\n"
    assert told_of(named) == [(1, "a plan needs a goal")]
    assert told_of("goal: ' '\nsubtasks:\n" + named) == [(1, "a plan needs a goal")]
    assert told_of("goal: A goal\n") == [(0, "there are no subtasks")]
    assert told_of("") == [(1, "a plan needs a goal")]
    assert told_of(f"goal: A goal\nsubtasks:\n{named}  colour: red\n")[0] == (
        6, "there is no field colour",
    )  # fmt: skip
    assert told_of("goal: [\n")[0][1].startswith("not valid YAML")


def test_an_agent_that_was_forgotten_is_no_subtask_for_a_model_alone():
    """One that names nobody is written with its type, and read without one as it stands."""
    text = form.write("A goal", [Subtask(id="a", description="Do a", type="action")])
    assert "type: action" in text
    _, [bare] = own_plan(form.read(text.replace("type: action", ""), "en"), "en")
    assert as_json([bare]) == [{"id": "a", "description": "Do a", "estimated_time": "5 min"}]


def test_a_text_with_more_than_any_plan_has_is_refused_before_it_is_built():
    many = "goal: x\nsubtasks:\n" + "- {id: a, description: b}\n" * 100_000
    [flaw] = form.read(many, "en").flaws
    assert "500" in flaw.message
    assert flaw.line > 500
