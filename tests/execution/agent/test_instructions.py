"""When a conversation is told of instruction files, and when it is left alone."""

from pathlib import Path

from msgspec.structs import replace

from gonogo.domain.tool_calls import Instructions, Reply, ToolRequest, UserText
from gonogo.execution.agent import MODEL, Briefings, facts_of
from gonogo.execution.agent.context import record_of_thread
from gonogo.runtime import bare_thread
from gonogo.workspace import InstructionReader

TASK = UserText(content="Go")


async def test_a_conversation_is_told_what_it_does_not_know_and_nothing_twice(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    briefings, thread = Briefings(reader=InstructionReader()), bare_thread(tmp_path)

    told = await briefings.news(thread, [TASK], ())
    assert told is not None
    assert await briefings.news(thread, [TASK, told], ()) is None
    assert record_of_thread([TASK, told], {}, {}, "en").messages == (told, TASK)
    assert record_of_thread([TASK, told], {}, {}, "en", briefed=False).messages == (TASK,)
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
