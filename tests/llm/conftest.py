"""A scripted provider for the whole module, and a model that speaks with it."""

import pytest

from fakes.openai_server import fake_openai
from gonogo.domain.tool_calls import ModelRequest, ToolSchema, UserText
from gonogo.llm import ModelSettings, open_model

KEY = "sk-test-0123456789abcdef"
TOOL = ToolSchema(
    name="read_file",
    description="Read a file.",
    parameters={
        "type": "object",
        "title": "ReadFile",
        "properties": {
            "path": {"type": "string", "title": "Path", "minLength": 1, "default": "."},
            "start": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="session")
def openai_process():
    with fake_openai() as server:
        yield server


@pytest.fixture
def provider(openai_process):
    openai_process.script({})
    return openai_process


@pytest.fixture
def settings(provider):
    def make(**changes):
        given = {
            "name": "openai:scripted",
            "base_url": provider.base_url,
            "api_key": KEY,
            "timeout": 60.0,
            "total_timeout": 120.0,
            "max_attempts": 3,
            "backoff": 0.001,
            "max_retry_after": 0.05,
        }
        return ModelSettings(**{**given, **changes})

    return make


@pytest.fixture
async def model(settings):
    opened = open_model(settings(), {})
    yield opened
    await opened.aclose()


@pytest.fixture
def asked():
    def make(*messages, **changes):
        given = {
            "agent": "coder",
            "thread": "main",
            "system": "You are the coder.",
            "messages": messages or (UserText(content="Begin."),),
            "tools": (TOOL,),
        }
        return ModelRequest(**{**given, **changes})

    return make
