"""The file of MCP servers: secrets by name; what is wrong is told with file, line and field."""

import json
import re

import pytest

from gonogo.domain.tool_calls import ToolClass
from gonogo.tools import load_servers

ENVIRONMENT = {"PATH": "/bin", "HOME": "/home/ann", "TOKEN": "s3cret", "OTHER": "not asked for"}
STDIO = {"name": "docs", "command": "docs-server"}
HTTP = {"name": "docs", "url": "https://docs.example/mcp"}


def load(tmp_path, *servers):
    path = tmp_path / "mcp.toml"
    tables = (
        ["[[server]]", *(f"{name} = {_toml(value)}" for name, value in server.items())]
        for server in servers
    )
    path.write_text("\n".join(line for table in tables for line in table) + "\n")
    return load_servers(path, ENVIRONMENT)


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def test_no_file_is_no_servers(tmp_path):
    assert load_servers(tmp_path / "none.toml", {}) == {}


def test_a_program_gets_what_it_needs_to_run_and_the_secrets_that_are_named(tmp_path):
    server = load(tmp_path, {**STDIO, "args": ["-x"], "env_from": ["TOKEN"], "cwd": "/srv"})["docs"]
    assert server.command == ("docs-server", "-x")
    assert str(server.folder) == "/srv"
    assert server.environment == {"PATH": "/bin", "HOME": "/home/ann", "TOKEN": "s3cret"}
    assert server.agents == ("coder", "debug", "universal")
    assert server.takes("anything")
    assert (server.timeout, server.start_timeout, server.tools, server.url) == (60, 30, None, None)
    assert (server.headers, server.classes, server.program) == ({}, {}, "docs-server")
    assert "s3cret" not in repr(server)


def test_as_much_as_may_be_is_taken(tmp_path):
    most = {"args": ["x"] * 100, "env_from": ["TOKEN"] * 50, "timeout": 3_600, "start_timeout": 0.5}
    server = load(tmp_path, {**STDIO, **most})["docs"]
    assert server.fault is None
    assert (server.timeout, server.start_timeout) == (3_600, 0.5)
    assert server.command == ("docs-server", *["x"] * 100)


def test_a_program_runs_in_the_home_of_its_user_unless_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/bob")
    assert str(load(tmp_path, STDIO)["docs"].folder) == "/home/ann"
    assert str(load(tmp_path, {**STDIO, "cwd": "~/srv"})["docs"].folder) == "/home/bob/srv"
    (tmp_path / "mcp.toml").write_text('[[server]]\nname = "docs"\ncommand = "x"\n')
    assert str(load_servers(tmp_path / "mcp.toml", {})["docs"].folder) == "/"


def test_a_program_is_passed_on_who_runs_it_where_and_in_which_language(tmp_path):
    needed = {name: f"a {name}" for name in
              ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL")}  # fmt: skip
    (tmp_path / "mcp.toml").write_text('[[server]]\nname = "docs"\ncommand = "docs-server"\n')
    found = load_servers(tmp_path / "mcp.toml", {**needed, "TOKEN": "s3cret"})
    assert found["docs"].environment == needed


def test_an_address_gets_headers_whose_values_are_in_the_environment(tmp_path):
    server = load(tmp_path, {
        **HTTP, "headers_env": {"Authorization": "TOKEN"}, "tools": ["search"],
        "classes": {"search": "pure"}, "agents": ["ask"],
    })["docs"]  # fmt: skip
    assert server.headers == {"Authorization": "s3cret"}
    assert (server.command, server.program, server.environment["PATH"]) == ((), "", "/bin")
    assert (server.url, server.agents) == ("https://docs.example/mcp", ("ask",))
    assert server.takes("search")
    assert not server.takes("delete")
    assert server.classes == {"search": ToolClass.PURE}
    assert "s3cret" not in repr(server)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"name": "docs"}, "server: give a server either a command or a url"),
        ({**STDIO, **HTTP}, "server: give a server either a command or a url"),
        ({**STDIO, "headers_env": {"A": "TOKEN"}}, "server: headers_env is for servers with a url"),
        ({**STDIO, "insecure": True}, "server: insecure is for servers with a url"),
        ({**HTTP, "env_from": ["TOKEN"]}, "server: env_from is for servers with a command"),
        ({**HTTP, "args": ["x"]}, "server: args is for servers with a command"),
        ({**HTTP, "cwd": "/srv"}, "server: cwd is for servers with a command"),
        ({**STDIO, "env_from": ["NOT_SET"]}, "env_from: NOT_SET is not set"),
        ({**HTTP, "headers_env": {"A": "NOT_SET"}}, "headers_env: NOT_SET is not set"),
        (
            {**HTTP, "headers_env": {"A: b": "TOKEN"}},
            "headers_env.A: b.[key]: String should match pattern '^[A-Za-z0-9-]{1,64}$'",
        ),
        (
            {**HTTP, "url": "http://docs.example"},
            "url: http:// would show everything that is sent to the network;"
            " use https://, or set insecure = true",
        ),
        (
            {**HTTP, "url": "ftp://docs.example"},
            "url: an address must begin with https:// and name a host",
        ),
        (
            {**HTTP, "url": "https://u:p@docs.example"},
            "url: an address must not have a user, a password or a fragment; secrets go into "
            "headers_env",
        ),
        ({**HTTP, "url": "https://[x"}, "url: this is not an address"),
        (
            {**STDIO, "classes": {"x": "control"}},
            "classes.x: Input should be 'pure', 'idempotent', 'other' or 'irreversible'",
        ),
        ({**STDIO, "timeout": 0}, "timeout: Input should be greater than 0"),
        (
            {**STDIO, "args": ["x"] * 101},
            "args: Tuple should have at most 100 items after validation, not 101",
        ),
        ({**STDIO, "args": ["x" * 4_001]}, "args.0: String should have at most 4000 characters"),
        (
            {**STDIO, "env_from": ["TOKEN"] * 51},
            "env_from: Tuple should have at most 50 items after validation, not 51",
        ),
        ({**STDIO, "comand": "x"}, "comand: Extra inputs are not permitted"),
    ],
)
def test_a_defect_is_named_with_its_line_and_is_that_servers_alone(tmp_path, server, problem):
    found = load(tmp_path, {**STDIO, "name": "first"}, server, {**STDIO, "name": "last"})
    assert found["docs"].fault == f"{tmp_path}/mcp.toml:4: server 2: {problem}"
    assert [found[name].fault for name in ("first", "last")] == [None, None]
    assert not found["docs"].is_unread


@pytest.mark.parametrize("name", ["My Docs", "a__b", "", 1, None])
def test_a_server_without_a_name_that_can_be_one_is_called_by_its_line(tmp_path, name):
    given = {"command": "x"} if name is None else {**STDIO, "name": name}
    found = load(tmp_path, {**STDIO, "name": "first"}, given)
    assert found["first"].fault is None
    assert found["mcp.toml:4"].is_unread
    assert (found["mcp.toml:4"].fault or "").startswith(f"{tmp_path}/mcp.toml:4: server 2: name")


def test_of_two_servers_of_one_name_neither_is_used(tmp_path):
    found = load(tmp_path, STDIO, {**STDIO, "command": "another"})
    assert list(found) == ["docs"]
    twice = "server 2: name: there are two servers 'docs'"
    assert found["docs"].fault == f"{tmp_path}/mcp.toml:4: {twice}"
    assert found["docs"].command == ()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://localhost/mcp", "http://[::1]/"])
def test_this_machine_is_reached_without_encryption(tmp_path, url):
    assert load(tmp_path, {**HTTP, "url": url})
    assert load(tmp_path, {**HTTP, "url": "http://docs.example", "insecure": True})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[server", "mcp.toml: "),
        ("[server]\n", "can hold only \\[\\[server\\]\\] tables"),
        ("other = 1\n", "can hold only"),
        ("[[server]]\nname = 'a'\ncommand = 'x'\n" * 33, "at most 32 .*server.* tables"),
    ],
)
def test_a_file_that_is_none_has_one_server_that_is_the_file_and_its_fault(tmp_path, text, problem):
    path = tmp_path / "mcp.toml"
    path.write_text(text)
    found = load_servers(path, {})
    assert list(found) == ["mcp.toml"]
    assert found["mcp.toml"].is_unread
    assert re.search(problem, found["mcp.toml"].fault or "")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x00", None])
def test_a_file_that_cannot_be_read_is_such_a_fault_too(tmp_path, data):
    path = tmp_path / "mcp.toml"
    path.mkdir() if data is None else path.write_bytes(data)
    assert load_servers(path, {})["mcp.toml"].fault
