"""Commands explain themselves, start at once, and end with one line when something is wrong."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from typer.core import TyperGroup

from cli.conftest import SECONDS, environment
from cli.test_help import COMMAND, helps
from gonogo import __version__
from gonogo.cli.checks import Check, _database, _models
from gonogo.cli.daemon import _opening
from gonogo.cli.folder import read_settings
from gonogo.cli.support import Exit, carry_out
from gonogo.settings import Settings

HEAVY = "import sys, gonogo.cli; print(sorted(set(sys.modules) & set(sys.argv[1:])))"
LIBRARIES = [
    "rich",
    "pydantic",
    "httpx",
    "anyio",
    "asyncio",
    "sqlalchemy",
    "alembic",
    "fastapi",
    "uvicorn",
    "pydantic_ai",
    "gonogo.runtime",
    "gonogo.client",
    "gonogo.settings",
]


def commands(group: Any = COMMAND, *before: str) -> Iterator[tuple[str, ...]]:
    """The words of each command, as they are listed."""
    for name, command in group.commands.items():
        within = commands(command, *before, name) if isinstance(command, TyperGroup) else ()
        yield from [*within] or [(*before, name)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where nothing of gonogo has been yet."""
    return tmp_path / "home"


def test_the_commands_of_the_protocol_are_there():
    assert {" ".join(words) for words in commands()} >= {
        "run",
        "demo",
        "serve",
        "doctor",
        "rollback",
        "sessions list",
        "sessions show",
        "sessions context",
        "plans list",
        "plans show",
        "approvals list",
        "approvals show",
        "approvals decide",
        "checkpoints list",
        "checkpoints show",
        "checkpoints diff",
        "audit show",
        "audit export",
        "audit anchor",
        "audit prune",
        "audit verify",
        "policy check",
        "policy explain",
        "policy list",
        "policy add",
        "policy remove",
        "policy replay",
        "policy suggest",
        "tool run",
        "token create",
        "token list",
        "token revoke",
        "db migrate",
        "db check",
    }


def said_by(*code: str) -> str:
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", *code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    return done.stdout.strip()


def test_the_command_line_is_known_without_importing_what_commands_need(gonogo):
    assert said_by(HEAVY, *LIBRARIES) == "[]"


BUILT = """
import gonogo.cli, gonogo.client, gonogo.domain.base as base
def below(kind):
    for each in kind.__subclasses__():
        yield from (each, *below(each))
found = [each for kind in (base.Frozen, base.View, base.Request) for each in below(kind)]
print(len(found) > 50, [each.__name__ for each in found if each.__pydantic_complete__])
"""


def test_what_crosses_a_border_is_built_when_it_first_does():
    assert said_by(BUILT) == "True []"


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """Each command, with its help."""
    return dict(helps(COMMAND, "gonogo", None))


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_every_command_has_help_with_an_example(shown, words):
    command = f"gonogo {' '.join(words)}"
    assert re.search(rf"Example:\n+(?:    .*\n)*    {command}", shown[command])


def test_help_is_said_where_it_is_asked_for_in_short(gonogo):
    done = gonogo("plans", "show", "-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gonogo plans show" in done.stdout


def test_the_help_of_the_program_says_where_to_start(gonogo):
    done = gonogo("--help")
    assert "Start with: gonogo demo\n" in done.stdout
    assert 'gonogo run "Add a --json flag" -C path/to/repo\n' in done.stdout


def test_the_version_is_said(gonogo):
    assert gonogo("--version", whole=True).stdout == f"gonogo {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["nope"],
        ["run"],
        ["run", "x", "--no-such-option"],
        ["run", " "],
        ["run", "x", "-C", "/no/such/folder"],
        ["run", "x", "--yes=some"],
        ["approvals", "decide", "a1", "maybe"],
        ["approvals", "decide", "a1", "approve", "--arguments", "{}"],
        ["serve", "--exit-when-idle", "--port", "0"],
        ["policy", "check", "--context", "/dev/null"],
        ["policy", "explain"],
        ["token", "create", "--role", "king"],
    ],
    ids=" ".join,
)
def test_a_command_that_is_not_understood_ends_with_2_and_no_traceback(gonogo, words):
    done = gonogo(*words)
    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ctrl_c", [signal.SIG_IGN, signal.default_int_handler])
def test_sigterm_ends_a_command_also_where_a_script_has_ctrl_c_ignored(ctrl_c):
    ended: list[str] = []

    async def waits() -> Exit:
        try:
            await anyio.to_thread.run_sync(os.kill, os.getpid(), signal.SIGTERM)
            await anyio.sleep(SECONDS)
        finally:
            ended.append("cleaned up")
        return Exit.DONE

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, ctrl_c)
    try:
        with pytest.raises(SystemExit) as left:
            carry_out(waits)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert (left.value.code, ended) == (Exit.INTERRUPTED, ["cleaned up"])


@pytest.mark.parametrize("closed", [">&-", "<&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_has_closed_is_done_without(home: Path, closed):
    command = f'exec "$0" -m gonogo sessions list {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        env=environment(home), capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "value"), [("PORT", "http"), ("MAX_PARALLEL", "0"), ("LOCALE", "fr")]
)
def test_a_bad_setting_is_named_in_one_line(gonogo, name, value):
    done = gonogo("doctor", env={f"GONOGO_{name}": value})
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"GONOGO_{name}" in done.stderr


def test_no_auth_is_refused_where_strangers_could_come(gonogo):
    done = gonogo("serve", "--no-auth", "--host", "192.0.2.1")
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr


def test_the_policy_says_verdict_reason_and_rule(gonogo):
    done = gonogo("policy", "check", "--", "rm", "-rf", "/")
    assert done.returncode == 0
    assert json.loads(done.stdout)["decision"] == "deny"
    assert set(json.loads(done.stdout)) == {"decision", "reason", "rule"}


def test_the_policy_reads_rules_from_a_file_and_names_the_line_of_a_bad_one(gonogo, tmp_path: Path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ncommand = "ls"\ndecision = "allow"\n')
    done = gonogo("policy", "check", "--rules", str(rules), "--", "ls -la")
    assert json.loads(done.stdout)["decision"] == "allow"
    lines = '{"cmd": "ls -la"}\n{"cmd": "make"}\n'
    done = gonogo("policy", "check", "--rules", str(rules), "--batch", stdin=lines)
    assert [json.loads(line)["decision"] for line in done.stdout.splitlines()] == ["allow", "ask"]
    rules.write_text('[[rule]]\ncommand = "bash"\ndecision = "allow"\n')
    done = gonogo("policy", "check", "--rules", str(rules), "--", "ls -la")
    assert done.returncode == 2
    assert f"{rules}:1" in done.stderr


def test_a_batch_of_commands_gets_a_verdict_a_line_in_its_contexts(gonogo, tmp_path: Path):
    contexts = tmp_path / "contexts.json"
    contexts.write_text(json.dumps({"open": {"allow": ["ls"]}, "shut": {"deny": ["ls *"]}}))
    lines = [{"cmd": "ls", "policy_context": name} for name in ("open", "shut")]
    done = gonogo(
        "policy",
        "check",
        "--batch",
        "--context",
        str(contexts),
        stdin="\n".join(map(json.dumps, lines)) + "\n\n",
    )
    assert [json.loads(line)["decision"] for line in done.stdout.splitlines()] == ["allow", "deny"]


BAD_LINES = [
    b"nonsense", b"[]", b'{"cmd": 1}', b'{"cmd": "ls", "cmd": "rm"}', b'{"cmd": "\\ud800"}',
    b"\xff",
    b'{"cmd": "ls", "policy_context": "other"}', b"[" * 40, b'{"cmd": "' + b"x" * 2**21 + b'"}',
]  # fmt: skip


def test_a_bad_line_of_a_batch_is_denied_and_named_and_the_others_are_judged(
    gonogo, tmp_path: Path
):
    contexts = tmp_path / "contexts.json"
    contexts.write_text('{"a": {"allow": ["ls"]}, "b": {}}')
    good = b'{"cmd": "ls", "policy_context": "a"}'
    lines = [each for bad in BAD_LINES for each in (good, bad)]
    command = ("policy", "check", "--batch", "--context", str(contexts))

    done = gonogo(
        *command, stdin=b"\n".join([*lines, good, b""]).decode("utf-8", "surrogateescape")
    )

    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert [each["decision"] for each in said] == ["allow", "deny"] * len(BAD_LINES) + ["allow"]
    for number, each in enumerate(said, 1):
        if number % 2 == 0:
            assert each["rule"] == "builtin:unreadable-line"
            assert each["reason"].startswith(f"line {number}: ")
            assert f"line {number}: " in done.stderr


def test_the_doctor_says_what_is_missing_and_that_others_may_look(gonogo, home: Path):
    done = gonogo("doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 0
    assert set(found) == {
        "python",
        "git",
        "bubblewrap",
        "rg",
        "model",
        "state folder",
        "owner",
        "database",
    }
    assert found["model"]["state"] == "warn"
    home.mkdir(mode=0o755)
    done = gonogo("doctor")
    assert done.returncode == 1
    assert f"chmod 700 {home}" in done.stdout


def test_the_doctor_finds_a_database_that_is_none(gonogo, home: Path):
    home.mkdir(mode=0o700)
    (home / "gonogo.db").write_text("not a database, whatever its name says")
    done = gonogo("doctor")
    assert done.returncode == 1
    assert "file is not a database" in done.stdout


def test_the_doctor_leaves_a_database_server_to_the_command_that_tries_it(tmp_path: Path):
    found = _database(Settings(home=tmp_path, db="postgresql://db.example/gonogo"))
    assert found == Check("database", "ok", "a server; look at it with gonogo db check")


def test_the_doctor_runs_no_bubblewrap_that_only_the_path_names(gonogo, tmp_path: Path):
    planted, ran = tmp_path / "bin" / "bwrap", tmp_path / "ran"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {ran}\n")
    planted.chmod(0o755)
    path = os.pathsep.join([str(planted.parent), os.environ["PATH"]])
    done = gonogo("doctor", "--json", env={"PATH": path})
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert str(planted) not in found["bubblewrap"]["text"]
    assert not ran.exists()


MODELS = """
[[role]]
name = "work"
model = "demo"
fallback = ["anthropic:y", "nowhere:z"]

[[role]]
name = "route"
model = "openai:small"
base_url = "http://localhost:1/v1"
effort = "low"

[[role]]
name = "review"
model = "openai:judge"
"""


def test_the_doctor_says_what_each_role_asks_and_what_is_missing(tmp_path: Path):
    file = tmp_path / "models.toml"
    file.write_text(MODELS)
    settings = Settings(home=tmp_path, models=file)
    found = {check.name: check for check in _models(settings, {"ANTHROPIC_API_KEY": "k"})}
    assert list(found) == [f"model to {w}" for w in ("plan", "work", "route", "compact", "review")]
    work = found["model to work"]
    assert (work.state, found["model to plan"].text) == ("warn", work.text)
    assert work.text.startswith("demo → anthropic:y → nowhere:z; There is no model")
    assert found["model to route"] == Check("model to route", "ok", "openai:small (effort low)")
    assert found["model to review"].state == "bad"
    assert "needs OPENAI_API_KEY" in found["model to review"].text

    file.write_text('[[role]]\nname = "cook"\n')
    (check,) = _models(settings, {})
    assert (check.name, check.state) == ("models", "bad")
    assert check.text.startswith(f"{file}:1: role 'cook': name: Input should be 'plan'")


def test_a_file_of_models_decides_unless_the_command_names_one(tmp_path: Path, monkeypatch):
    (tmp_path / "models.toml").write_text(MODELS)
    monkeypatch.setenv("GONOGO_CONFIG", str(tmp_path))
    monkeypatch.setenv("GONOGO_MODEL", "openai:usual")
    assert "model" not in _opening(read_settings())
    named = read_settings({"model": "openai:usual"})
    assert _opening(named)["model"] == "openai:usual"
    assert not named.models_file.is_file()
    (tmp_path / "models.toml").unlink()
    assert _opening(read_settings())["model"] == "openai:usual"


def test_a_mistake_in_the_file_of_models_is_told_at_the_start(gonogo, tmp_path: Path):
    file = tmp_path / "models.toml"
    file.write_text('[[role]]\nname = "plan"\neffort = "huge"\n')
    done = gonogo("run", "Do it", env={"GONOGO_MODELS": str(file)})
    assert done.returncode != 0
    assert f"{file}:1: role 'plan': effort: " in done.stderr
    assert "Traceback" not in done.stderr
