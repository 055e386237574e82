"""When a conversation is told of instruction files, and when it is left alone."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fakes import rows
from gonogo.domain.instructions import FoundInstructions, FoundSkill, InstructionText
from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Instructions, Message, Reply, ToolRequest, ToolSchema, UserText
from gonogo.execution.agent import MODEL, Briefings, facts_of
from gonogo.execution.agent.context import StoredThread, record_of_thread
from gonogo.execution.agent.conversation import compose, touched_paths, usable
from gonogo.i18n import say
from gonogo.runtime import bare_thread
from gonogo.workspace import InstructionReader

TASK = UserText(content="Go")


async def test_a_conversation_is_told_what_it_does_not_know_and_nothing_twice(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    briefings, thread = Briefings(reader=InstructionReader()), bare_thread(tmp_path)

    told = await briefings.news(thread, [TASK], ())
    assert told is not None
    assert await briefings.news(thread, [TASK, told], ()) is None
    stored = StoredThread(said=[TASK, told], calls={})
    assert record_of_thread(stored, {}, "en").messages == (told, TASK)
    assert record_of_thread(stored, {}, "en", briefed=False).messages == (TASK,)
    off = Briefings(reader=InstructionReader(on=False))
    assert await off.news(thread, [TASK], ()) is None


async def test_nobody_is_told_between_the_parts_of_a_reply_nor_a_model_alone(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    briefings, thread = Briefings(reader=InstructionReader()), bare_thread(tmp_path)
    begun, whole = Reply(text="I beg", cut=True), Reply(calls=(ToolRequest(id="c", name="x"),))

    assert await briefings.news(thread, [TASK, begun], ()) is None
    assert await briefings.news(replace(thread, agent=MODEL), [TASK], ()) is None
    assert isinstance(await briefings.news(thread, [TASK, whole], ()), Instructions)


async def test_a_workspace_that_is_away_is_told_by_whoever_works_in_it(tmp_path: Path):
    briefings = Briefings(reader=InstructionReader(own=tmp_path))

    assert await briefings.news(bare_thread(tmp_path / "away"), [TASK], ()) is None


async def test_texts_are_in_the_language_of_the_conversation(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    (tmp_path / "CLAUDE.md").write_text("x\n" * 50_000)
    thread = bare_thread(tmp_path, locale="ru")
    told = await Briefings(reader=InstructionReader()).news(thread, [TASK], ())

    assert told is not None
    assert told.content.startswith("Файлы инструкций")
    assert told.content.endswith("Конец файлов инструкций.")
    assert [facts_of(file)["cut"] for file in told.files] == [False, True]


# What is told of each file, word for word ---------------------------------------------------------

HEAD = say("model_instructions", "en")
MORE = say("model_instructions_more", "en")
END = "End of the instruction files."


def file(path: str, text: str = "Use tabs.", **more: Any) -> InstructionText:
    given: dict[str, Any] = {
        "source": "repository", "path": path, "sha256": f"sha-of-{text[:20]}",
        "size": len(text.encode()), "text": text,
    }  # fmt: skip
    return InstructionText(**{**given, **more})


def told(before: list[Message], *files: InstructionText, **more: Any) -> Instructions | None:
    return compose(before, FoundInstructions(files=files, **more), "en")


def after(*files: InstructionText) -> list[Message]:
    first = told([], *files)
    assert first is not None
    return [TASK, first]


def blocks(found: Instructions | None, head: str = MORE) -> str:
    assert found is not None
    assert found.content.startswith(f"{head}\n\n")
    assert found.content.endswith(f"\n{END}")
    return found.content[len(head) + 2 : -len(END) - 1]


def hows(found: Instructions | None) -> list[tuple[str, str]]:
    return [(each.path, each.how) for each in found.files] if found else []


def test_a_file_is_told_whole_with_where_it_is_from_and_one_like_it_by_its_name() -> None:
    own = file("own.md", "Be brief.\nNo any.", source="user")
    found = told([], file("A.md"), own, file("B.md"))

    assert blocks(found, HEAD) == (
        "A.md (from the repository, sha256 sha-of-Use tabs., 9 bytes):\n| Use tabs.\n\n"
        "own.md (the user's own, sha256 sha-of-Be brief.\nNo any., 17 bytes):\n"
        "| Be brief.\n| No any.\n\n"
        "B.md (from the repository, sha256 sha-of-Use tabs., 9 bytes) is the same as A.md.\n"
    )
    assert found is not None
    assert [each.model_dump() for each in found.files] == [
        {"path": "A.md", "source": "repository", "sha256": "sha-of-Use tabs.", "size": 9,
         "how": "whole", "text": "Use tabs."},
        {"path": "own.md", "source": "user", "sha256": "sha-of-Be brief.\nNo any.", "size": 17,
         "how": "whole", "text": "Be brief.\nNo any."},
        {"path": "B.md", "source": "repository", "sha256": "sha-of-Use tabs.", "size": 9,
         "how": "same", "text": ""},
    ]  # fmt: skip
    assert [facts_of(each) for each in found.files[:1]] == [
        {"path": "A.md", "source": "repository", "sha256": "sha-of-Use tabs.", "bytes": 9,
         "how": "whole", "cut": False}
    ]  # fmt: skip
    assert told([TASK, found], file("A.md"), own, file("B.md")) is None


def test_a_change_is_told_against_what_was_told_first_and_what_is_gone_as_gone() -> None:
    before = after(file("A.md", "one\ntwo\nthree"), file("B.md", "b"))
    second = told(before, file("A.md", "one\n2\nthree"))

    assert blocks(second) == (
        "A.md has changed (from the repository, sha256 sha-of-one\n2\nthree, 11 bytes). Compared"
        " with what you were told of it first:\n| @@ -2,1 +2,1 @@\n| -two\n| +2\n\n"
        "B.md cannot be read any more; what you were told of it no longer holds."
    )
    assert second is not None
    assert second.files[-1].model_dump() == {
        "path": "B.md", "source": "repository", "sha256": None, "size": 0, "how": "gone",
        "text": "",
    }  # fmt: skip
    assert facts_of(second.files[-1]) == {
        "path": "B.md", "source": "repository", "bytes": 0, "how": "gone", "cut": False,
    }  # fmt: skip
    # What is gone is told once, and told whole again where it is back.
    third = [*before, second]
    assert told(third, file("A.md", "one\n2\nthree")) is None
    assert hows(told(third, file("A.md", "one\n2\nthree"), file("B.md", "b"))) == [("B.md", "diff")]
    assert hows(told(third, file("A.md", "one\n3\nthree"))) == [("A.md", "diff")]


def test_a_change_that_is_large_or_of_what_was_never_told_whole_is_only_named() -> None:
    before = after(file("A.md", "a"))
    long = told(before, file("A.md", "\n".join(["x" * 99] * 99)))
    assert hows(long) == [("A.md", "changed")]
    assert blocks(long).endswith("bytes); if you need it, read the file.\n")

    offered = file("R.mdc", "rule", offered="Rules of r")
    before = after(offered)
    assert blocks(before[1], HEAD) == (
        "R.mdc (from the repository, sha256 sha-of-rule, 4 bytes): read the file if what it is"
        " about fits your work:\n| Rules of r\n"
    )
    assert told(before, offered) is None
    # Once it is for the work at hand it is told.
    assert hows(told(before, file("R.mdc", "rule"))) == [("R.mdc", "whole")]
    other = file("R.mdc", "other", offered="Rules of r")
    assert hows(told(before, other)) == [("R.mdc", "offered")]


def test_there_is_room_for_so_much_and_so_many_files() -> None:
    half = "x" * (16 * 1024 - 4)
    found = told([], file("A.md", half), file("B.md", "y" + half), file("C.md", "c" * 999))
    assert hows(found) == [("A.md", "whole"), ("B.md", "cut"), ("C.md", "named")]
    assert blocks(found, HEAD).endswith(
        "C.md (from the repository, sha256 sha-of-cccccccccccccccccccc, 999 bytes) is left out,"
        " since there is no room for it; if you need it, read the file.\n"
    )
    assert [facts_of(each)["cut"] for each in (found.files if found else ())] == [
        False, True, True,
    ]  # fmt: skip

    many = [file(f"{number}.md", str(number)) for number in range(65)]
    assert len(hows(told([], *many))) == 64
    assert told(after(*many[:64]), many[64]) is None
    assert told(after(*many[:64])) is None


def test_skills_are_listed_once_before_the_files_and_anew_when_there_are_others() -> None:
    def skill(name: str) -> FoundSkill:
        return FoundSkill(name=name, source="user", path=f"{name}.md", description=f"Of {name}")

    found = told([], file("A.md"), skills=(skill("a"),))
    words = say("model_skills", "en")
    assert hows(found) == [("skills", "whole"), ("A.md", "whole")]
    assert blocks(found, HEAD).startswith(f"{words}\n| ")
    assert found is not None
    listed = found.files[0]
    assert (listed.source, listed.text, listed.size) == ("skills", "", listed.size)
    assert told([found], file("A.md"), skills=(skill("a"),)) is None
    assert hows(told([found], file("A.md"), skills=(skill("b"),))) == [("skills", "whole")]
    # No skill any more: the list itself is never gone, it is only not told again.
    assert told([found], file("A.md")) is None

    tools = [ToolSchema(name=name, description="", parameters={})
             for name in ("read_file", "read_skill")]  # fmt: skip
    assert [tool.name for tool in usable(tools, [found])] == ["read_file", "read_skill"]
    assert [tool.name for tool in usable(tools, [TASK])] == ["read_file"]


def test_paths_count_as_touched_once_a_call_that_names_them_was_carried_out() -> None:
    def made(tool: str, **arguments: Any) -> CallRow:
        more = {"status": CallStatus.COMPLETED, "tool": tool, "arguments": arguments}
        return rows.call(**more)

    calls = [
        made("read_file", path="src/a"), made("write_file", path="b", content=""),
        made("delete_file", path="c"), made("execute_command", command="make", cwd="sub"),
        made("read_file", path="src/a"), made("read_file", path="../out"), made("fetch"),
        made("fly", path="d"), rows.call(tool="read_file", arguments={"path": "e"}),
    ]  # fmt: skip
    assert touched_paths(calls) == ["src/a", "b", "c", "sub"]
