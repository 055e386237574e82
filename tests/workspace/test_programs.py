"""A name means a program of the machine; what lies where agents write is never taken for one."""

from pathlib import Path

import anyio
import pytest

from gonogo.workspace import CommandOutput, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox.process import Programs

BUBBLEWRAP = Sandbox.detect()
BOTH = [
    pytest.param(None, id="plain"),
    pytest.param(BUBBLEWRAP, id="boxed", marks=pytest.mark.skipif(
        BUBBLEWRAP is None, reason="bubblewrap does not work here")),
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws" / ".venv" / "bin").mkdir(parents=True)
    return tmp_path / "ws"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "usr").mkdir()
    return tmp_path / "usr"


def program(folder: Path, name: str, says: str = "") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {says or folder} $*\n")
    path.chmod(0o755)
    return path


async def run(root: Path, script: str, sandbox: Sandbox | None, **more) -> CommandOutput:
    with anyio.fail_after(60):
        return await run_command(
            Workspace(root), script, cwd=None, timeout=30, sandbox=sandbox, **more
        )


def test_folders_that_are_relative_or_where_agents_write_are_no_part_of_the_path(
    root: Path, machine: Path, tmp_path: Path
) -> None:
    (tmp_path / "to-ws").symlink_to(root)
    (root / "to-usr").symlink_to(machine)
    (tmp_path / "other" / "bin").mkdir(parents=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    entries = (
        "", ".", "bin", "./x", f"{root}", f"{root}/.venv/bin", f"{tmp_path}/to-ws/.venv/bin",
        f"{machine}/../ws/bin", f"{root}/to-usr", f"{tmp_path}/other/bin", f"{tmp_path}/open",
        f"{machine}", "/nowhere/yet",
    )  # fmt: skip

    found = Programs(path=":".join(entries), roots=(tmp_path / "other",))

    assert found.elsewhere(root) == f"{machine}:/nowhere/yet"


def test_a_path_of_which_nothing_is_left_is_the_systems(root: Path) -> None:
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert Programs(path=f"{root}/bin:.").elsewhere(root) == system


def test_a_program_is_looked_for_past_those_of_the_workspace(root: Path, machine: Path) -> None:
    program(root / ".venv/bin", "rg")
    (machine / "ruff").symlink_to(program(root / ".venv/bin", "ruff"))
    true = program(machine, "rg")
    programs = Programs(path=f"{root}/.venv/bin:{machine}")

    assert programs.of_machine("rg", root) == str(true)
    assert programs.of_machine("ruff", root) is None
    assert programs.of_machine("nothing", root) is None


def test_the_workspaces_own_program_is_known_where_the_path_names_it_first(
    root: Path, machine: Path, tmp_path: Path
) -> None:
    own = program(root / ".venv/bin", "pytest")
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "linked").symlink_to(own)
    program(root / ".venv/bin", "both")
    program(machine, "both")
    venv = f"{root}/.venv/bin"

    first = Programs(path=f"{tmp_path}/early:{venv}:{machine}")
    assert first.of_workspace("pytest", root) == str(own)
    assert first.of_workspace("linked", root) == f"{tmp_path}/early/linked"
    assert first.of_workspace("both", root) == f"{venv}/both"
    assert Programs(path=f"{machine}:{venv}").of_workspace("both", root) is None
    assert Programs(path=str(machine)).of_workspace("pytest", root) is None


@pytest.mark.parametrize("name", ["cd", "echo", "if", "time", "while", "[", "a/b", "./pytest", ""])
def test_what_bash_means_itself_or_what_names_a_place_is_not_looked_up(
    root: Path, name: str
) -> None:
    for each in ("cd", "echo", "if", "time", "while", "["):
        program(root / ".venv/bin", each)
    programs = Programs(path=f"{root}/.venv/bin")

    assert (programs.of_machine(name, root), programs.of_workspace(name, root)) == (None, None)


@pytest.mark.parametrize("sandbox", BOTH)
async def test_no_folder_of_the_workspace_is_on_a_commands_path(
    root: Path, machine: Path, sandbox: Sandbox | None
) -> None:
    for name in ("bash", "ls", "helper"):
        program(root / ".venv/bin", name, "pwned")
    program(machine, "helper", "fine")
    path = f"{root}/.venv/bin:.:{machine}:/usr/bin:/bin"

    done = await run(
        root, "echo $PATH; ls; helper; sh -c helper; env helper", sandbox, search_path=path
    )

    assert done.output.splitlines()[0] == f"{machine}:/usr/bin:/bin"
    assert done.output.splitlines()[1:] == ["fine", "fine", "fine"]


@pytest.mark.parametrize("sandbox", BOTH)
async def test_a_name_runs_the_program_that_was_found_for_it(
    root: Path, machine: Path, sandbox: Sandbox | None
) -> None:
    odd = machine / "a 'b"
    odd.mkdir()
    programs = {
        "pytest": str(program(root / ".venv/bin", "pytest", "own")),
        "tool": str(program(odd, "tool", "machine")),
    }
    script = "pytest -q 'a b' && tool | cat; ! pytest x; tool >/dev/null 2>&1; (tool y)"
    path = f"/usr/bin:/bin:{odd}"

    done = await run(root, script, sandbox, programs=programs, search_path=path)

    assert done.output.splitlines() == ["own -q a b", "machine", "own x", "machine y"]


@pytest.mark.parametrize("sandbox", BOTH)
async def test_the_python_of_a_virtual_environment_runs_as_that_environments(
    root: Path, sandbox: Sandbox | None
) -> None:
    # As `python -m venv` lays it out.
    (root / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")

    done = await run(
        root, "python -c 'import sys; print(sys.prefix)'", sandbox,
        programs={"python": str(root / ".venv/bin/python")},
    )  # fmt: skip

    assert done.output == f"{root}/.venv\n"
