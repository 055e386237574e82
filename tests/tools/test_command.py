"""A command runs as its bench says, and what came of it is told in so many fields."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from gonogo.domain.base import content_hash
from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.domain.tool_calls import Access
from gonogo.tools import Bench, builtin_tools, touched
from gonogo.tools import command as tool
from gonogo.workspace import READ_LIMIT, Ceilings, Network, Sandbox, Workspace

BOX = Sandbox.detect()
TOOL = builtin_tools()["execute_command"]
boxed = pytest.mark.skipif(BOX is None, reason="bubblewrap does not work here")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


async def run(workspace: Workspace, command: str, **bench: Any) -> dict[str, Any]:
    """What is told of a command."""
    assert TOOL.run is not None
    prepared = TOOL.prepare(workspace, TOOL.parse({"command": command}))
    with anyio.fail_after(60):
        return await TOOL.run(
            Bench(workspace=workspace, sandbox=BOX, **bench), TOOL.parse(prepared.arguments)
        )


CODE = {
    "build.sh": ["./build.sh > log", "bash -x build.sh", "cd sub && ../build.sh", "x=$(./build.sh)",
                 "sh -c './build.sh x'", "env A=b ./build.sh", "'./build.sh'", "./build.sh <&-"],
    "sub/tool.py": ["python3 sub/tool.py", "cd sub; python tool.py", "python -m sub.tool",
                    "black sub/tool.py"],
    "sub/deploy": ["bash -e sub/deploy", ". sub/deploy", "cd sub && source ./deploy",
                   "python3 -u sub/deploy"],
    "sub/run": ["sub/run x", "cd sub; ./run"],
    "my tool.sh": ["bash 'my tool.sh'"],
    "Makefile": ["make", "/usr/bin/make -j 2 all", "cd sub && make -C .."],
    "package.json": ["npm run x", "npx x", "yarn"],
    "conftest.py": ["pytest -q", "python -m pytest"],
    "link.sh": ["./link.sh"],
}  # fmt: skip
DATA = [
    "sort notes > out", "tail -f notes", "awk '{print}' notes", "cat build.sh", "rg x build.sh",
    "git diff build.sh", "bash -c 'echo notes'", "source .env", "python -c 1 notes", "./none.sh",
    "/bin/sh -c true", "sh out.sh", "./sub", "echo '",
]  # fmt: skip


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("scripts")
    (root / "ws" / "sub").mkdir(parents=True)
    for name in (*CODE, "notes", ".env", "../out.sh"):
        if name != "link.sh":
            (root / "ws" / name).write_text(name)
    (root / "ws" / "link.sh").symlink_to("build.sh")
    (root / "ws" / "out.sh").symlink_to("../out.sh")
    (root / "ws" / "sub" / "run").chmod(0o755)
    return Workspace(root / "ws")


@pytest.mark.parametrize(
    ("path", "command"), [(path, command) for path in CODE for command in CODE[path]]
)
def test_what_a_file_holds_that_a_command_runs_is_bound(scripts, path, command):
    found = TOOL.prepare(scripts, TOOL.parse({"command": command})).base_hashes
    assert found == {path: content_hash((scripts.root / path).read_bytes())}


@pytest.mark.parametrize("command", DATA)
def test_what_a_command_only_reads_is_not_bound(scripts, command):
    assert TOOL.prepare(scripts, TOOL.parse({"command": command})).base_hashes == {}


def test_what_a_command_runs_is_looked_for_where_it_runs(scripts):
    arguments = TOOL.parse({"command": "python3 tool.py", "cwd": "sub"})
    assert list(TOOL.prepare(scripts, arguments).base_hashes) == ["sub/tool.py"]


SOURCES = [
    ". ./lib.sh", "source lib.sh", "a=1; . 'lib.sh' x", "if true; then source \"lib.sh\"; fi",
    "test -e x && builtin source -- lib.sh", "x=$(. lib.sh)", "\t! . ../lib.sh",
]  # fmt: skip
SOURCES_NOT = ["echo . lib.sh", "# source lib.sh", "x=. lib.sh", ". none.sh", ". notes.txt/", ""]


def bound(root: Path, command: str = "sh in/run") -> list[str]:
    workspace = Workspace(root)
    return [*TOOL.prepare(workspace, TOOL.parse({"command": command})).base_hashes]


@pytest.fixture
def sourcing(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "lib.sh").write_text(". in/more\n. lib.sh")
    (tmp_path / "in" / "more").write_text("echo more")
    return tmp_path


@pytest.mark.parametrize("line", SOURCES)
def test_what_a_script_sources_is_bound_with_it(sourcing, line):
    (sourcing / "in" / "run").write_text(f"echo a\n{line}\n")
    assert bound(sourcing) == ["in/run", "lib.sh", "in/more"]


@pytest.mark.parametrize("line", SOURCES_NOT)
def test_what_a_script_does_not_source_is_not_bound(sourcing, line):
    (sourcing / "in" / "run").write_text(f"echo a\n{line}\n")
    assert bound(sourcing, "./in/run; sh in/run") == ["in/run"]


def test_a_script_of_another_language_sources_nothing(sourcing):
    (sourcing / "in" / "run.py").write_text("x = 1\n. lib.sh\n")
    assert bound(sourcing, "python in/run.py") == ["in/run.py"]
    (sourcing / "in" / "run.py").write_text("#!/usr/bin/env bash\n. lib.sh\n")
    assert bound(sourcing, "in/run.py") == ["in/run.py", "lib.sh", "in/more"]


def test_a_script_of_which_nobody_can_say_what_it_sources_does_not_run(sourcing, monkeypatch):
    (sourcing / "run.sh").write_text("".join(f". in/{n}.sh\n" for n in range(4)))
    for n in range(4):
        (sourcing / "in" / f"{n}.sh").touch()
    assert len(bound(sourcing, "./run.sh")) == 5
    monkeypatch.setattr(tool, "_MOST_SOURCED", 3)
    with pytest.raises(ToolFailed, match="source more than 3 files"):
        bound(sourcing, "./run.sh")
    os.truncate(sourcing / "run.sh", READ_LIMIT + 1)
    with pytest.raises(ToolFailed, match="has more than"):
        bound(sourcing, "./run.sh")


@boxed
async def test_a_command_has_the_path_the_programs_and_the_ceilings_of_its_bench(workspace):
    spawned: list[int] = []
    told = await run(
        workspace, "ulimit -n; echo $PATH; say it", search_path=lambda: "/usr/bin:/bin",
        ceilings=Ceilings(open_files=77), programs={"say": "/bin/echo"}, on_spawn=spawned.append,
    )  # fmt: skip

    assert told == {
        "exit_code": 0, "output": "77\n/usr/bin:/bin\nit\n", "truncated": False, "timed_out": False,
    }  # fmt: skip
    assert len(spawned) == 1


@boxed
async def test_a_command_sees_and_changes_what_its_bench_lets_it(workspace):
    root = workspace.root
    for name in ("hidden/x", ".env", ".git/config", ".venv/bin/python"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("CANARY")
    look = "cat hidden/x .env; touch new; echo y >.git/config; echo y >.venv/bin/python; ls .venv"

    shown = await run(workspace, look, read_only=True, shown=lambda path: path != ".env",
                      hidden=(root / "hidden",))  # fmt: skip
    assert "CANARY" not in shown["output"]
    assert not (root / "new").exists()
    assert (await run(workspace, "cat hidden/x .env"))["output"] == "CANARYCANARY"

    copied = await run(workspace, "touch new; ls", on_copy=True)
    assert copied["output"] == "hidden\nnew\n"
    assert not (root / "new").exists()

    await run(workspace, look, writes_git=True)
    assert (root / "new").exists()
    assert (root / ".venv/bin/python").read_text() == "CANARY"
    await run(workspace, look, may_change=lambda path: path.startswith(".venv/"))
    assert (root / ".venv/bin/python").read_text() == "y\n"


@boxed
async def test_what_is_too_much_of_a_command_is_said(workspace):
    assert await run(workspace, "echo 1234567890", output_cap=6) == {
        "exit_code": 0, "output": "123\n[… 5 bytes left out …]\n90\n", "truncated": True,
        "timed_out": False,
    }  # fmt: skip
    assert await run(workspace, "sleep 60", command_timeout=0.3) == {
        "exit_code": 124, "output": "", "truncated": False, "timed_out": True,
    }  # fmt: skip
    hold = "python3 -c 'import time; x = b\"x\" * (150 << 20); time.sleep(60)'"
    over = await run(workspace, f"{hold} & {hold}; wait", ceilings=Ceilings(memory=200))
    assert over["over"] == "ended: it took more memory than one command may"


@boxed
async def test_what_a_command_reached_and_was_refused_is_told(workspace):
    told = await run(
        workspace, "curl -sS -m 50 http://bad.test/", network=Network(hosts=("good.test",))
    )

    [refused] = told["network"]["refused"]
    assert told["network"]["reached"] == []
    assert refused.keys() == {"host", "reason"}
    assert refused["host"] == "bad.test:80"
    assert refused["reason"]


def test_a_command_is_asked_about_with_where_it_runs_and_what_it_reaches(workspace):
    workspace.mkdir("sub")
    given = {"command": "ls", "cwd": "./sub", "network": ["B.example", "*.a.example:8443"]}
    hosts = ("b.example", "*.a.example:8443")

    prepared = TOOL.prepare(workspace, TOOL.parse(given))

    assert prepared.arguments == {"command": "ls", "cwd": "sub", "network": list(hosts)}
    assert prepared.access == Access(command="ls", cwd="sub", network=hosts)
    assert prepared.preview == "cd sub\n# network: b.example, *.a.example:8443\nls"
    plain = TOOL.prepare(workspace, TOOL.parse({"command": "ls", "cwd": ".", "network": None}))
    assert (plain.arguments, plain.preview) == ({"command": "ls", "cwd": "."}, "ls")
    assert plain.access == Access(command="ls", cwd=".")


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ([], "name the hosts in a list"), (True, "name the hosts in a list"),
        (False, "name the hosts in a list"), ("a.example", "is `false`, `true` or a list of hosts"),
        ([1], "1 is not the name of a host"),
    ],
)  # fmt: skip
def test_the_hosts_of_a_command_are_a_list_of_names(network, why):
    with pytest.raises(InvalidArguments, match=f"^execute_command: network: .*{why}$"):
        TOOL.parse({"command": "ls", "network": network})


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"command": ""}, False), ({"command": "x" * 32_000}, True),
        ({"command": "x" * 32_001}, False), ({"command": "x", "timeout": 0}, False),
        ({"command": "x", "timeout": 0.5}, True), ({"command": "x", "timeout": 3_600}, True),
        ({"command": "x", "timeout": 3_601}, False),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_command_is_neither_empty_nor_endless(arguments, fits):
    try:
        TOOL.parse(arguments)
    except InvalidArguments:
        assert not fits
    else:
        assert fits


def test_a_command_on_a_clients_machine_touches_what_its_arguments_say():
    given = {"command": "ls", "cwd": "./a/../b", "network": ["A.example"]}

    assert touched("execute_command", given) == Access(
        command="ls", cwd="b", network=("a.example",)
    )
    for nothing in ({}, {"network": None}, {"network": []}, {"network": True}, {"cwd": None}):
        assert touched("execute_command", {"command": "ls", **nothing}) == Access(command="ls")
    with pytest.raises(ToolFailed, check=lambda error: error.kind == "path_outside_workspace"):
        touched("execute_command", {"command": "ls", "cwd": "../x"})
    with pytest.raises(KeyError):
        touched("execute_command", {})
