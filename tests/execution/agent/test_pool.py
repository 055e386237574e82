"""Which model is asked for what, and which key its server is sent."""

from pathlib import Path
from typing import Any

import pytest

from gonogo.domain.errors import ModelNotConfigured
from gonogo.execution.agent.models import CountedModel, ModelPool, model_settings
from gonogo.llm import NO_KEY, FallbackModel, ModelChoice
from gonogo.settings import Settings
from gonogo.telemetry import Metrics

OWN = {"OPENAI_API_KEY": "usual", "MINE": "mine"}


def settings(**more: Any) -> Settings:
    return Settings(home=Path("/none"), **{"model": "openai:x", "model_api_key": "own", **more})


@pytest.mark.parametrize(
    ("choice", "key"),
    [
        (ModelChoice(), "own"),
        (ModelChoice(name="openai:y"), "own"),
        # Of another provider: its usual variable is read.
        (ModelChoice(name="anthropic:y"), None),
        # A person named model and key.
        (ModelChoice(name="anthropic:y", for_session=True), "own"),
        # A server of its own gets no key that is for another.
        (ModelChoice(name="openai:y", base_url="http://localhost:1/v1"), NO_KEY),
        (ModelChoice(name="openai:y", base_url="http://localhost:1/v1", key_env="MINE"), "mine"),
        (ModelChoice(name="anthropic:y", key_env="MINE"), "mine"),
    ],
)
def test_a_key_goes_to_the_provider_that_it_is_for(choice: ModelChoice, key: str | None) -> None:
    assert model_settings(settings(), choice, OWN).api_key == key


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelNotConfigured, match="openai:y needs the variable OTHER"):
        model_settings(settings(), ModelChoice(name="openai:y", key_env="OTHER"), OWN)


def test_a_model_with_another_behind_it_is_asked_less_often() -> None:
    wanted = settings(model_max_attempts=5)
    assert model_settings(wanted, ModelChoice()).max_attempts == 5
    assert model_settings(wanted, ModelChoice(), OWN, 2).max_attempts == 2
    assert model_settings(settings(model_max_attempts=1), ModelChoice(), OWN, 2).max_attempts == 1


def test_a_role_asks_its_list_and_a_session_only_the_model_that_it_names() -> None:
    roles = {"work": (ModelChoice(), ModelChoice(name="demo")), "plan": (ModelChoice(name="demo"),)}
    pool = ModelPool(settings=settings(), environment=OWN, metrics=Metrics(), roles=roles)
    work = pool(None, "work")
    assert isinstance(work, FallbackModel)
    assert isinstance(pool(None, "route"), FallbackModel)
    assert pool(None, "plan").name == "demo"
    named = pool("openai:z", "work")
    assert (type(named), named.name) == (CountedModel, "openai:z")
    assert pool.check(ModelChoice()) == "openai:x"


NO_KEYS = {"model": "openai:x", "model_api_key": None}
LOCAL = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("given", "environment", "roles", "name", "found"),
    [
        # With a key for one provider, nobody else is asked.
        (NO_KEYS, OWN, {}, None, ["openai:gpt-6.1-sol"]),
        (NO_KEYS, OWN | {"ANTHROPIC_API_KEY": "k"}, {}, None,
         ["anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"]),
        (NO_KEYS, OWN, {}, "openai:z", ["openai:x", "openai:gpt-6.1-sol"]),
        (NO_KEYS, {}, {}, None, []),
        # The key that was set for one provider would be sent to the others.
        ({}, OWN | {"ANTHROPIC_API_KEY": "k"}, {}, None, ["openai:gpt-6.1-sol"]),
        # Those of the file, where their keys are, with the servers that they have.
        (NO_KEYS, {"MINE": "mine"}, {
            "work": (ModelChoice(name="openai:a", base_url=LOCAL),
                     ModelChoice(name="openai:b", base_url=LOCAL)),
            "plan": (ModelChoice(name="openai:c", base_url=LOCAL, key_env="MINE"),
                     ModelChoice(name="openai:d", key_env="GONE"), ModelChoice(name="demo")),
         }, None, ["openai:c"]),
    ],
    ids=["usual", "two providers", "of a session", "no keys", "a key of ours", "of a file"],
)  # fmt: skip
def test_the_others_are_those_that_have_a_key_and_are_not_asked_already(
    given: Any, environment: Any, roles: Any, name: str | None, found: list[str]
) -> None:
    pool = ModelPool(
        settings=settings(**given), environment=environment, metrics=Metrics(), roles=roles
    )
    assert pool.others(name, "work") == found


def test_a_session_that_names_a_model_of_the_file_asks_it_as_the_file_says() -> None:
    known = ModelChoice(name="openai:a", base_url=LOCAL)
    pool = ModelPool(
        settings=settings(), environment=OWN, metrics=Metrics(), roles={"plan": (known,)}
    )
    assert pool.choices("openai:a", "work") == (known,)
    assert pool.choices("openai:b", "work") == (ModelChoice(name="openai:b", for_session=True),)
