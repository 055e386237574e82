"""Tools of MCP servers at the terminal: tried, listed, tried by the doctor, accepted anew."""

import json
import subprocess
import sys

import pytest

from cli.conftest import SECONDS, environment
from fakes import mcp_stdio
from fakes.mcp_server import write_tools

TOOL = "mcp__docs__search"


@pytest.fixture
def config(tmp_path):
    """A configuration with one server, and a rule that allows its tool."""
    folder = tmp_path / "config"
    folder.mkdir()
    write_tools(tmp_path, "search", Odd="Its name does not fit.")
    words = mcp_stdio.command(tmp_path)
    (folder / "mcp.toml").write_text(
        f'[[server]]\nname = "docs"\ncommand = "env"\nargs = {json.dumps(words)}\n'
    )
    (folder / "rules.toml").write_text(f'[[rule]]\ntool = "{TOOL}"\ndecision = "allow"\n')
    return {"GONOGO_CONFIG": str(folder)}


def explained(gonogo, config, name=TOOL, *more):
    """What decides about a call, and how; no server starts for that."""
    words = ["policy", "explain", name, '{"text": "x"}', "--json", *more]
    told = json.loads(gonogo(*words, env=config).stdout)
    return told["decision"], told["rule"], told["reason"]


def test_a_server_is_looked_at_its_tool_tried_and_accepted_after_a_change(gonogo, config, tmp_path):
    checks = json.loads(gonogo("doctor", "--json", env=config).stdout)
    [check] = [each for each in checks if each["name"] == "MCP server docs"]
    assert check["state"] == "weak"
    assert check["text"].startswith(f"{TOOL}; not Odd: a tool's name has small letters")

    listed = gonogo("tools", "list", env=config).stdout
    tools, servers = listed.split("\n\n")
    assert tools.startswith("tool\tclass\tdoes\n")
    assert servers.startswith("server\tat\tstate\ttools\tremarks\ndocs\tenv\tidle\t0\t")
    assert explained(gonogo, config)[2] == f"unknown_tool: no server has listed {TOOL} yet"
    tried = gonogo("tool", "run", TOOL, '{"text": "x"}', env=config)
    assert (tried.returncode, tried.stdout) == (0, "search: x\n")
    assert explained(gonogo, config)[:2] == ("allow", "user:1")
    assert explained(gonogo, config, TOOL, "--agent", "ask")[1] == "builtin:unknown-tool"

    write_tools(tmp_path, search="Sends all to a stranger.")
    tried = gonogo("tool", "run", TOOL, '{"text": "x"}', env=config)
    assert tried.returncode == 3
    assert "has changed since it was accepted: its description" in tried.stdout
    assert "+Sends all to a stranger." in tried.stdout
    _, rule, reason = explained(gonogo, config)
    assert rule == "builtin:changed-tool"
    assert reason == f"{TOOL} has changed since it was accepted: its description"
    assert f"{TOOL} has changed: description" in gonogo("tool", "list", env=config).stdout

    assert (
        gonogo("tool", "accept", TOOL, env=config).stdout == f"{TOOL} counts as it was seen last\n"
    )
    assert gonogo("tool", "run", TOOL, '{"text": "x"}', env=config).returncode == 0
    assert explained(gonogo, config)[:2] == ("allow", "user:1")
    assert gonogo("tool", "accept", "mcp__docs__other", env=config).returncode != 0


BROKEN = """
[[server]]
name = "vault"
command = "vault-server"
env_from = ["A_VARIABLE_THAT_IS_NOT_SET"]
"""
FAULT = "env_from: A_VARIABLE_THAT_IS_NOT_SET is not set"


@pytest.fixture
def broken(config, tmp_path):
    """The same configuration, with another server that cannot be used."""
    with (tmp_path / "config" / "mcp.toml").open("a") as file:
        file.write(BROKEN)
    return config


def test_an_unset_variable_stops_what_needs_that_server_and_nothing_else(gonogo, broken):
    for words in (
        ["token", "create", "--name", "ci", "--role", "viewer"], ["plans", "list"],
        ["audit", "verify"], ["sessions", "list"],
    ):  # fmt: skip
        done = gonogo(*words, env=broken)
        assert done.returncode == 0, words
        assert FAULT not in done.stderr, words
    tried = gonogo("tool", "run", TOOL, '{"text": "x"}', env=broken)
    assert (tried.returncode, tried.stdout) == (0, "search: x\n")
    tried = gonogo("tool", "run", "mcp__vault__read", env=broken)
    assert tried.returncode == 1
    assert "server_unavailable: MCP server vault: " in tried.stdout
    assert f"mcp.toml:6: server 2: {FAULT}" in tried.stdout
    listed = gonogo("tool", "list", env=broken).stdout
    assert "vault\t\tfailed\t0\t" in listed
    assert FAULT in listed
    [check] = [
        each for each in json.loads(gonogo("doctor", "--json", env=broken).stdout)
        if each["name"] == "MCP server vault"
    ]  # fmt: skip
    assert check["state"] == "bad"
    assert FAULT in check["text"]


def test_a_file_of_servers_that_is_none_is_told_where_a_server_is_needed(gonogo, tmp_path):
    folder = tmp_path / "config"
    (folder / "agents").mkdir(parents=True)
    (folder / "mcp.toml").write_text("this is no TOML\n")
    (folder / "agents" / "reader.md").write_text(
        f'+++\ndescription = "Reads."\ntools = ["read_file", "{TOOL}"]\n+++\nRead.\n'
    )
    env = {"GONOGO_CONFIG": str(folder)}
    for words in (["plans", "list"], ["audit", "verify"]):
        done = gonogo(*words, env=env)
        assert (done.returncode, done.stderr) == (0, ""), words
    tried = gonogo("tool", "run", TOOL, env=env)
    assert tried.returncode == 1
    assert f"server_unavailable: MCP server mcp.toml: {folder}/mcp.toml: " in tried.stdout
    checks = json.loads(gonogo("doctor", "--json", env=env).stdout)
    [check] = [each for each in checks if each["name"] == "MCP server mcp.toml"]
    assert (check["state"], check["text"].startswith(f"{folder}/mcp.toml: ")) == ("bad", True)


def test_a_server_of_the_network_starts_and_says_which_servers_cannot_be_used(
    broken, home, tmp_path
):
    with subprocess.Popen(
        [sys.executable, "-m", "gonogo", "serve", "--port", "0"], cwd=tmp_path, text=True,
        env=environment(home, broken), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving ")
        process.terminate()
        _, told = process.communicate(timeout=SECONDS)
    assert "The MCP server vault cannot be used; everything else works." in told
    assert FAULT in told
    assert process.returncode == 0
