"""Which model is asked for what, and which key its server is sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gonogo.domain.errors import GonogoError, ModelNotConfigured
from gonogo.execution.agent.models import CountedModel, ModelPool, model_settings
from gonogo.llm import NO_KEY, FallbackModel, ModelChoice, ScriptedModel
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
    why = " needs the variable OTHER (named by key_env), and it is not set; set it"
    for name, said in (("openai:y", "openai:y"), (None, "the model")):
        choice = ModelChoice(name=name, key_env="OTHER")
        for environment in (OWN, {"OTHER": ""}):
            with pytest.raises(ModelNotConfigured) as missing:
                model_settings(settings(), choice, environment)
            assert str(missing.value) == said + why


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


@pytest.mark.parametrize(
    ("more", "environment", "is_opened"),
    [
        ({}, {}, False),
        ({"model_api_key": None}, OWN, False),
        ({"model_api_key": None}, {}, True),
        ({"model": "anthropic:y", "model_api_key": None}, {"ANTHROPIC_API_KEY": "k"}, False),
        ({"model": "anthropic:y", "model_api_key": None}, OWN, True),
        ({"model": None, "model_api_key": None}, OWN, False),
        ({"model": None, "model_api_key": None}, {}, True),
        ({"openai_base_url": "http://localhost:1/v1", "model_api_key": None}, {}, False),
        ({"model": None, "model_api_key": None}, {"OPENAI_BASE_URL": "http://mine/v1"}, False),
        ({"model": "llama3:8b", "openai_base_url": "http://localhost:1/v1"}, {}, True),
        ({"model": "bogus"}, OWN, True),
        ({"model": "bogus:x"}, OWN, True),
        ({"model": "openai:"}, OWN, True),
        ({"model": "demo"}, {}, True),
        ({"record": Path("/none/tape.json")}, OWN, True),
    ],
)
def test_a_model_that_surely_works_is_not_opened_to_say_so_and_any_other_says_what_it_lacks(
    more: dict[str, Any], environment: dict[str, str], is_opened: bool
) -> None:
    def told(ask: Callable[[], str]) -> str:
        try:
            return ask()
        except GonogoError as lacks:
            return str(lacks)

    def pool() -> ModelPool:
        given = {"settings": settings(**more), "environment": environment, "metrics": Metrics()}
        return ModelPool(**given)

    checked = pool()
    assert told(lambda: checked.check(ModelChoice())) == told(lambda: pool()(None).name)
    assert is_opened or not checked.opened


def test_a_model_is_opened_with_what_its_choice_says_and_else_with_the_settings(
    tmp_path: Path,
) -> None:
    plain = settings(
        openai_base_url="http://mine/v1", model_timeout=7, temperature=0.5, model_window=9_000,
        record=tmp_path / "tape.json",
    )  # fmt: skip
    environment = {**OWN, "OTHER_API_KEY": "a-long-secret-of-somebody"}
    own = model_settings(plain, ModelChoice(), environment)
    assert (own.name, own.base_url, own.timeout, own.max_attempts) == (
        "openai:x", "http://mine/v1", 7, plain.model_max_attempts,
    )  # fmt: skip
    assert (own.temperature, own.effort, own.price, own.window) == (0.5, None, None, 9_000)
    assert (own.record, own.secrets) == (
        tmp_path / "tape.json", ("a-long-secret-of-somebody",),
    )  # fmt: skip

    chosen = ModelChoice(name="openai:y", base_url="http://other/v1", window=500, effort="low")
    other = model_settings(plain, chosen, OWN)
    assert (other.name, other.base_url, other.window, other.effort) == (
        "openai:y", "http://other/v1", 500, "low",
    )  # fmt: skip


def test_a_key_is_for_the_provider_that_is_found_where_none_is_named() -> None:
    unnamed = Settings(home=Path("/none"), model_api_key="own")
    for name, key in (("openai:y", "own"), ("anthropic:y", None)):
        assert model_settings(unnamed, ModelChoice(name=name), OWN).api_key == key
    # Where nobody is found, it is for whoever is asked.
    assert model_settings(unnamed, ModelChoice(name="anthropic:y"), {}).api_key == "own"
    assert model_settings(Settings(home=Path("/none")), ModelChoice(), OWN).api_key is None


def test_the_window_is_what_is_known_of_the_model_and_else_a_careful_one() -> None:
    def window(told: int | None = None, choice: ModelChoice | None = None) -> int:
        roles = {"work": (choice or ModelChoice(name="openai:of-nobody"),)}
        pool = ModelPool(
            settings=settings(model_window=told), environment=OWN, metrics=Metrics(), roles=roles
        )
        return pool.window()

    assert window() == 32_000
    assert window(told=9_000) == 9_000
    assert window(choice=ModelChoice(name="openai:of-nobody", window=5_000)) == 5_000
    assert window(9_000, ModelChoice(name="openai:of-nobody", window=5_000)) == 5_000


def test_one_model_for_everybody_has_the_window_that_is_told_its_own_or_a_careful_one() -> None:
    only = ScriptedModel({})

    def pool(told: int | None = None) -> ModelPool:
        return ModelPool(
            settings=settings(model_window=told), environment={}, metrics=Metrics(), only=only
        )

    only.window = 7_000
    assert (pool().window(), pool(9_000).window(), pool().window("openai:z", "plan")) == (
        7_000, 9_000, 7_000,
    )  # fmt: skip
    only.window = None
    assert pool().window() == 32_000
    found = pool()("openai:z", "plan")
    assert (found.name, found.window) == ("scripted", None)


async def test_a_model_is_opened_once_counted_and_closed_with_its_pool() -> None:
    pool = ModelPool(settings=settings(), environment=OWN, metrics=Metrics())
    one, other = pool(), pool(None, "plan")

    assert isinstance(one, CountedModel)
    assert isinstance(other, CountedModel)
    assert one.model is other.model
    assert list(pool.opened.values()) == [one.model]
    assert pool.choices("openai:z", "work") == (ModelChoice(name="openai:z", for_session=True),)
    await pool.aclose()


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
        # At the server that is asked already nobody knows the usual ones.
        (NO_KEYS | {"openai_base_url": LOCAL}, OWN | {"ANTHROPIC_API_KEY": "k"}, {}, None,
         ["anthropic:claude-sonnet-5-5"]),
        (NO_KEYS, OWN | {"OPENAI_BASE_URL": LOCAL}, {}, None, []),
        # What only plays a model stands in for none.
        (NO_KEYS, {}, {"plan": (ModelChoice(name="replay:/tape.json"),)}, None, []),
    ],
    ids=["usual", "two providers", "of a session", "no keys", "a key of ours", "of a file",
         "a server", "a server of the environment", "a cassette"],
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
    both = {"plan": (known,), "review": (ModelChoice(name="openai:a", effort="high"),)}
    pool.roles = both | {"work": (ModelChoice(name="openai:a", window=5_000),)}
    # That of the role that asks goes first.
    assert pool.choices("openai:a", "review") == both["review"]
    assert pool.choices("openai:a", "plan") == (known,)
    assert pool.choices("openai:b", "work") == (ModelChoice(name="openai:b", for_session=True),)
