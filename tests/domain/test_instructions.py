"""What is told of instruction files: text that cannot end its own block, read in bounded time."""

import time
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.instructions import (
    FoundInstructions,
    FoundSkill,
    InstructionText,
    always_applies,
    applies_to,
    beginning,
    changed_lines,
    description_of,
    front_matter,
    quoted,
    readable,
    skill_index,
)
from gonogo.domain.tool_calls import (
    MESSAGE,
    InstructionFile,
    Instructions,
    Reply,
    ToolAnswer,
    UserText,
    with_instructions_first,
)

LINES = st.lists(st.text("ab -@", max_size=4), min_size=1, max_size=9).map("\n".join)


def test_fields_stand_between_two_lines_of_dashes_and_the_rest_is_the_text():
    fields, text = front_matter(
        "---\nName: deploy\ndescription: >-\n  How to\n  deploy.\nglobs:\n  - a.py\n  - 'b.py'\n"
        'list: [x, y]\nquoted: "z"\nodd: [\n---\nThe text\n---\n'
    )

    assert fields == {
        "name": "deploy", "description": "How to deploy.", "globs": "a.py,b.py", "list": "x, y",
        "quoted": "z", "odd": "[",
    }  # fmt: skip
    assert text == "The text\n---\n"


@pytest.mark.parametrize(
    "text", ["", "---", "---\nname: x\n", "name: x\n---\n", "---\n" + "a: b\n" * 200 + "---\n"]
)
def test_a_file_without_two_lines_of_dashes_has_no_fields(text):
    assert front_matter(text) == ({}, text)


def test_what_yaml_has_besides_is_text():
    bomb = "---\na: &a [lol, lol]\nb: *a\n- item of nothing\n  : x\n---\n"
    fields, _ = front_matter("---\n- item of nothing\n" + bomb.removeprefix("---\n"))

    assert fields == {"a": "&a [lol, lol]", "b": "*a,item of nothing : x"}
    assert len(front_matter(f"---\na: {'x' * 9_000}\n---\n")[0]["a"]) == 4_096


@given(st.text())
def test_any_text_can_be_read_and_each_line_of_it_is_marked(text):
    told = readable(text.encode("utf-8", "surrogatepass"))
    fields, _ = front_matter(f"---\n{told}\n---\n")
    description_of(fields)
    applies_to(fields, ["a/b.py"])

    assert all(c.isprintable() or c in "\n\t" for c in told)
    assert all(line.startswith("| ") for line in quoted(told).splitlines())
    assert quoted(told).count("\n") == told.count("\n") + 1


def test_a_text_is_shown_with_what_deceives_as_escapes():
    assert readable("a\r\nb\x00\x1b\u202e\n\n".encode()) == "a\nb\\x00\\x1b\\u202e"
    assert readable(b"\xff") == "\ufffd"


@pytest.mark.parametrize(
    ("globs", "path", "covered"),
    [
        ("*.ts", "src/a.ts", True),
        ("*.ts", "src/a.tsx", False),
        ("src/*.ts", "src/a.ts", True),
        ("src/*.ts", "src/b/a.ts", False),
        ("src/**/*.ts", "src/a.ts", True),
        ("src/**/*.ts", "src/b/c/a.ts", True),
        ("**/*.{js,tsx}", "a.tsx", True),
        ("a.py, b.py", "x/b.py", True),
        ("['a.py', \"b.py\"]", "x/a.py", True),
        ("./src/**", "src/x/y", True),
        ("src/**", "src", True),
        ("src", "src/a", False),
        ("", "a", False),
        ("a" * 201, "a" * 201, False),
    ],
)
def test_a_rule_applies_to_what_its_globs_cover(globs, path, covered):
    fields, _ = front_matter(f"---\nglobs: {globs}\n---\n")

    assert applies_to(fields, ["other", path]) is covered


def test_globs_that_would_take_for_ever_take_no_time():
    used = time.thread_time()
    for glob in ("**a" * 66, "*a" * 99 + "b", "{a,b}" * 40, "**/" * 66 + "x", "{" * 200, "[" * 200):
        applies_to({"globs": glob}, ["a" * 4_000, "/".join("a" * 100)])

    # Of CPU time, of which it takes a hundredth of a second; without a bound it takes for ever.
    assert time.thread_time() - used < 5


@pytest.mark.parametrize(("written", "always"), [("true", True), ("TRUE", True), ("1", False)])
def test_a_rule_is_for_every_task_only_where_it_says_true(written, always):
    assert always_applies({"alwaysapply": written}) is always
    assert always_applies({}) is False


def test_a_description_is_one_line_of_bounded_length():
    assert description_of({"description": "a  b\tc"}) == "a b c"
    assert len(description_of({"description": "x" * 4_000})) == 500


def test_a_text_that_there_is_room_for_is_its_own_beginning():
    assert beginning("a\nb", 1_000) == "a\nb"


@given(st.text("aé\n", max_size=60), st.integers(0, 80))
def test_a_beginning_takes_no_more_room_than_there_is_and_wastes_none(text, most):
    kept = beginning(text, most)

    assert text.startswith(kept)
    assert len(quoted(kept).encode()) <= max(most, len(quoted("")))
    assert kept == text or len(quoted(kept).encode()) >= most - 4


@given(LINES, LINES)
def test_a_difference_says_how_to_make_the_new_text_of_the_old(old, new):
    head, *lines = changed_lines(old, new).split("\n")
    [(gone, _), (at, come)] = [part[1:].split(",") for part in head.split()[1:3]]
    gone, place = int(head.split()[1].split(",")[1]), int(at) - 1
    before, removed = old.split("\n"), [x[1:] for x in lines if x.startswith("-")]
    added = [x[1:] for x in lines if x.startswith("+")]

    assert before[place : place + gone] == removed
    assert len(added) == int(come)
    assert before[:place] + added + before[place + gone :] == new.split("\n")
    assert not removed or not added or (removed[0] != added[0] and removed[-1] != added[-1])


def skill(name, description):
    return FoundSkill(
        name=name, source="repository", path=f"{name}/SKILL.md", description=description
    )


def test_the_list_of_skills_has_a_line_each_and_is_bounded():
    assert skill_index([skill("a", "does a"), skill("b", "")]) == "a: does a\nb"
    many = skill_index([skill(f"s{n}", "x" * 500) for n in range(64)])
    assert 8_192 - 600 < len(quoted(many).encode()) <= 8_192
    # A line is told with a sign before it and its end behind it.
    assert len(skill_index([skill("a", "x" * 8_186)])) == 8_189
    assert skill_index([skill("a", "x" * 8_187), skill("b", "")]) == ""


def test_a_difference_is_one_hunk_with_its_places():
    assert changed_lines("a\nb\nc", "a\nx\ny\nc") == "@@ -2,1 +2,2 @@\n-b\n+x\n+y"
    assert changed_lines("a", "b") == "@@ -1,1 +1,1 @@\n-a\n+b"
    assert changed_lines("a", "a\na") == "@@ -2,0 +2,1 @@\n+a"
    assert changed_lines("a\na", "a") == "@@ -2,1 +2,0 @@\n-a"
    assert changed_lines("a", "a") == "@@ -2,0 +2,0 @@"


def test_a_header_has_at_most_a_hundred_lines():
    def header(lines):
        return "---\n" + "a: b\n" * lines + "---\nText"

    assert front_matter(header(100)) == ({"a": "b"}, "Text")
    assert front_matter(header(101)) == ({}, header(101))


def test_globs_are_read_up_to_their_bounds():
    assert applies_to({"globs": "a" * 200}, ["a" * 200])
    many = ",".join(f"f{n}" for n in range(70))
    assert applies_to({"globs": many}, ["f63"])
    assert not applies_to({"globs": many}, ["f64"])
    words = [*(ascii_letters + digits), "aa", "bb", "cc", "dd"]
    spelled = {"globs": "{" + ",".join(words) + "}"}
    assert applies_to(spelled, [words[63]])
    assert not applies_to(spelled, [words[64]])


def test_what_is_not_said_of_files_is_not_there():
    assert front_matter("x") == ({}, "x")
    found = FoundInstructions()
    assert (found.files, found.skills, found.left_out) == ((), (), {})
    text = InstructionText(source="user", path="a", sha256="", size=0, text="")
    assert text.offered == ""


def test_what_was_read_before_the_first_reply_is_told_first_and_later_news_where_it_came():
    told = InstructionFile(path="A", source="repository", how="whole", text="x", size=1)
    one, two = (Instructions(content=c, files=(told,)) for c in "12")
    task, reply = UserText(content="Go"), Reply(text="Yes")
    answer = ToolAnswer(call_id="c", tool_name="t", content="")

    assert with_instructions_first([task, one]) == (one, task)
    assert with_instructions_first([task, one, reply, answer, two, task]) == (
        one, task, reply, answer, two, task,
    )  # fmt: skip
    assert with_instructions_first([task, reply, two]) == (task, reply, two)
    assert (Instructions.pinned, UserText.pinned) == (True, False)
    assert MESSAGE.validate_python(one.model_dump(mode="json")) == one
