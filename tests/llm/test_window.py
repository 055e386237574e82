"""The window of a model, refusals for length, and what providers are told to cache.

Counted from what was sent to servers that speak the providers' own protocols.
"""

import json
from itertools import pairwise

import anyio
import pytest

from fakes.anthropic_server import fake_anthropic
from gonogo.domain.errors import ModelFailed, PromptTooLong
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolRequest, UserText
from gonogo.llm import ModelSettings, open_model
from gonogo.llm.model import model_failed
from gonogo.llm.provider import ProviderModel

pytestmark = pytest.mark.anyio
KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def anthropic(monkeypatch):
    with fake_anthropic() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        yield server


def claude(**more):
    return open_model(
        ModelSettings(name="anthropic:claude-sonnet-5-5", api_key=KEY, max_attempts=1, **more), {}
    )


def grown(steps, size=2_000):
    """A conversation after so many steps, each with a result of so many characters."""
    said = [UserText(content="Do it. " * 100)]
    for n in range(steps):
        made = ToolRequest(id=f"call_{n:024}", name="read_file", arguments={"path": f"{n}.py"})
        said.append(Reply(text=f"Step {n}", calls=(made,), model="anthropic:claude-sonnet-5-5"))
        text = f"line {n}\n" * (size // 8)
        said.append(ToolAnswer(call_id=made.id, tool_name="read_file", content=text))
    return said


async def ask(model, request):
    with anyio.fail_after(60):
        return await model.request(request, lambda _text: None)


def blocks(body):
    """What a request holds in the order in which providers cache it, and what ends with a mark."""
    found = [*body.get("tools", [])]
    system = body.get("system", [])
    found += [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content = message["content"]
        found += [{"text": content}] if isinstance(content, str) else content
    marked = [n for n, block in enumerate(found, 1) if "cache_control" in block]
    if "cache_control" in body:
        # Anthropic itself marks the last block that can be cached.
        marked.append(len(found))
    plain = [json.dumps({**b, "cache_control": None}, sort_keys=True) for b in found]
    return plain, max(marked, default=0)


@pytest.mark.feature(222)
async def test_four_fifths_of_thirty_growing_requests_lie_in_a_prefix_marked_for_the_cache(
    anthropic, asked
):
    model = claude()
    for n in range(30):
        await ask(model, asked(*grown(n), cache_key="k"))
    await model.aclose()

    sent = [blocks(body) for body in anthropic.bodies]
    assert len(sent) == 30
    cached = 0
    for (before, mark), (now, _) in pairwise(sent):
        assert now[:mark] == before[:mark]
        cached += sum(map(len, before[:mark]))
    whole = sum(len(block) for plain, _ in sent for block in plain)
    assert cached / whole > 0.8
    assert all(mark == len(plain) for plain, mark in sent)


@pytest.mark.feature(221)
async def test_a_refusal_for_length_is_told_from_other_refusals(anthropic, asked):
    anthropic.limit = 1_000
    model = claude()
    with pytest.raises(PromptTooLong, match="prompt is too long") as refusal:
        await ask(model, asked(*grown(3)))
    await model.aclose()
    assert (refusal.value.http_status, refusal.value.transient) == (400, False)
    assert len(anthropic.bodies) == 1


OPENAI = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."


@pytest.mark.feature(221)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": OPENAI, "code": "context_length_exceeded"}),
        (400, {"message": OPENAI}),
        (400, {"message": "the request exceeds the available context size, try increasing it"}),
        (413, {"message": "Request too large"}),
        (422, {"message": "Prompt is too long"}),
    ],
)
async def test_servers_that_speak_openais_protocol_refuse_length_in_many_words(
    provider, settings, asked, status, error
):
    provider.replies({"status": status, "error": error})
    model = open_model(settings(), {})
    with pytest.raises(PromptTooLong):
        await ask(model, asked())
    await model.aclose()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "max_tokens is too large: 100000"),
        (400, "tools.0.name: String should match pattern"),
        (429, "Request too large for gpt-4o in organization on tokens per min"),
        (500, "prompt is too long"),
    ],
)
async def test_other_refusals_are_no_refusals_for_length(provider, settings, asked, status, said):
    provider.replies({"status": status, "error": {"message": said}})
    model = open_model(settings(max_attempts=1), {})
    with pytest.raises(ModelFailed) as failure:
        await ask(model, asked())
    await model.aclose()
    assert not isinstance(failure.value, PromptTooLong)


def test_google_refuses_length_as_an_invalid_argument():
    from pydantic_ai.exceptions import ModelHTTPError

    said = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": said}}
    assert isinstance(model_failed("g", ModelHTTPError(400, "gemini", body)), PromptTooLong)
    assert not isinstance(model_failed("g", ValueError("prompt is too long")), PromptTooLong)


@pytest.mark.feature(222)
async def test_openai_is_told_which_thread_a_request_belongs_to_and_other_servers_are_not(
    provider, settings, asked
):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    theirs = OpenAIProvider(base_url=provider.base_url, api_key=KEY)
    model = ProviderModel("openai:gpt-5", OpenAIChatModel("gpt-5", provider=theirs), settings())
    other = open_model(settings(), {})
    provider.replies(*[{"text": "Hi"}] * 3)
    await ask(model, asked(cache_key="k1"))
    await ask(model, asked())
    await ask(other, asked(cache_key="k1"))
    await model.aclose()
    await other.aclose()
    keys = [body.get("prompt_cache_key") for body in provider.requests]
    assert keys == ["k1", None, None]


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("anthropic:claude-sonnet-5-5", 1_000_000),
        ("openai:gpt-4o", 128_000),
        ("google:gemini-4-carbon", 1_000_000),
    ],
)
def test_the_window_of_models_that_are_known(name, window):
    assert open_model(ModelSettings(name=name, api_key=KEY), {}).window == window


def test_of_a_model_that_nobody_knows_the_settings_tell_the_window(settings):
    assert open_model(settings(name="openai:llama3:8b"), {}).window is None
    assert open_model(settings(name="openai:llama3:8b", window=8_000), {}).window == 8_000
    assert open_model(ModelSettings(name="demo"), {}).window == 200_000
