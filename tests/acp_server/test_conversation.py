"""A conversation through an editor: hello, a session, a question, and its answer as it comes."""

from acp import schema


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
