"""A conversation through an editor: hello, a session, a question, and its answer as it comes."""

from pathlib import Path

import pytest
from acp import schema

from gonogo.acp_server.protocol import told
from gonogo.acp_server.session import command_updates, plain, text_of
from gonogo.domain.errors import InvalidMessage


async def test_an_editor_says_hello_opens_a_session_and_gets_its_answer(editor, folder, provider):
    provider.replies({"text": ["Well, ", "it is ", "a project."]})
    async with editor() as pad:
        hello = await pad.greet()
        offered = schema.McpServerStdio(name="docs", command="docs", args=[], env=[])
        session = await pad.agent.new_session(cwd=str(folder), mcp_servers=[offered])
        await pad.until(lambda: pad.text)
        first = pad.text
        ended = await pad.say(session.session_id, "What is this?")
    assert hello.protocol_version == 1
    assert hello.agent_info.name == "gonogo"
    assert ended == "end_turn"
    assert "MCP servers that this editor offers are not used: docs." in first
    assert pad.text.removeprefix(first) == "Well, it is a project."
    assert len(pad.of("agent_message_chunk")) > 1


@pytest.mark.parametrize("words", ["approve", "start", "/unknown", "/"])
async def test_what_is_no_command_is_said_to_the_agent(editor, folder, provider, words):
    provider.replies({"text": "So you say."})
    async with editor() as pad:
        session = await pad.open(folder)
        assert await pad.say(session.session_id, words) == "end_turn"
        assert pad.text == "So you say."
    assert provider.requests[-1]["messages"][-1] == {"role": "user", "content": words}


def test_a_file_in_a_prompt_is_named_as_tools_name_it_and_its_text_stays_a_quotation(
    folder: Path,
) -> None:
    uri = f"{folder.as_uri()}/a%20b.md"
    text = schema.TextResourceContents(uri=uri, text="```\nx\n```")
    blob = schema.BlobResourceContents(uri=uri, blob="AA==")
    blocks = [
        schema.TextContentBlock(type="text", text="See "),
        schema.EmbeddedResourceContentBlock(type="resource", resource=blob),
        schema.TextContentBlock(type="text", text=" and"),
        schema.EmbeddedResourceContentBlock(type="resource", resource=text),
    ]
    said = "See `a b.md` and\n\na b.md:\n````\n```\nx\n```\n````"
    assert text_of(blocks, str(folder)) == said


def text(said: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=said)


def test_a_link_in_a_prompt_is_named_within_the_project_and_else_whole() -> None:
    def link(uri: str) -> schema.ResourceContentBlock:
        return schema.ResourceContentBlock(type="resource_link", name="x", uri=uri)

    def said(uri: str) -> str:
        return text_of([text("  See "), link(uri), text(" \n")], "/project")

    assert said("file:///project/src/a%20b.py") == "See `src/a b.py`"
    assert said("file:///projects/a.py") == "See `/projects/a.py`"
    assert said("https://a.example/project/x%20y") == "See `https://a.example/project/x%20y`"
    assert said("file://[::1/a") == "See `file://[::1/a`"


def test_the_fence_of_a_quotation_is_longer_than_any_in_it() -> None:
    def quoted(said: str) -> str:
        held = schema.TextResourceContents(uri="file:///project/a", text=said)
        block = schema.EmbeddedResourceContentBlock(type="resource", resource=held)
        return text_of([text("x"), block, text("y")], "/project")

    for said, fence in (("`a` ``b``", "```"), ("```", "````"), ("a`````b", "``````")):
        assert quoted(said) == f"x\n\na:\n{fence}\n{said}\n{fence}\n\ny"


def test_a_prompt_without_words_or_of_a_kind_that_was_not_announced_is_refused() -> None:
    image = schema.ImageContentBlock(type="image", data="", mime_type="image/png")
    for blocks, why in (
        ([], "prompt: there is no text in it; write what you want"),
        ([text(" \n")], "prompt: there is no text in it; write what you want"),
        ([text("See"), image], "prompt: a block of the type image is not taken; send text"),
    ):
        with pytest.raises(InvalidMessage) as refused:
            text_of(blocks, "/project")
        said = told(refused.value)
        assert (said.code, str(said)) == (-32602, why)


def test_an_editor_is_told_of_commands_in_the_language_of_the_session() -> None:
    told = plain(command_updates("ru"))

    assert [each["name"] for each in told["availableCommands"]] == [
        "approve", "hold", "reject", "revise", "start", "pause", "resume",
    ]  # fmt: skip
    words = [each["description"] for each in told["availableCommands"]]
    hints = {each["name"]: each["input"]["hint"] for each in told["availableCommands"]
             if "input" in each}  # fmt: skip
    assert hints.keys() == {"reject", "revise"}
    assert all(word.isascii() is False for word in [*words, *hints.values()])
