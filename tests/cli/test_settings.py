"""What an operator may set: every setting documented, read from the environment, checked."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fakes.golden import kept
from gonogo.settings import Settings

GOLDEN = Path(__file__).parent / "golden" / "settings.txt"


def test_every_setting_has_the_default_and_the_bounds_that_are_kept():
    # Folders that depend on the machine are made when they are asked for, so none stands here.
    settings = Settings.model_json_schema(by_alias=False)["properties"]
    found = "".join(
        f"{name} {json.dumps({key: of[key] for key in sorted(of) if key != 'title'})}\n"
        for name, of in settings.items()
    )
    assert found == kept(GOLDEN, found)


def test_settings_come_from_variables_with_the_prefix(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("GONOGO_HOME", str(tmp_path))
    monkeypatch.setenv("GONOGO_MAX_PARALLEL", "5")
    monkeypatch.setenv("GONOGO_ROOTS", f"{tmp_path}/a:{tmp_path}/b")
    monkeypatch.setenv("GONOGO_LEGACY_TEXT_REJECTION", "false")
    monkeypatch.setenv("GONOGO_APPROVAL_EXPIRY_TOOL", "null")
    settings = Settings()
    assert settings.home == tmp_path
    assert settings.max_parallel == 5
    assert settings.allowed_roots == (tmp_path / "a", tmp_path / "b")
    assert settings.legacy_text_rejection is False
    assert settings.approval_expiry_tool is None


def test_the_workspace_is_the_root_where_none_is_named(tmp_path: Path):
    assert Settings(workspace=tmp_path).allowed_roots == (tmp_path,)


def test_paths_are_absolute_whatever_was_written(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    settings = Settings(home=Path("state"), workspace=Path("sub/.."), roots=(Path("x"),))
    assert (settings.home, settings.workspace) == (tmp_path / "state", tmp_path)
    assert settings.roots == (tmp_path / "x",)


def test_a_cassette_has_an_absolute_name_too(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert Settings(record=Path("tape")).record == tmp_path / "tape"
    assert Settings(model="replay:tape#openai:x").model == f"replay:{tmp_path}/tape#openai:x"
    for name in ("replay:", "openai:replay:tape", "openai:x", None):
        assert Settings(model=name).model == name


def test_what_is_secret_in_the_settings_is_known():
    settings = Settings(
        model_api_key="sk-1", db="postgresql://ann:pw@host/x", openai_base_url="http://[",
    )  # fmt: skip
    assert settings.secrets == ("sk-1", "pw")
    assert Settings().secrets == ()


def test_an_empty_variable_is_not_set(monkeypatch):
    monkeypatch.setenv("GONOGO_MODEL", "")
    assert Settings().model is None


def test_a_key_is_not_shown():
    assert "secret" not in repr(Settings(model_api_key="secret"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", 70_000), ("max_parallel", 0), ("locale", "fr"), ("approval_expiry_tool", -1)],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(ValidationError):
        Settings(**{name: value})


def test_an_openai_compatible_server_is_set_by_either_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1234/v1")
    assert Settings().openai_base_url == "http://localhost:1234/v1"
    monkeypatch.setenv("GONOGO_OPENAI_BASE_URL", "http://localhost:9/v1")
    assert Settings().openai_base_url == "http://localhost:9/v1"


def test_the_public_address_is_kept_without_the_slash_at_its_end(tmp_path):
    assert (
        Settings(home=tmp_path, public_url="https://a.example/").public_url == "https://a.example"
    )
