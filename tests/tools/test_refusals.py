"""What a tool says when it refuses, word for word; what a call touches; what its result holds."""

from pathlib import Path
from typing import Any

import pytest

from gonogo.domain.base import content_hash
from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.domain.tool_calls import Access, FileEffect
from gonogo.tools import Bench, builtin_tools, propose_tool, skill_tool, touched
from gonogo.tools.base import difference
from gonogo.workspace import InstructionReader, Workspace
from tools.test_tools import carry_out, do, prepare

HELD = {"f": b"one\ntwo\n", "g": b"x", "bin": b"a\0b", "latin": b"caf\xe9", "w": b"  a\nb c\n"}
CHANGE = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-{1}\n+{2}\n"
MADE = "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
GONE = "--- a/{0}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{1}\n"
TWICE = CHANGE.format("f", "one", "x") + CHANGE.format("./f", "two", "x")
MISSING = "'none' does not exist"
ONE, TWO = content_hash(b"one\ntwo\n"), content_hash(b"two\n")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    for name, data in HELD.items():
        (root / name).write_bytes(data)
    (root / "link").symlink_to("f")
    return Workspace(root)


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "said"),
    [
        ("read_file", {"path": "none"}, "file_not_found", MISSING),
        ("read_file", {"path": "d"}, "not_a_regular_file", "'d' is not a regular file"),
        ("read_file", {"path": "bin"}, "not_text", "'bin' is binary"),
        ("list_files", {"path": "none"}, "file_not_found", MISSING),
        ("list_files", {"path": "f"}, "not_a_regular_file",
         "'f' has a file where a folder is needed"),
        ("write_file", {"path": "f", "content": "x", "base_hash": "sha256:0"},
         "changed_since_read", "'f' has changed: read it again"),
        ("write_file", {"path": "f", "content": "\ud800"}, "invalid_arguments",
         "The text contains a lone surrogate, half of a character"),
        ("edit_file", {"path": "f", "old": "two", "new": "x", "base_hash": "sha256:0"},
         "changed_since_read", "'f' has changed: read it again"),
        ("edit_file", {"path": "f", "old": "one", "new": "one"}, "no_change",
         "`old` and `new` are the same: nothing would change"),
        ("edit_file", {"path": "w", "old": "  a \n", "new": "  a\n"}, "no_change",
         "'w' already contains `new` there"),
        ("edit_file", {"path": "f", "old": "o", "new": "x"}, "not_unique",
         "'f' contains `old` more than once: give more lines, or replace_all"),
        ("edit_file", {"path": "f", "old": "nine", "new": "x"}, "not_found_in_file",
         "'f' does not contain `old`"),
        ("edit_file", {"path": "w", "old": "b  c\n", "new": "b d\n"}, "not_found_in_file",
         "'w' does not contain `old`; similar lines: 2; read the file again"),
        ("edit_file", {"path": "w", "old": "a \n", "new": "x\n", "replace_all": True},
         "not_found_in_file",
         "'w' does not contain `old`; similar lines: 1; read the file again"),
        ("edit_file", {"path": "bin", "old": "a", "new": "x"}, "not_text", "'bin' is binary"),
        ("edit_file", {"path": "latin", "old": "caf", "new": "x"}, "not_text",
         "'latin' is not UTF-8 text"),
        ("create_directory", {"path": "f"}, "not_a_regular_file", "'f' exists and is not a folder"),
        ("move_file", {"source": "none", "destination": "x"}, "file_not_found", MISSING),
        ("move_file", {"source": "f", "destination": "g"}, "file_exists", "'g' already exists"),
        ("delete_file", {"path": "none"}, "file_not_found", MISSING),
        ("execute_command", {"command": "a\0b"}, "invalid_arguments",
         "A command must not contain a NUL character"),
        ("execute_command", {"command": "a", "cwd": "none"}, "file_not_found", MISSING),
        ("apply_patch", {"patch": CHANGE.format("none", "a", "b")}, "file_not_found", MISSING),
        ("apply_patch", {"patch": CHANGE.format("f", "one", "one")}, "no_change",
         "The patch does not change 'f'"),
        ("apply_patch", {"patch": MADE.format("f")}, "file_exists", "'f' already exists"),
        ("apply_patch", {"patch": GONE.format("f", "one")}, "not_found_in_file",
         "'f' contains more than the patch deletes"),
        ("apply_patch", {"patch": TWICE}, "invalid_arguments", "The patch names a file twice"),
        ("apply_patch", {"patch": CHANGE.format("link", "one", "x")}, "symlink_escape",
         "'link' goes through a link: name the real path"),
        ("apply_patch", {"patch": CHANGE.format("bin", "a", "x")}, "not_text", "'bin' is binary"),
        ("apply_patch", {"patch": "".join(MADE.format(f"n{n}") for n in range(201))}, "too_large",
         "A patch changes at most 200 files"),
        ("explore", {"questions": ["What?"]}, "not_here",
         "explore needs a conversation with an agent"),
        ("read_output", {"id": "c"}, "not_found", "There is no record of earlier calls here"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
async def test_a_refusal_says_what_is_wrong_with_which_file(
    workspace: Workspace, tool: str, arguments: dict[str, Any], kind: str, said: str
) -> None:
    with pytest.raises(ToolFailed) as refused:
        await do(workspace, tool, **arguments)

    assert (refused.value.kind, str(refused.value)) == (kind, said)
    assert {path.name for path in workspace.root.iterdir()} == {*HELD, "d", "link"}
    assert {name: workspace.read(name) for name in HELD} == HELD


def test_a_patch_of_as_many_files_as_may_be_is_taken(workspace: Workspace) -> None:
    patch = "".join(MADE.format(f"n{n:03}") for n in range(200))
    prepared = prepare(workspace, "apply_patch", patch=patch)

    assert prepared.access == Access(writes=tuple(f"n{n:03}" for n in range(200)))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("write_file", {"path": "f", "content": "x"}), ("delete_file", {"path": "f"}),
     ("edit_file", {"path": "f", "old": "one", "new": "1"}),
     ("move_file", {"source": "f", "destination": "h"}),
     ("apply_patch", {"patch": CHANGE.format("f", "one", "1")})],
)  # fmt: skip
async def test_a_file_that_was_in_order_and_is_a_link_now_has_changed_since_it_was_approved(
    workspace: Workspace, tool: str, arguments: dict[str, Any]
) -> None:
    prepared = prepare(workspace, tool, **arguments)
    (workspace.root / "f").unlink()
    (workspace.root / "f").symlink_to("g")

    with pytest.raises(ToolFailed) as refused:
        await carry_out(workspace, tool, prepared)

    assert refused.value.kind == "changed_since_approval"
    assert str(refused.value).endswith("; it was in order when it was approved")
    assert workspace.read("g") == b"x"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("edit_file", {"path": "f", "old": "one", "new": "1"}),
     ("apply_patch", {"patch": CHANGE.format("f", "one", "1")})],
)  # fmt: skip
async def test_a_file_that_holds_something_else_now_is_said_to_have_changed(
    workspace: Workspace, tool: str, arguments: dict[str, Any]
) -> None:
    prepared = prepare(workspace, tool, **arguments)
    (workspace.root / "f").write_text("one\nthree\n")

    with pytest.raises(ToolFailed) as refused:
        await carry_out(workspace, tool, prepared)

    assert str(refused.value) == "'f' has changed since it was approved"


async def test_a_working_folder_that_is_a_link_now_is_said_to_have_been_a_folder(
    workspace: Workspace,
) -> None:
    prepared = prepare(workspace, "execute_command", command="pwd", cwd="d")
    (workspace.root / "d").rmdir()
    (workspace.root / "d").symlink_to(".")

    with pytest.raises(ToolFailed, match=r"; it was a folder when it was approved$") as refused:
        await carry_out(workspace, "execute_command", prepared)
    assert refused.value.kind == "changed_since_approval"


async def test_a_patch_that_fails_in_the_middle_is_taken_back(workspace: Workspace) -> None:
    gone = GONE.format("g", "x\n\\ No newline at end of file")
    patch = CHANGE.format("w", "  a", "b") + gone + MADE.format("n") + MADE.format("n/x")
    patch = patch.replace("@@ -1 +1 @@\n-  a\n+b\n", "@@ -1,2 +1,2 @@\n-  a\n+b\n b c\n")

    with pytest.raises(ToolFailed) as refused:
        await do(workspace, "apply_patch", patch=patch)

    assert refused.value.kind == "changed_since_approval"
    assert {name: workspace.read(name) for name in HELD} == HELD
    assert workspace.hash("n") is None


@pytest.mark.parametrize(
    ("tool", "arguments", "access"),
    [
        ("read_file", {"path": "./a/../b"}, Access(reads=("b",))),
        ("list_files", {}, Access(reads=(".",))),
        ("search_in_code", {"pattern": "x", "path": "a", "glob": "*.py"}, Access(reads=("a",))),
        ("write_file", {"path": "a"}, Access(writes=("a",))),
        ("edit_file", {"path": "a"}, Access(writes=("a",))),
        ("create_directory", {"path": "a"}, Access(writes=("a",))),
        ("move_file", {"source": "a", "destination": "./b"},
         Access(deletes=("a",), writes=("b",))),
        ("delete_file", {"path": "a"}, Access(deletes=("a",))),
        ("apply_patch", {"patch": "".join(
            [MADE.format("z"), GONE.format("y", "1"), CHANGE.format("b", "1", "2"),
             GONE.format("c", "1")])}, Access(writes=("b", "z"), deletes=("c", "y"))),
        ("explore", {"questions": ["What?"]}, Access()),
        ("create_plan", {"goal": "g"}, Access()),
        ("mcp__docs__search", {"path": "a"}, Access()),
    ],
)  # fmt: skip
def test_what_a_call_touches_is_read_off_its_arguments_alone(
    tool: str, arguments: dict[str, Any], access: Access
) -> None:
    assert touched(tool, arguments) == access


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "../a"}), ("write_file", {"path": "/a"}),
        ("delete_file", {"path": "../a"}), ("apply_patch", {"patch": MADE.format("../x")}),
        ("move_file", {"source": "../a", "destination": "b"}),
        ("move_file", {"source": "a", "destination": "../b"}),
        ("search_in_code", {"pattern": "x", "glob": "../*"}),
    ],
)  # fmt: skip
def test_what_leaves_the_folder_by_its_words_is_refused_on_any_machine(
    tool: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ToolFailed):
        touched(tool, arguments)


async def test_what_is_read_is_told_with_its_place_in_the_file(workspace: Workspace) -> None:
    assert await do(workspace, "read_file", path="f") == {
        "path": "f", "content": "one\ntwo\n", "hash": ONE, "start_line": 1, "end_line": 2,
        "total_lines": 2, "truncated": False,
    }  # fmt: skip
    part = await do(workspace, "read_file", path="f", start_line=1, end_line=1)
    assert (part["content"], part["end_line"]) == ("one\n", 1)
    nothing = await do(workspace, "read_file", path="f", start_line=3)
    assert (nothing["content"], nothing["start_line"], nothing["end_line"]) == ("", 3, 2)
    last = await do(workspace, "read_file", path="latin", start_line=1)
    assert last == {
        "path": "latin", "content": "caf\ufffd", "hash": content_hash(b"caf\xe9"),
        "start_line": 1, "end_line": 1, "total_lines": 1, "truncated": False, "lossy": True,
    }  # fmt: skip
    small = await carry_out(
        workspace, "read_file", prepare(workspace, "read_file", path="f"), result_tokens=2
    )
    assert small == {
        "path": "f", "content": "one\n", "hash": ONE, "start_line": 1, "end_line": 1,
        "total_lines": 2, "truncated": True, "size": 8,
    }  # fmt: skip


async def test_what_is_written_is_told_with_what_the_file_holds_now(workspace: Workspace) -> None:
    done = await do(workspace, "write_file", path="new", content="one\ntwo\n")
    assert done == {"path": "new", "hash": ONE, "bytes": 8, "created": True}
    again = await do(workspace, "write_file", path="new", content="é", base_hash=ONE)
    assert (again["bytes"], again["created"]) == (2, False)
    assert await do(workspace, "edit_file", path="f", old="one\n", new="") == {
        "path": "f", "hash": TWO, "replacements": 1,
    }  # fmt: skip
    assert await do(workspace, "create_directory", path="d") == {"path": "d", "created": False}
    assert await do(workspace, "create_directory", path="e") == {"path": "e", "created": True}
    moved = await do(workspace, "move_file", source="f", destination="e/f")
    assert moved == {"source": "f", "destination": "e/f", "moved": True}
    patch = CHANGE.format("e/f", "two", "2") + GONE.format("g", "x\n\\ No newline at end of file")
    patched = await do(workspace, "apply_patch", patch=patch + MADE.format("h"))
    assert patched == {"files": [
        {"path": "e/f", "action": "changed", "hash": content_hash(b"2\n")},
        {"path": "g", "action": "deleted", "hash": None},
        {"path": "h", "action": "created", "hash": content_hash(b"x\n")},
    ]}  # fmt: skip


async def test_an_edit_that_nobody_approved_goes_by_the_hash_that_it_names(
    workspace: Workspace,
) -> None:
    tool = builtin_tools()["edit_file"]
    assert tool.run is not None
    bench = Bench(workspace=workspace)

    with pytest.raises(ToolFailed) as refused:
        await tool.run(bench, tool.parse(
            {"path": "f", "old": "one", "new": "1", "base_hash": TWO}
        ))  # fmt: skip
    assert refused.value.kind == "changed_since_approval"
    named = {"path": "f", "old": "one", "new": "1", "base_hash": ONE}
    assert (await tool.run(bench, tool.parse(named)))["replacements"] == 1
    free = {"path": "f", "old": "two", "new": "2"}
    assert (await tool.run(bench, tool.parse(free)))["replacements"] == 1
    assert workspace.read("f") == b"1\n2\n"


def test_what_a_call_will_do_is_shown_before_it_runs(workspace: Workspace) -> None:
    moved = prepare(workspace, "move_file", source="./f", destination="d/f")
    assert moved.arguments == {"source": "f", "destination": "d/f"}
    assert moved.base_hashes == {"f": ONE, "d/f": None}
    assert moved.effects == (
        FileEffect(path="f", before=ONE, after=None),
        FileEffect(path="d/f", before=None, after=ONE),
    )
    assert moved.preview == "f -> d/f"
    gone = prepare(workspace, "delete_file", path="f")
    assert (gone.access, gone.base_hashes) == (Access(deletes=("f",)), {"f": ONE})
    assert gone.effects == (FileEffect(path="f", before=ONE, after=None),)
    assert gone.preview == "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
    made = prepare(workspace, "create_directory", path="./d/e")
    assert (made.arguments, made.preview) == ({"path": "d/e"}, "new folder d/e")
    assert made.access == Access(writes=("d/e",))
    edit = prepare(workspace, "edit_file", path="./f", old="one\n", new="")
    assert edit.arguments == {"path": "f", "old": "one\n", "new": "", "replace_all": False}
    assert edit.effects == (FileEffect(path="f", before=ONE, after=TWO),)
    assert (edit.access, edit.base_hashes) == (Access(writes=("f",)), {"f": ONE})
    assert edit.preview == "--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-one\n two\n"
    found = prepare(workspace, "search_in_code", pattern="a'b", path="./d")
    assert (found.preview, found.access) == ('"a\'b" in d', Access(reads=("d",)))
    listed = prepare(workspace, "list_files")
    assert listed.arguments == {"path": ".", "depth": 2, "limit": 500}
    assert (listed.access, listed.preview) == (Access(reads=(".",)), ".")
    read = prepare(workspace, "read_file", path="./link")
    assert (read.arguments, read.access) == ({"path": "f"}, Access(reads=("f",)))
    assert read.preview == "f"


async def test_what_is_looked_for_is_bounded_and_plain_where_it_is_asked_for(
    workspace: Workspace,
) -> None:
    (workspace.root / "d" / "t.py").write_text("a.c\nabc\na.c\n")
    (workspace.root / "d" / "t.md").write_text("a.c\n")

    async def lines(**more: Any) -> list[tuple[str, int]]:
        found = await do(workspace, "search_in_code", pattern="a.c", path="d", **more)
        return [(each["path"], each["line"]) for each in found["matches"]]

    assert await lines() == [("d/t.md", 1), ("d/t.py", 1), ("d/t.py", 2), ("d/t.py", 3)]
    assert await lines(regex=False, glob="*.py") == [("d/t.py", 1), ("d/t.py", 3)]
    assert await lines(limit=1) == [("d/t.md", 1)]
    some = await do(workspace, "list_files", path="d", limit=1)
    assert some == {
        "path": "d", "entries": [{"path": "d/t.md", "type": "file", "size": 4}], "truncated": True,
    }  # fmt: skip
    deep = await do(workspace, "create_directory", path="d/x/y")
    assert deep["created"]
    names = [each["path"] for each in (await do(workspace, "list_files", path="d"))["entries"]]
    assert names == ["d/t.md", "d/t.py", "d/x", "d/x/y"]


def test_a_difference_that_cannot_be_shown_is_summed_up() -> None:
    hidden = "what it holds may be secret"
    assert difference(".env", b"KEY=1", None) == f".env: 5 bytes -> no file ({hidden})\n"
    too_long = "binary or too long to compare"
    assert difference("f", b"a\0", b"ab") == f"f: 2 bytes -> 2 bytes ({too_long})\n"
    assert difference("f", None, b"\xff") == f"f: no file -> 1 bytes ({too_long})\n"
    half = "".join(f"{number:03}\n" for number in range(10_000)).encode()
    lengths = f"{len(half)} bytes -> {len(half) + 2} bytes"
    assert difference("f", half, half + b"y\n") == f"f: {lengths} ({too_long})\n"
    assert difference("f", half, b"y\n" + half[4:]).startswith(
        "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n"
    )
    assert difference("f", None, b"a") == (
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "fits"),
    [
        ("read_file", {"path": "a", "start_line": 1, "end_line": 100_000_000}, True),
        ("read_file", {"path": "a", "end_line": 100_000_001}, False),
        ("list_files", {"depth": 50, "limit": 10_000}, True),
        ("list_files", {"depth": 51}, False), ("list_files", {"depth": 0}, False),
        ("list_files", {"limit": 10_001}, False), ("list_files", {"limit": 0}, False),
        ("search_in_code", {"pattern": "x", "limit": 5_000}, True),
        ("search_in_code", {"pattern": "x", "limit": 5_001}, False),
        ("explore", {"questions": ["x" * 4_000] * 4}, True),
        ("explore", {"questions": ["x"] * 5}, False), ("explore", {"questions": []}, False),
        ("explore", {"questions": ["x" * 4_001]}, False), ("explore", {"questions": [""]}, False),
        ("switch_mode", {"mode": "x" * 64, "confidence": 0.5}, True),
        ("switch_mode", {"mode": "x" * 65}, False), ("switch_mode", {"mode": ""}, False),
        ("create_plan", {"goal": "x" * 4_000, "subtasks": [{}]}, True),
        ("create_plan", {"goal": "x" * 4_001, "subtasks": [{}]}, False),
        ("create_plan", {"goal": "", "subtasks": [{}]}, False),
        ("create_plan", {"goal": "x", "subtasks": []}, False),
        ("ask_followup_question", {"question": "x" * 8_000}, True),
        ("ask_followup_question", {"question": "x" * 8_001}, False),
        ("ask_followup_question", {"question": ""}, False),
        ("read_skill", {"name": "x" * 64}, True), ("read_skill", {"name": "x" * 65}, False),
        ("read_output", {"id": "x" * 100, "from": 1, "to": 100_000_000}, True),
        ("read_output", {"id": "x" * 101}, False),
        ("read_output", {"id": "x", "to": 100_000_001}, False),
        ("read_output", {"id": "x", "pattern": "x" * 2_000}, True),
        ("read_output", {"id": "x", "pattern": "x" * 2_001}, False),
        ("apply_patch", {"patch": ""}, False),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_an_argument_is_taken_within_its_bounds(
    tool: str, arguments: dict[str, Any], fits: bool
) -> None:
    try:
        builtin_tools()[tool].parse(arguments)
    except InvalidArguments:
        assert not fits
    else:
        assert fits


def test_a_planner_is_told_of_the_kinds_of_subtasks_that_were_installed() -> None:
    plain = builtin_tools()["create_plan"]

    assert propose_tool({}) == {"create_plan": plain}
    [(name, tool)] = propose_tool({"deploy": "Ships it.", "notify": "Tells."}).items()
    assert (name, tool.name, tool.arguments) == ("create_plan", "create_plan", plain.arguments)
    assert tool.description == plain.description + (
        " A subtask may have the type `deploy`: Ships it."
        " A subtask may have the type `notify`: Tells."
    )


async def test_a_skill_is_told_without_its_head_and_whose_it_is(
    workspace: Workspace, tmp_path: Path
) -> None:
    tool = skill_tool(InstructionReader(own=tmp_path))
    assert tool.run is not None
    own, theirs = tmp_path / "skills/mine/SKILL.md", ".agents/skills/theirs/SKILL.md"
    for file, data in (
        (own, b"x" * 65_536),
        (workspace.root / theirs, b"---\nname: t\n---\nA\r\n"),
    ):
        file.parent.mkdir(parents=True)
        file.write_bytes(data)

    async def read(name: str) -> tuple[Any, dict[str, Any]]:
        prepared = tool.prepare(workspace, tool.parse({"name": name}))
        assert prepared.arguments == {"name": name}
        told = await tool.run(Bench(workspace=workspace), tool.parse(prepared.arguments))
        return (prepared.access, prepared.preview), told

    assert await read("mine") == ((Access(), "the user's own skill mine"), {
        "name": "mine", "source": "user", "hash": content_hash(b"x" * 65_536),
        "content": "x" * 65_536, "truncated": False,
    })  # fmt: skip
    assert await read("theirs") == ((Access(reads=(theirs,)), theirs), {
        "name": "theirs", "source": "repository", "hash": content_hash(b"---\nname: t\n---\nA\r\n"),
        "content": "A\n", "truncated": False, "path": theirs,
    })  # fmt: skip
    own.write_bytes(b"x" * 65_537)
    assert (await read("mine"))[1]["truncated"]
    own.write_bytes(b"a\0")
    with pytest.raises(ToolFailed, match=r"^The skill 'mine' is binary$") as refused:
        await read("mine")
    assert refused.value.kind == "not_text"
