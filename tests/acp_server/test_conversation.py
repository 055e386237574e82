"""A conversation through an editor: hello, a session, a question, and its answer as it comes."""

from pathlib import Path

import pytest
from acp import schema

from gonogo.acp_server.session import text_of


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
