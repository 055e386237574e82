"""Tools of MCP servers at the terminal: tried, listed, tried by the doctor, accepted anew."""

import json
import os
import sys

import pytest

from fakes.mcp_server import write_tools

TOOL = "mcp__docs__search"


@pytest.fixture
def config(tmp_path):
    """A configuration with one server, and a rule that allows its tool."""
    folder = tmp_path / "config"
    folder.mkdir()
    write_tools(tmp_path, "search", Odd="Its name does not fit.")
    path = os.pathsep.join(part for part in sys.path if part)
    words = [f"PYTHONPATH={path}", sys.executable, "-m", "fakes.mcp_server", str(tmp_path)]
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
    assert "docs\tenv\tidle\t0\t" in listed
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
