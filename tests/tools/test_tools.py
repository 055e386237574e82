"""Each tool says before it runs what it will touch, runs exactly that or nothing, and tells what
came of it in plain JSON.

What models are told of the tools is kept in `golden/schemas.json`; with `GONOGO_WRITE_GOLDEN=1` it
is written anew after a change that is meant.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.golden import kept
from fakes.until import with_time_to_begin
from gonogo.domain.base import content_hash
from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.domain.plan import MAX_SUBTASKS
from gonogo.domain.tool_calls import Access, FileEffect, ToolClass
from gonogo.tools import Bench, Prepared, builtin_tools, ending_tools
from gonogo.workspace import Sandbox, Workspace

TOOLS = builtin_tools()
GOLDEN = Path(__file__).parent / "golden" / "schemas.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


def prepare(workspace: Workspace, tool: str, **arguments: Any) -> Prepared:
    return TOOLS[tool].prepare(workspace, TOOLS[tool].parse(arguments))


async def carry_out(
    workspace: Workspace, tool: str, prepared: Prepared, **options: Any
) -> dict[str, Any]:
    run = TOOLS[tool].run
    assert run is not None
    bench = Bench(workspace=workspace, base_hashes=prepared.base_hashes, **options)
    with anyio.fail_after(60):
        result = await run(bench, TOOLS[tool].parse(prepared.arguments))
    assert json.loads(json.dumps(result)) == result
    return result


async def do(workspace: Workspace, tool: str, **arguments: Any) -> dict[str, Any]:
    return await carry_out(workspace, tool, prepare(workspace, tool, **arguments))


def refused(kind: str):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


def test_the_tools_have_their_names_and_classes() -> None:
    classes = {name: tool.tool_class.value for name, tool in TOOLS.items()}

    assert classes == {
        **dict.fromkeys(["read_file", "list_files", "search_in_code", "explore"], "pure"),
        **dict.fromkeys(["read_output", "read_skill"], "pure"),
        **dict.fromkeys(
            ["write_file", "edit_file", "apply_patch", "create_directory"], "idempotent"
        ),
        **dict.fromkeys(["move_file", "execute_command"], "other"),
        "delete_file": "irreversible",
        **dict.fromkeys(["create_plan", "execute_plan", "switch_mode"], "control"),
        **dict.fromkeys(["ask_followup_question", "attempt_completion"], "control"),
    }


def test_a_control_tool_has_no_body_and_every_other_one_has() -> None:
    for tool in TOOLS.values():
        assert (tool.run is None) == (tool.tool_class is ToolClass.CONTROL)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_model_is_told_a_closed_schema(tool) -> None:
    schema = tool.schema()

    assert schema.parameters["type"] == "object"
    assert schema.parameters["additionalProperties"] is False
    assert schema.description


def test_what_a_model_is_told_of_every_tool_reads_as_it_is_kept() -> None:
    tools = [*TOOLS.values(), *ending_tools().values()]
    found = {
        tool.name: {"class": tool.tool_class.value, **tool.schema().model_dump(mode="json")}
        for tool in tools
    }
    text = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert text == kept(GOLDEN, text)


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("read_file", {}, "path"),
        ("read_file", {"path": 3}, "path"),
        ("read_file", {"path": "a", "start_line": "1"}, "start_line"),
        ("read_file", {"path": "a", "start_line": True}, "start_line"),
        ("read_file", {"path": "a", "start_line": 0}, "start_line"),
        ("read_file", {"path": "a", "encoding": "x"}, "encoding"),
        ("write_file", {"path": "a", "content": None}, "content"),
        ("edit_file", {"path": "a", "old": "", "new": "x"}, "old"),
        ("list_files", {"depth": 1_000_000_000}, "depth"),
        ("execute_command", {"command": ["ls"]}, "command"),
        ("execute_command", {"command": "ls", "timeout": -1}, "timeout"),
        ("execute_command", {"command": "ls", "env": {}}, "env"),
        ("create_plan", {"goal": "g", "subtasks": "none"}, "subtasks"),
        ("switch_mode", {}, "mode"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    tool: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidArguments, match=f"{tool}: {named}"):
        TOOLS[tool].parse(arguments)


@pytest.mark.parametrize("name", ["mode", "agent", "agent_type", "target_agent"])
def test_a_switch_may_use_the_older_names(workspace: Workspace, name: str) -> None:
    assert prepare(workspace, "switch_mode", **{name: "coder"}).arguments == {"mode": "coder"}


async def test_preparing_changes_nothing(workspace: Workspace) -> None:
    workspace.write("f", b"one\n", base=None)
    before = sorted(workspace.root.rglob("*"))

    prepare(workspace, "write_file", path="new/f", content="x")
    prepare(workspace, "edit_file", path="f", old="one", new="two")
    prepare(workspace, "delete_file", path="f")
    prepare(workspace, "move_file", source="f", destination="g/f")
    prepare(workspace, "create_directory", path="d")
    prepare(workspace, "execute_command", command="touch x")
    prepare(workspace, "apply_patch", patch="--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n")

    assert sorted(workspace.root.rglob("*")) == before
    assert workspace.read("f") == b"one\n"


async def test_a_file_is_read_by_lines(workspace: Workspace) -> None:
    workspace.write("f", b"one\ntwo\nthree", base=None)

    whole = await do(workspace, "read_file", path="f")
    part = await do(workspace, "read_file", path="./f", start_line=2, end_line=2)
    beyond = await do(workspace, "read_file", path="f", start_line=9)

    assert (whole["content"], whole["total_lines"]) == ("one\ntwo\nthree", 3)
    assert whole["hash"] == part["hash"] == content_hash(b"one\ntwo\nthree")
    assert (part["content"], part["start_line"], part["end_line"]) == ("two\n", 2, 2)
    assert (beyond["content"], beyond["truncated"]) == ("", False)


async def test_a_long_file_is_cut_and_says_where(workspace: Workspace) -> None:
    workspace.write("f", b"0123456789\n" * 50_000, base=None)

    result = await do(workspace, "read_file", path="f")
    rest = await do(
        workspace, "read_file", path="f", start_line=result["end_line"] + 1, end_line=20_000
    )

    assert result["truncated"]
    assert (result["total_lines"], result["size"]) == (50_000, 550_000)
    # Whole lines, as many as a model is given of one result.
    assert 23_980 < len(result["content"]) <= 24_000
    assert result["content"].endswith("9\n")
    assert rest["content"].startswith("0123456789\n")


async def test_a_file_of_one_long_line_is_given_as_far_as_may_be(workspace: Workspace) -> None:
    workspace.write("f", b"x" * 200_000, base=None)

    result = await do(workspace, "read_file", path="f")

    assert (len(result["content"]), result["truncated"]) == (128 * 1024, True)
    assert result["size"] == 200_000


async def test_binary_is_refused_and_other_encodings_are_read_with_a_warning(
    workspace: Workspace,
) -> None:
    workspace.write("bin", b"a\0b", base=None)
    workspace.write("latin", b"caf\xe9", base=None)

    with refused("not_text"):
        await do(workspace, "read_file", path="bin")
    assert (await do(workspace, "read_file", path="latin"))["lossy"] is True
    with refused("not_text"):
        prepare(workspace, "edit_file", path="latin", old="caf", new="tea")


async def test_a_write_shows_the_difference_and_binds_the_base(workspace: Workspace) -> None:
    workspace.write("f", b"one\n", base=None)

    prepared = prepare(workspace, "write_file", path="./f", content="two\n")

    assert prepared.arguments == {"path": "f", "content": "two\n"}
    assert prepared.access == Access(writes=("f",))
    assert prepared.base_hashes == {"f": content_hash(b"one\n")}
    assert prepared.effects == (
        FileEffect(path="f", before=content_hash(b"one\n"), after=content_hash(b"two\n")),
    )
    assert prepared.preview == "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "f", "content": "two\n"}),
        ("edit_file", {"path": "f", "old": "one", "new": "two"}),
        ("apply_patch", {"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"}),
        ("delete_file", {"path": "f"}),
        ("move_file", {"source": "f", "destination": "g"}),
    ],
)
async def test_a_file_that_changed_after_the_approval_is_left_alone(
    workspace: Workspace, tool: str, arguments: dict[str, Any]
) -> None:
    workspace.write("f", b"one\n", base=None)
    prepared = prepare(workspace, tool, **arguments)
    workspace.write("f", b"one\nand the person's line\n", base="any")

    with refused("changed_since_approval"):
        await carry_out(workspace, tool, prepared)

    assert workspace.read("f") == b"one\nand the person's line\n"


async def test_a_file_that_is_deleted_is_gone_and_said_to_be(workspace: Workspace) -> None:
    workspace.write("f", b"one\n", base=None)

    assert await do(workspace, "delete_file", path="f") == {"path": "f", "deleted": True}
    assert workspace.hash("f") is None


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_base_hash_that_is_old_asks_to_read_again(workspace: Workspace, tool: str) -> None:
    workspace.write("f", b"two\n", base=None)
    rest = {"content": "x"} if tool == "write_file" else {"old": "two", "new": "x"}

    with refused("changed_since_read"):
        prepare(workspace, tool, path="f", base_hash=content_hash(b"one\n"), **rest)
    prepare(workspace, tool, path="f", base_hash=content_hash(b"two\n"), **rest)


async def test_writing_the_effects_gives_the_hashes_that_were_promised(
    workspace: Workspace,
) -> None:
    workspace.write("f", b"one\n", base=None)
    workspace.write("g", b"bye\n", base=None)
    patch = (
        "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n one\n+two\n"
        "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
        "--- /dev/null\n+++ b/sub/h\n@@ -0,0 +1 @@\n+new\n"
    )
    prepared = prepare(workspace, "apply_patch", patch=patch)

    result = await carry_out(workspace, "apply_patch", prepared)

    assert {effect.path: effect.after for effect in prepared.effects} == {
        path: workspace.hash(path) for path in ("f", "g", "sub/h")
    }
    assert [file["action"] for file in result["files"]] == ["changed", "deleted", "created"]
    assert prepared.access == Access(writes=("f", "sub/h"), deletes=("g",))


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ("--- a/g\n+++ b/g\n@@ -1 +1 @@\n-nothing\n+x\n", "not_found_in_file"),
        ("--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n", "not_found_in_file"),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+x\n", "file_not_found"),
        ("--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n", "file_exists"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "protected_path"),
        ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "path_outside_workspace"),
        ("--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n", "symlink_escape"),
    ],
)
async def test_a_patch_that_fails_in_one_file_changes_none(
    workspace: Workspace, second: str, kind: str
) -> None:
    workspace.write("f", b"one\n", base=None)
    workspace.write("g", b"two\nmore\n", base=None)
    (workspace.root / "link").symlink_to("..")
    patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n" + second
    unchecked = Prepared(arguments={"patch": patch})

    with refused(kind):
        prepare(workspace, "apply_patch", patch=patch)
    with refused(kind):
        await carry_out(workspace, "apply_patch", unchecked)
    assert workspace.read("f") == b"one\n"


@pytest.mark.feature(228)
async def test_an_edit_in_other_white_space_lands_as_it_was_shown_and_says_so(
    workspace: Workspace,
) -> None:
    workspace.write("f.py", b"if x:\n\tprint(1)\n\tprint(2)\n", base=None)
    edit = {"path": "f.py", "old": "    print(1)\n    print(2)\n", "new": "    print(3)\n"}
    shown = TOOLS["edit_file"].prepare(workspace, TOOLS["edit_file"].parse(edit))
    result = await do(workspace, "edit_file", **edit)

    assert workspace.read("f.py") == b"if x:\n\tprint(3)\n"
    assert shown.preview.splitlines()[3:] == [" if x:", "-\tprint(1)", "-\tprint(2)", "+\tprint(3)"]
    assert shown.effects[0].after == result["hash"]
    assert result["note"] == "lines 2-3 had other white space than your text; the file's was kept"
    patch = "--- a/f.py\n+++ b/f.py\n@@ -2 +2 @@\n-  print(3)\n+  print(4\n"
    [done] = (await do(workspace, "apply_patch", patch=patch))["files"]
    assert workspace.read("f.py") == b"if x:\n\tprint(4\n"
    assert done["note"].startswith("line 2 had other white space")
    assert done["problem"] == "'f.py' is not valid Python any more: line 2: '(' was never closed"


@pytest.mark.feature(228)
async def test_what_is_not_there_is_answered_with_the_nearest_lines_but_not_of_secrets(
    workspace: Workspace,
) -> None:
    held = "".join(f"KEY_{number}=value {number}\n" for number in range(9)).encode()
    for path in ("f", ".env"):
        workspace.write(path, held, base=None)
    told = []
    for path in ("f", ".env"):
        with pytest.raises(ToolFailed) as failure:
            prepare(workspace, "edit_file", path=path, old="KEY_3=value 3\nKEY_4=x\n", new="")
        told.append(str(failure.value))
    assert told == [
        "'f' does not contain `old`; similar lines: 4-5; read the file again",
        "'.env' does not contain `old`",
    ]


@pytest.mark.feature(228)
async def test_a_write_that_no_longer_reads_says_where(workspace: Workspace) -> None:
    new = await do(workspace, "write_file", path="a.json", content='{"a": 1')
    assert new["problem"].startswith("'a.json' is not valid JSON: line 1: ")
    assert "problem" not in await do(workspace, "write_file", path="a.json", content="{}")


@pytest.mark.feature(228)
async def test_no_edit_lands_within_a_word_where_its_line_stands_elsewhere_in_other_blanks(
    workspace: Workspace,
) -> None:
    workspace.write("f.py", b"discount = 0\ncount  = 0\n", base=None)
    edit = {"path": "f.py", "old": "count = 0", "new": "count = 1"}
    with refused("not_unique"):
        prepare(workspace, "edit_file", **edit)
    workspace.write("g.py", b"discount = 0\r\n", base=None)
    await do(workspace, "edit_file", **(edit | {"path": "g.py", "new": "count = 1\nx = 2"}))
    assert workspace.read("g.py") == b"discount = 1\r\nx = 2\r\n"


async def test_an_edit_must_be_meant(workspace: Workspace) -> None:
    workspace.write("f", b"aaa\nb\n", base=None)

    with refused("not_unique"):
        prepare(workspace, "edit_file", path="f", old="aa", new="x")
    with refused("not_found_in_file"):
        prepare(workspace, "edit_file", path="f", old="c", new="x")
    with refused("no_change"):
        prepare(workspace, "edit_file", path="f", old="b", new="b")
    with refused("file_not_found"):
        prepare(workspace, "edit_file", path="none", old="b", new="c")
    result = await do(workspace, "edit_file", path="f", old="a", new="x", replace_all=True)
    assert result["replacements"] == 3
    assert workspace.read("f") == b"xxx\nb\n"


async def test_moving_a_secret_is_reading_it(workspace: Workspace) -> None:
    workspace.write(".env", b"KEY=1", base=None)

    prepared = prepare(workspace, "move_file", source=".env", destination="plain.txt")

    assert prepared.access == Access(reads=(".env",), writes=("plain.txt",), deletes=(".env",))


async def test_a_file_moves_and_goes(workspace: Workspace) -> None:
    workspace.write("f", b"one", base=None)

    await do(workspace, "move_file", source="f", destination="a/g")
    with refused("file_not_found"):
        prepare(workspace, "delete_file", path="f")
    await do(workspace, "delete_file", path="a/g")

    assert (await do(workspace, "list_files"))["entries"] == [{"path": "a", "type": "folder"}]


async def test_folders_are_made_and_listed(workspace: Workspace) -> None:
    assert (await do(workspace, "create_directory", path="a/b/c"))["created"]
    assert not (await do(workspace, "create_directory", path="a/b/c"))["created"]
    workspace.write("a/f", b"123", base=None)

    listing = await do(workspace, "list_files", path="a", depth=1)

    assert listing["entries"] == [
        {"path": "a/b", "type": "folder"},
        {"path": "a/f", "type": "file", "size": 3},
    ]


async def test_lines_are_found(workspace: Workspace) -> None:
    workspace.write("src/a.py", b"x = 1\ny = 2\n", base=None)

    result = await do(workspace, "search_in_code", pattern=r"y\s*=", path="src")

    assert result == {
        "matches": [{"path": "src/a.py", "line": 2, "text": "y = 2"}],
        "truncated": False,
    }


async def test_a_command_is_shown_as_it_is_and_runs_where_it_says(workspace: Workspace) -> None:
    workspace.mkdir("real")
    (workspace.root / "link").symlink_to("real")

    prepared = prepare(workspace, "execute_command", command="pwd; exit 3", cwd="link", timeout=5)
    result = await carry_out(workspace, "execute_command", prepared, sandbox=Sandbox.detect())

    assert prepared.access == Access(command="pwd; exit 3", cwd="real")
    assert prepared.preview == "cd real\npwd; exit 3"
    assert result == {
        "exit_code": 3,
        "output": f"{workspace.root}/real\n",
        "truncated": False,
        "timed_out": False,
    }


async def test_the_parsed_form_of_a_command_runs_instead_of_the_written_one(
    workspace: Workspace,
) -> None:
    prepared = prepare(workspace, "execute_command", command="echo written")

    result = await carry_out(workspace, "execute_command", prepared, run_as="'echo' 'parsed'")

    assert result["output"] == "parsed\n"


async def test_a_command_that_takes_too_long_says_so(workspace: Workspace) -> None:
    result = await with_time_to_begin(
        lambda seconds: do(
            workspace, "execute_command", command="echo a; sleep 60", timeout=seconds
        ),
        lambda result: result["output"],
    )

    assert (result["timed_out"], result["exit_code"], result["output"]) == (True, 124, "a\n")


async def test_a_working_folder_that_was_swapped_for_a_link_is_refused(
    workspace: Workspace,
) -> None:
    workspace.mkdir("w")
    prepared = prepare(workspace, "execute_command", command="pwd", cwd="w")
    (workspace.root / "w").rmdir()
    (workspace.root / "w").symlink_to("..")

    with refused("changed_since_approval"):
        await carry_out(workspace, "execute_command", prepared)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": ".env", "content": "NEW=1\n"}),
        ("edit_file", {"path": ".env", "old": "OTHER=1", "new": "OTHER=2"}),
        ("delete_file", {"path": ".env"}),
        ("apply_patch", {"patch": "--- a/.env\n+++ b/.env\n@@ -2 +2 @@\n-OTHER=1\n+OTHER=2\n"}),
    ],
)
def test_a_question_about_a_secret_does_not_show_what_it_held(
    workspace: Workspace, tool: str, arguments: dict[str, Any]
) -> None:
    (workspace.root / ".env").write_text("KEY=CANARY\nOTHER=1\n")

    prepared = prepare(workspace, tool, **arguments)

    assert "CANARY" not in prepared.preview
    assert ".env" in prepared.preview
    assert "may be secret" in prepared.preview


def test_a_question_about_a_new_secret_shows_all_of_it(workspace: Workspace) -> None:
    assert "+KEY=1" in prepare(workspace, "write_file", path=".env", content="KEY=1\n").preview


def test_a_model_is_told_how_large_a_plan_may_be_before_it_writes_one() -> None:
    subtasks = TOOLS["create_plan"].schema().parameters["properties"]["subtasks"]

    assert subtasks["maxItems"] == MAX_SUBTASKS
    assert str(MAX_SUBTASKS) in subtasks["description"]
