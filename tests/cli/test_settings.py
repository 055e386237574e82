"""What an operator may set: every setting documented, read from the environment, checked."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fakes.golden import kept
from gonogo.settings import Settings, is_safe_address

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


def test_a_setting_with_two_names_is_read_and_refused_by_the_one_that_was_set(monkeypatch):
    monkeypatch.setenv("gonogo_enable_auto_replanning", "off")
    assert Settings().auto_replanning is False
    assert Settings(auto_replanning=True).auto_replanning is True
    monkeypatch.setenv("gonogo_enable_auto_replanning", "maybe")
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert refused.value.errors()[0]["loc"] == ("GONOGO_ENABLE_AUTO_REPLANNING",)
    monkeypatch.setenv("ENABLE_AUTO_REPLANNING", "on")
    assert Settings().auto_replanning is True


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


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://idp.example", True), ("https://idp.example:8443/x?y=1", True),
        ("http://127.0.0.1:9", True), ("http://localhost", True), ("http://[::1]/x", True),
        ("http://idp.example", False), ("ftp://idp.example", False), ("ftp://localhost", False),
        ("https://", False), ("idp.example", False), ("https://a@idp.example", False),
        ("https://a:b@idp.example", False), ("https://idp.example/#x", False),
        ("https://idp.example/\x1b", False), ("https://idp.example:99999", False),
        ("https://[idp", False),
    ],
)  # fmt: skip
def test_an_address_is_safe_where_nobody_on_the_way_can_answer_for_it(url, safe):
    assert is_safe_address(url) is safe


def refusal(**given) -> str:
    with pytest.raises(ValidationError) as refused:
        Settings(**given)
    (problem,) = refused.value.errors()
    return problem["msg"]


def test_what_cannot_be_set_is_said():
    unsafe = "Value error, the address must be https (http only on this machine)"
    for name in ("oidc_jwks_url", "public_url"):
        assert refusal(**{name: "http://idp.example"}) == unsafe
    provider = {"oidc_audience": "gonogo", "oidc_roles": "devs=operator"}
    assert refusal(**provider, oidc_issuer="http://idp.example") == unsafe
    roles = {"oidc_audience": "gonogo", "oidc_issuer": "https://idp.example"}
    for missing in ({"oidc_audience": None}, {"oidc_roles": {}}):
        given = {**provider, **roles, **missing}
        (name,) = missing
        assert refusal(**given) == f"Value error, it needs GONOGO_{name.upper()} as well"
    for role in ("devs=root", "=admin"):
        said = f"Value error, {role} is not WORD=viewer, =operator or =admin"
        assert refusal(oidc_roles=role) == said
    assert "10.0.0.0/99" in refusal(network_private_hosts="10.0.0.0/99")


def test_lists_are_read_from_text_as_from_values(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    hosts = Settings(network_private_hosts=" 10.1.0.0/16, git.intra:8443,,")
    assert hosts.network_private_hosts == ("10.1.0.0/16", "git.intra:8443")
    assert Settings(network_private_hosts=("a.b:1",)).network_private_hosts == ("a.b:1",)
    roles = Settings(oidc_roles=" a = admin ,b=c=operator, ,guests=viewer")
    assert roles.oidc_roles == {"a": "admin", "b=c": "operator", "guests": "viewer"}
    assert Settings(oidc_roles={"a": "admin"}).oidc_roles == {"a": "admin"}
    assert Settings(roots=":a::/b").roots == (tmp_path / "a", Path("/b"))


def test_files_and_folders_of_the_user_are_found_by_their_short_names(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ("home", "config", "workspace", "admin_rules", "hooks", "mcp", "models", "record")
    settings = Settings(
        **{name: f"~/{name}/../x" for name in names}, roots="~/a", model="replay:~/t"
    )
    assert {getattr(settings, name) for name in names} == {tmp_path / "x"}
    assert (settings.roots, settings.model) == ((tmp_path / "a",), f"replay:{tmp_path}/t")


def test_what_is_not_named_lies_in_the_folders_of_state_and_of_configuration(
    monkeypatch, tmp_path: Path
):
    for name in ("GONOGO_HOME", "GONOGO_CONFIG", "GONOGO_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    home, config = tmp_path / "state" / "gonogo", tmp_path / "config" / "gonogo"
    assert (settings.home, settings.config, settings.workspace) == (home, config, tmp_path)
    assert (settings.drafts, settings.taken) == (home / "drafts", home / "taken")
    assert (settings.rules, settings.agents) == (config / "rules.toml", config / "agents")
    files = ("hooks", "mcp", "models")
    assert [getattr(settings, f"{name}_file") for name in files] == [
        config / f"{name}.toml" for name in files
    ]
    named = Settings(**{name: tmp_path / name for name in files})
    assert [getattr(named, f"{name}_file") for name in files] == [tmp_path / n for n in files]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("sqlite:///x.db", "sqlite:///{cwd}/x.db"),
        ("sqlite+pysqlite:///a/../x.db", "sqlite+pysqlite:///{cwd}/x.db"),
        *[(same, same) for same in ("sqlite:////x.db", "sqlite:///:memory:", "sqlite:///file:x",
                                    "sqlite:///", "sqlite://", "postgresql:///x", None)],
    ],
)  # fmt: skip
def test_the_file_of_a_database_has_an_absolute_name(monkeypatch, tmp_path: Path, written, kept):
    monkeypatch.chdir(tmp_path)
    assert Settings(db=written).db == (kept and kept.format(cwd=tmp_path))


def test_the_limits_of_budgets_that_are_set_have_their_own_words():
    assert Settings().budget == {}
    every = Settings(
        budget_plan_tokens=1, budget_plan_cost=2, budget_plan_seconds=3, budget_plan_requests=4,
        budget_plan_subtasks=5, budget_session_tokens=6, budget_session_cost=7,
        budget_session_requests=8,
    )  # fmt: skip
    assert every.budget == {
        "tokens": 1, "cost": 2, "seconds": 3, "requests": 4, "subtasks": 5, "session_tokens": 6,
        "session_cost": 7, "session_requests": 8,
    }  # fmt: skip
    assert Settings(budget_plan_subtasks=5).budget == {"subtasks": 5}


REPLANNING = {
    "ENABLE_AUTO_REPLANNING": ("auto_replanning", "false", False),
    "AUTO_REPLANNING_MAX_ATTEMPTS": ("replanning_max_attempts", "7", 7),
    "AUTO_REPLANNING_TRIGGER_CRITICAL": ("replanning_trigger_critical", "false", False),
    "AUTO_REPLANNING_TRIGGER_HIGH": ("replanning_trigger_high", "false", False),
    "AUTO_REPLANNING_TRIGGER_MEDIUM": ("replanning_trigger_medium", "true", True),
    "AUTO_REPLANNING_REQUIRE_HUMAN_INTERVENTION_AFTER": ("replanning_human_after", "7", 7),
    "AUTO_REPLANNING_MIN_INTERVAL_SECONDS": ("replanning_min_interval", "7.5", 7.5),
    "AUTO_REPLANNING_TIMEOUT_SECONDS": ("replanning_timeout", "7.5", 7.5),
}


@pytest.mark.parametrize("variable", REPLANNING)
def test_replanning_is_set_by_its_old_names_with_the_prefix_or_without(monkeypatch, variable):
    name, text, value = REPLANNING[variable]
    assert getattr(Settings(**{name: text}), name) == value
    with monkeypatch.context() as plain:
        plain.setenv(variable, text)
        assert getattr(Settings(), name) == value
    monkeypatch.setenv(f"GONOGO_{variable}", text)
    assert getattr(Settings(), name) == value


def test_a_process_of_its_own_has_no_folder_that_is_meant(tmp_path: Path):
    nowhere, rooted = Settings(workspace="/"), Settings(workspace="/", roots=(tmp_path,))
    assert (nowhere.default_workspace, nowhere.allowed_roots) == (None, ())
    assert (rooted.default_workspace, rooted.allowed_roots) == (None, (tmp_path,))
    assert Settings(workspace=tmp_path).default_workspace == tmp_path


def test_settings_are_read_once_and_strange_names_are_passed_over():
    settings = Settings(nobody_knows_it=1)
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1
