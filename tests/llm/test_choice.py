"""Which model is asked, and what is said when none can be."""

import importlib
import os
import re
import subprocess
import sys
from dataclasses import asdict

import pytest

from gonogo.domain.errors import ModelNotConfigured
from gonogo.llm import ModelSettings, available_models, detect, open_model, provider_variables
from gonogo.llm.model import tool_request

KEY = "sk-test-0123456789abcdef"
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("environment", "provider"),
    [
        ({}, None),
        ({"ANTHROPIC_API_KEY": ""}, None),
        ({"ANTHROPIC_API_KEY": KEY}, "anthropic"),
        ({"OPENAI_API_KEY": KEY}, "openai"),
        ({"GOOGLE_API_KEY": KEY}, "google"),
        ({"GEMINI_API_KEY": KEY}, "google"),
        ({"DEEPSEEK_API_KEY": KEY}, "deepseek"),
        ({"OPENROUTER_API_KEY": KEY}, "openrouter"),
        ({"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}, "anthropic"),
        ({"ANTHROPIC_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:1/v1"}, "openai"),
    ],
)
def test_a_model_is_detected_from_the_usual_variables(environment, provider):
    found = detect(environment)
    assert (found and found.partition(":")[0]) == provider


@pytest.mark.parametrize(
    ("variable", "provider", "package"),
    [
        ("ANTHROPIC_API_KEY", "anthropic", "anthropic"),
        ("OPENAI_API_KEY", "openai", "openai"),
        ("GEMINI_API_KEY", "google", "google.genai"),
        ("MISTRAL_API_KEY", "mistral", "mistralai"),
        ("GROQ_API_KEY", "groq", "groq"),
        ("DEEPSEEK_API_KEY", "deepseek", "openai"),
        ("OPENROUTER_API_KEY", "openrouter", "openai"),
    ],
)
def test_a_key_counts_once_its_providers_package_is_there(
    tmp_path, monkeypatch, variable, provider, package
):
    top, *rest = package.split(".")
    for name in [each for each in sys.modules if each.split(".")[0] == top]:
        monkeypatch.delitem(sys.modules, name)

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    assert detect({variable: KEY}) is None

    (tmp_path.joinpath(top, *rest)).mkdir(parents=True)
    for folder in (tmp_path / top, tmp_path.joinpath(top, *rest)):
        (folder / "__init__.py").touch()
    importlib.invalidate_caches()
    assert str(detect({variable: KEY})).startswith(f"{provider}:")
    for name in [each for each in sys.modules if each.split(".")[0] == top]:
        monkeypatch.delitem(sys.modules, name)


def test_the_models_that_are_offered_are_these():
    assert [model["name"] for model in available_models({})] == [
        "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol", "google:gemini-4-carbon",
        "mistral:mistral-large-latest", "groq:openai/gpt-oss-120b", "deepseek:deepseek-v4-pro",
        "openrouter:anthropic/claude-sonnet-5.5", "demo",
    ]  # fmt: skip


def test_gonogo_model_goes_first():
    assert detect({"GONOGO_MODEL": "groq:x", "OPENAI_API_KEY": KEY}) == "groq:x"


def test_openai_model_names_the_model_of_a_compatible_server():
    environment = {"OPENAI_BASE_URL": "http://localhost:1/v1", "OPENAI_MODEL": "llama3:8b"}
    assert detect(environment) == "openai:llama3:8b"
    names = [model["name"] for model in available_models({"OPENAI_MODEL": "own"})]
    assert names[:3] == ["anthropic:claude-sonnet-5-5", "openai:own", "google:gemini-4-carbon"]


def test_the_models_are_listed_with_what_is_configured_and_no_key():
    models = available_models({"ANTHROPIC_API_KEY": KEY})
    assert [model["name"] for model in models if model["default"]] == [
        model["name"] for model in models if model["provider"] == "anthropic"
    ]
    assert {model["provider"] for model in models if model["configured"]} == {"anthropic", "demo"}
    assert models[0] == {
        "name": "anthropic:claude-sonnet-5-5", "provider": "anthropic", "configured": True,
        "default": True,
    }  # fmt: skip
    assert models[1] == {
        "name": "openai:gpt-6.1-sol", "provider": "openai", "configured": False, "default": False,
    }  # fmt: skip
    own = available_models({"GONOGO_MODEL": "local:x"})
    assert own[-2:] == [
        {"name": "local:x", "provider": "local", "configured": True, "default": True},
        {"name": "demo", "provider": "demo", "configured": True, "default": False},
    ]
    assert KEY not in str(models)


ADVICE = (
    "Name one as provider:name with --model or GONOGO_MODEL, and set its variable"
    " (anthropic: ANTHROPIC_API_KEY; openai: OPENAI_API_KEY;"
    " google: GOOGLE_API_KEY / GEMINI_API_KEY; mistral: MISTRAL_API_KEY; groq: GROQ_API_KEY;"
    " deepseek: DEEPSEEK_API_KEY; openrouter: OPENROUTER_API_KEY); or set OPENAI_BASE_URL to an"
    " OpenAI-compatible server; or try --model demo, which needs no key"
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "No model is configured."),
        ("gpt", "There is no model 'gpt'."),
        ("anthropic:claude", "anthropic:claude needs ANTHROPIC_API_KEY."),
        ("openai:gpt", "openai:gpt needs OPENAI_API_KEY."),
        ("openai-responses:gpt", "openai-responses:gpt needs OPENAI_API_KEY."),
        ("google:gemini", "google:gemini needs GOOGLE_API_KEY / GEMINI_API_KEY."),
    ],
)
def test_where_no_model_can_be_asked_the_choices_and_their_variables_are_told(name, said):
    with pytest.raises(ModelNotConfigured) as caught:
        open_model(ModelSettings(name=name), {})
    assert str(caught.value) == f"{said} {ADVICE}"


def test_the_variables_that_say_who_is_asked_are_these():
    assert provider_variables() == {
        "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY",
        "MISTRAL_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY",
        "OPENAI_BASE_URL", "OPENAI_MODEL",
    }  # fmt: skip


def test_what_a_model_is_opened_with_unless_something_else_is_said():
    assert re.fullmatch("call_[0-9a-f]{24}", tool_request("a", None).id)
    assert asdict(ModelSettings()) == {
        "name": None, "base_url": None, "api_key": None, "timeout": 120.0, "total_timeout": 1800.0,
        "max_attempts": 5, "temperature": None, "effort": None, "window": None, "price": None,
        "backoff": 0.5, "max_retry_after": 60.0, "role": None, "record": None, "secrets": (),
    }  # fmt: skip
    hidden = ModelSettings(api_key=KEY, secrets=(KEY,))
    assert KEY not in repr(hidden)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("anthropic:claude", "ANTHROPIC_API_KEY"),
        ("openai:gpt", "OPENAI_API_KEY"),
        ("google:gemini", "GEMINI_API_KEY"),
        ("deepseek:chat", "DEEPSEEK_API_KEY"),
        ("together:llama", "TOGETHER_API_KEY"),
    ],
)
def test_a_missing_key_is_named(monkeypatch, name, variable):
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    with pytest.raises(ModelNotConfigured, match=variable):
        open_model(ModelSettings(name=name), {})


@pytest.mark.parametrize("name", ["gpt", "nonsense:gpt", "openai:", ":x", ""])
def test_an_unknown_name_is_no_model_even_with_a_key(name):
    for key in (None, KEY):
        with pytest.raises(ModelNotConfigured, match=r"^There is no model|^No model"):
            open_model(ModelSettings(name=name, api_key=key), {})


@pytest.mark.parametrize(
    ("provider", "package", "install"),
    [
        ("anthropic", "anthropic", "gonogo[anthropic]"),
        ("openai", "openai", "gonogo"),
        ("google", "google", "gonogo[google]"),
        ("mistral", "mistralai", "pydantic-ai-slim[mistral]"),
        ("groq", "groq", "pydantic-ai-slim[groq]"),
        ("deepseek", "openai", "gonogo"),
        ("openrouter", "openai", "gonogo"),
        ("cohere", "cohere", "pydantic-ai-slim[cohere]"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, provider, package, install):
    theirs = (f"pydantic_ai.providers.{provider}", f"pydantic_ai.models.{provider}")
    for module in list(sys.modules):
        if module.startswith(theirs) or module.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelNotConfigured) as caught:
        open_model(ModelSettings(name=f"{provider}:x", api_key=KEY), {})
    assert str(caught.value).startswith(f"The package for {provider!r} is not installed (")
    assert str(caught.value).endswith(f'pip install "{install}"')


async def test_a_base_url_works_without_a_key(provider, asked):
    provider.replies({"text": "Hi"})
    model = open_model(ModelSettings(name="openai:local", base_url=provider.base_url), {})
    assert (await model.request(asked(), lambda _text: None)).text == "Hi"
    await model.aclose()


@pytest.mark.parametrize("name", [None, "openai:x", "openai-chat:x", "openai-responses:x"])
async def test_a_base_url_of_the_environment_is_for_every_name_of_that_provider(
    provider, asked, name
):
    provider.replies({"text": "Hi"})
    model = open_model(ModelSettings(name=name), {"OPENAI_BASE_URL": provider.base_url})
    assert (await model.request(asked(), lambda _text: None)).text == "Hi"
    await model.aclose()


async def test_a_base_url_takes_names_with_colons(provider, asked):
    provider.replies({"text": "Hi"})
    model = open_model(ModelSettings(name="llama3:8b", base_url=provider.base_url), {})
    await model.request(asked(), lambda _text: None)
    await model.aclose()
    assert provider.requests[0]["model"] == "llama3:8b"


async def test_a_base_url_is_not_used_for_another_provider(provider):
    model = open_model(
        ModelSettings(name="deepseek:x", base_url=provider.base_url, api_key=KEY), {}
    )
    assert model.name == "deepseek:x"
    await model.aclose()
    assert provider.requests == []


async def test_the_key_of_the_settings_goes_before_the_variable(provider, asked):
    provider.replies({"text": "Hi"})
    settings = ModelSettings(name="openai:x", base_url=provider.base_url, api_key=KEY)
    model = open_model(settings, {"OPENAI_API_KEY": "another"})
    await model.request(asked(), lambda _text: None)
    await model.aclose()
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"


def test_importing_the_room_does_not_import_pydantic_ai():
    code = (
        "import sys, gonogo.llm; "
        "print([name for name in ('pydantic_ai', 'openai', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
