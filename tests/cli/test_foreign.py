"""Tools of MCP servers at the terminal: tried, listed, tried by the doctor, accepted anew."""

import json
import os
import signal
from datetime import timedelta
from typing import Any

import pytest

from cli.conftest import SECONDS, environment
from fakes import mcp_stdio
from fakes.mcp_server import write_tools
from fakes.rows import NOW
from gonogo.cli.rules import KnownTools, _beginning, _config, _remarks, at, seen_by
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory
from gonogo.domain.views import ServerView, SightingView, ToolView
from gonogo.tools import ServerConfig

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
    assert check["state"] == "warn"
    assert check["text"].startswith(f"{TOOL}; Odd is left out: a tool's name has small letters")

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
        gonogo("tool", "accept", TOOL, env=config).stdout == f"{TOOL} is accepted as it is now.\n"
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
    broken, home, tmp_path, born
):
    read, write = os.pipe()
    with open(read) as printed, (tmp_path / "told").open("w") as log:
        process = born.start(
            "gonogo", "serve", "--port", "0", cwd=tmp_path, env=environment(home, broken),
            stdout=write, stderr=log.fileno(),
        )  # fmt: skip
        os.close(write)
        assert printed.readline().startswith("Serving ")
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    told = (tmp_path / "told").read_text()
    assert "The MCP server vault cannot be used; everything else works." in told
    assert FAULT in told
    assert process.returncode == 0


def listed(name=TOOL, text="Finds."):
    return ToolView(name=name, description=text, tool_class="idempotent", parameters={"a": 1})


DAY = timedelta(days=1)
FIRST = SightingView(digest="d1", seen_at=NOW, accepted_at=NOW)
SECOND = SightingView(digest="d2", seen_at=NOW + DAY)


def server(**more: Any) -> ServerView:
    given = {
        "name": "docs", "place": "here", "state": "ready", "tools": [TOOL], "agents": ["coder"],
        "sightings": {TOOL: [FIRST, SECOND], "mcp__docs__gone": [FIRST]},
    }  # fmt: skip
    return ServerView(**given | more)


class Owner:
    """A client that knows one server and its tool."""

    def __init__(self, *servers):
        self.known = list(servers)

    async def tools(self):
        return [listed(), listed("read_file")]

    async def servers(self):
        return self.known


async def test_of_what_a_tool_was_before_only_what_has_changed_is_not_known():
    changed: Any = Owner(server(changed={TOOL: ["description"]}))
    found = await seen_by(changed)

    now = {"name": "search", "description": "Finds.", "parameters": {"a": 1}}
    same: dict[str, Any] = {"name": TOOL, "accepted_by": None}
    assert found == {
        TOOL: ToolHistory([
            Sighting(
                position=1, digest="d1", seen_at=NOW, accepted_at=NOW,
                definition={"name": "search", "parameters": {"a": 1}}, **same,
            ),
            Sighting(
                position=2, digest="d2", seen_at=NOW + DAY, accepted_at=None, definition=now,
                **same,
            ),
        ])
    }  # fmt: skip
    assert found[TOOL].changed == ("description",)
    unchanged: Any = Owner(server())
    assert (await seen_by(unchanged))[TOOL].sightings[0].definition == now


def test_a_server_is_known_by_the_tools_that_were_seen_of_it():
    assert _config(server(), {TOOL: listed()}) == ServerConfig(
        name="docs", agents=("coder",), classes={"search": ToolClass.IDEMPOTENT}
    )


def test_what_is_odd_about_a_server_is_told_in_one_line():
    odd = server(
        error="it fell", changed={"a": ["description", "parameters"], "b": ["parameters"]},
        refused={"Odd": "its name", "x": "too long"},
    )  # fmt: skip
    assert _remarks(odd) == (
        "it fell; a has changed: description, parameters; b has changed: parameters; "
        "Odd is left out: its name; x is left out: too long"
    )
    assert _remarks(server()) == ""


def test_a_description_is_told_by_its_first_sixty_characters():
    assert _beginning(listed(text="a\n  b")) == "a b"
    assert _beginning(listed(text="x" * 60)) == "x" * 60
    assert _beginning(listed(text="x" * 61)) == "x" * 59 + "…"


def test_what_had_been_seen_and_accepted_at_a_moment_is_known():
    def seen(day, accepted):
        return Sighting(
            name=TOOL, position=day, digest=f"d{day}", definition={}, seen_at=NOW + day * DAY,
            accepted_at=None if accepted is None else NOW + accepted * DAY, accepted_by=None,
        )  # fmt: skip

    whole = ToolHistory([seen(1, 2), seen(3, None), seen(5, 5)])
    assert at(whole, NOW) is None
    assert at(whole, NOW + DAY) == ToolHistory([seen(1, None)])
    assert at(whole, NOW + 2 * DAY) == ToolHistory([seen(1, 2)])
    assert at(whole, NOW + 4 * DAY) == ToolHistory([seen(1, 2), seen(3, None)])
    assert at(whole, NOW + 5 * DAY) == whole


def test_a_name_of_a_servers_tool_counts_as_known_and_no_other_name_does():
    known: Any = KnownTools({"read_file": None})
    assert [name in known for name in ("read_file", TOOL, "other", 7)] == [True, True, False, False]
