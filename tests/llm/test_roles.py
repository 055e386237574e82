"""The file of models: what each role asks, what its tokens cost, what is refused, and where."""

from pathlib import Path

import pytest
from msgspec.structs import asdict

from gonogo.domain.tool_calls import Usage
from gonogo.llm import BadModels, ModelChoice, available_models, choices_of, load_roles
from gonogo.llm.model import TokenPrice

FILE = """
[[role]]
name = "plan"
model = "anthropic:large"
effort = "high"
window = 200000
price = { input = 3, output = 15, cached = 0.3, cache_write = 3.75, reasoning = 20 }
fallback = [
    "openai:large",
    { model = "openai:own", base_url = "http://10.0.0.7/v1", effort = "off" },
]

[[role]]
name = "work"
fallback = ["openai:small"]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "models.toml"
    file.write_text(text)
    return file


def test_a_role_has_its_model_and_those_that_stand_in_for_it_with_its_effort(tmp_path):
    roles = load_roles(written(tmp_path, FILE))
    first, second, third = choices_of(roles, "plan")
    assert (first.name, first.effort, first.window) == ("anthropic:large", "high", 200_000)
    assert (second, third.effort) == (ModelChoice(name="openai:large", effort="high"), "off")
    assert third.base_url == "http://10.0.0.7/v1"
    # What the file does not name asks as `work` does; without a name, what is configured.
    assert choices_of(roles, "route") == choices_of(roles, "work")
    assert choices_of(roles, "work") == (ModelChoice(), ModelChoice(name="openai:small"))


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_file_each_role_asks_the_one_model_that_is_configured(tmp_path, text):
    file = tmp_path / "models.toml" if text is None else written(tmp_path, text)
    assert choices_of(load_roles(file), "plan") == (ModelChoice(),)


@pytest.mark.parametrize(
    ("table", "line", "said"),
    [
        ('name = "plan', 0, ""),
        ('name = "cook"', 2, "role 'cook': name: Input should be 'plan', 'work'"),
        ('model = "openai:x"', 2, "role: name: Field required"),
        ('name = "plan"\nefort = "high"', 2, "role 'plan': efort: Extra inputs"),
        ('name = "plan"\neffort = "huge"', 2, "role 'plan': effort: Input should be 'off'"),
        ('name = "plan"\nwindow = 10', 2, "role 'plan': window: Input should be greater"),
        ('name = "plan"\nprice = { input = -1, output = 1 }', 2, "price.input: Input should be"),
        ('name = "plan"\nfallback = [{ effort = "low" }]', 2, "fallback: name each model"),
        ('name = "plan"\nfallback = [7]', 2, "role 'plan': fallback.0: "),
        ('name = "plan"\nfallback = "openai:x"', 2, "role 'plan': fallback: Input should be"),
        ('name = "plan"\nfallback = ["openai:x", "openai:x"]', 2, "a model is listed twice"),
        ('name = "plan"\nbase_url = "http://h/v1"', 2, "base_url works only with a model named"),
        ('name = "plan"\nmodel = "openai:x"\nbase_url = "h"', 2, "base_url: an address must begin"),
        ('name = "plan"\nkey_env = "a-b"', 2, "role 'plan': key_env: String should match"),
        ('name = "plan"\n[[role]]\nname = "plan"', 4, "role 'plan' is listed twice"),
        ('name = "plan"\n[other]', 1, "a models file can contain only [[role]] tables"),
    ],
)  # fmt: skip
def test_a_defect_is_told_with_file_line_and_role(tmp_path, table, line, said):
    file = written(tmp_path, f"# models\n[[role]]\n{table}\n")
    with pytest.raises(BadModels) as caught:
        load_roles(file)
    assert str(caught.value).startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert said in str(caught.value)


HERE = "{file}:2: role 'plan': "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x = 1\n[[role]]\nname = "plan"',
         "{file}:1: a models file can contain only [[role]] tables"),
        ('role = 7', "{file}:1: a models file can contain only [[role]] tables"),
        ("[[role]]\n" * 6, "{file}:1: there can be at most 5 [[role]] tables"),
        ("\n[[role]]\n", "{file}:2: role: name: Field required"),
        ("role = [7]",
         "{file}:1: role: Input should be a valid dictionary or instance of _RoleText"),
        ('\n [[ role ]]\nname = "plan"\nfallback = [{}]',
         HERE + "fallback: name each model, as provider:name"),
        ('\n[[role]]\nname = "plan"\nfallback = ["a:x", "a:x"]',
         HERE + "fallback: a model is listed twice"),
        ('\n[[role]]\nname = "plan"\nbase_url = "http://h/v1"',
         HERE + "base_url works only with a model named openai:NAME"),
        ('\n[[role]]\nname = "plan"\nmodel = "openai:x"\nbase_url = "h"',
         HERE + "base_url: an address must begin with https:// and name a host"),
        ('\n[[role]]\nname = "plan"\n\n[[role]]\nname = "plan"',
         "{file}:5: role 'plan' is listed twice; keep one of them"),
    ],
)  # fmt: skip
def test_a_defect_is_told_whole(tmp_path, text, said):
    file = written(tmp_path, text)
    with pytest.raises(BadModels) as caught:
        load_roles(file)
    assert str(caught.value) == said.replace("{file}", str(file))


def test_a_role_may_have_all_of_this_up_to_its_bounds(tmp_path):
    text = (
        '[[role]]\nname = "plan"\nmodel = "openai:x"\nbase_url = "http://10.0.0.7/v1"\n'
        'key_env = "MY_KEY"\nwindow = 4000\nprice = { input = 0, output = 1_000_000 }\n'
        f"fallback = {[f'a:{n}' for n in range(8)]}\n"
        f'[[role]]\nname = "work"\nmodel = "{"m" * 200}"\nwindow = 100_000_000\n'
    )
    roles = load_roles(written(tmp_path, text))
    first, *others = roles["plan"]
    assert first == ModelChoice(
        name="openai:x", base_url="http://10.0.0.7/v1", key_env="MY_KEY", window=4_000,
        price=TokenPrice(input=0, output=1_000_000),
    )  # fmt: skip
    assert others == [ModelChoice(name=f"a:{n}") for n in range(8)]
    assert roles["work"][0].window == 100_000_000
    for wrong in ("window = 3999", "window = 100_000_001", f'model = "{"m" * 201}"',
                  "price = { input = 1_000_001, output = 0 }", 'model = ""',
                  f"fallback = {[f'a:{n}' for n in range(9)]}"):  # fmt: skip
        with pytest.raises(BadModels):
            load_roles(written(tmp_path, f'[[role]]\nname = "plan"\n{wrong}\n'))


def test_what_a_choice_of_a_model_does_not_say_is_left_as_it_is():
    assert choices_of({}, "work") == (ModelChoice(),)
    plain = ModelChoice()
    assert asdict(plain) == {
        "name": None, "effort": None, "window": None, "price": None, "base_url": None,
        "key_env": None, "for_session": False,
    }  # fmt: skip
    assert TokenPrice(input=1, output=2).model_dump() == {
        "input": 1, "output": 2, "cached": None, "cache_write": None, "reasoning": None,
    }  # fmt: skip
    refund = TokenPrice(input=0, output=1, reasoning=0)
    assert refund.of(Usage(output_tokens=1, reasoning_tokens=5)) == 0.0


def test_each_class_of_tokens_has_its_price_and_one_that_is_not_told_costs_as_its_whole():
    used = Usage(
        input_tokens=1_000_000, cached_tokens=600_000, cache_write_tokens=100_000,
        output_tokens=200_000, reasoning_tokens=50_000,
    )  # fmt: skip
    plain = TokenPrice(input=3, output=15)
    assert plain.of(used) == pytest.approx(3 + 3)
    whole = TokenPrice(input=3, output=15, cached=0.3, cache_write=3.75, reasoning=20)
    assert whole.of(used) == pytest.approx(0.9 + 0.18 + 0.375 + 2.25 + 1.0)
    assert TokenPrice(input=0, output=0).of(used) == 0.0


def test_models_are_listed_with_what_they_are_asked_for(tmp_path):
    roles = load_roles(written(tmp_path, FILE))
    models = {m["name"]: m for m in available_models({"GONOGO_MODEL": "openai:mine"}, roles)}
    assert models["anthropic:large"]["roles"] == ["plan"]
    assert models["openai:large"]["roles"] == ["fallback:plan"]
    assert models["openai:mine"]["roles"] == ["work", "route", "compact", "review"]
    assert models["openai:small"]["roles"][0] == "fallback:work"
    assert "roles" not in models["demo"]
    assert all("roles" not in m for m in available_models({"GONOGO_MODEL": "openai:mine"}))
