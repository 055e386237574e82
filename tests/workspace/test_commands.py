"""A command runs in its box, within its limits, and nothing of it is left when it is over."""

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from fakes.until import with_time_to_begin
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import CommandOutput, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox import bubblewrap, command
from gonogo.workspace.sandbox.bubblewrap import Box, guarded_paths
from gonogo.workspace.sandbox.process import MARK

BUBBLEWRAP = Sandbox.detect()
PYTHON_PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
HOSTS_OWN = (
    "/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers", "/etc/ssh",
    "/etc/ssl/private", "/etc/letsencrypt", "/etc/kubernetes", "/var/lib/docker",
    "/var/lib/containerd", "/var/lib/kubelet",
)  # fmt: skip

boxed_only = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
BOTH = [
    pytest.param(None, id="plain"),
    pytest.param(BUBBLEWRAP, id="boxed", marks=boxed_only),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


async def run(workspace: Workspace, script: str, **options) -> CommandOutput:
    settings = {"cwd": None, "timeout": 60, "sandbox": BUBBLEWRAP, **options}
    with anyio.fail_after(120):
        return await run_command(workspace, script, **settings)


def stands(path: str) -> bool:
    return os.path.lexists(path)


def alive(token: str) -> list[str]:
    """The command lines of the processes that hold `token` in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if token in line and entry.name != str(os.getpid()):
            found.append(line)
    return found


def sleepers(token: str) -> str:
    """A script with children in its group, another session, another environment, and both."""
    sleep = f"exec -a {token} sleep 300"
    return (
        f"({sleep}) & (setsid bash -c '{sleep}' &) ; (setsid setsid bash -c '{sleep}' &) ;"
        f" (env -i bash -c '{sleep}' &) ; (env -i setsid bash -c '{sleep}' &) ; touch started; "
    )


@pytest.mark.parametrize("sandbox", BOTH)
async def test_a_command_gives_its_output_and_its_exit_code(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    result = await run(workspace, "echo out; echo err >&2; exit 3", sandbox=sandbox)

    assert (result.exit_code, result.output) == (3, "out\nerr\n")
    assert not result.truncated
    assert not result.timed_out


@pytest.mark.parametrize("sandbox", BOTH)
async def test_a_command_writes_in_the_workspace_and_runs_where_it_is_told(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    workspace.mkdir("a b")

    result = await run(workspace, "pwd; echo hi > f", cwd="a b", sandbox=sandbox)

    assert result.output == f"{workspace.root}/a b\n"
    assert workspace.read("a b/f") == b"hi\n"


@pytest.mark.parametrize("sandbox", BOTH)
async def test_the_environment_is_clean(
    workspace: Workspace, sandbox: Sandbox | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "CANARY")
    monkeypatch.setenv("BASH_ENV", "/nowhere")

    result = await run(workspace, "env -0 | cut -z -d= -f1 | tr '\\0' ' '", sandbox=sandbox)

    assert set(result.output.split()) <= {
        *("PATH", "HOME", "LANG", "TMPDIR", "TERM", "PAGER", "PWD", "SHLVL", "_", MARK),
        *("GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "OLDPWD"),
    }


@pytest.mark.parametrize("sandbox", BOTH)
async def test_the_home_is_private_and_gone_afterwards(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    result = await run(workspace, 'echo x > "$HOME/f" && echo "$HOME"', sandbox=sandbox)

    assert result.exit_code == 0
    assert not stands(result.output.strip())


@pytest.mark.parametrize("sandbox", BOTH)
async def test_the_time_limit_ends_every_process(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    token = f"sleeper-{secrets.token_hex(6)}"

    script = f"echo before; {sleepers(token)} sleep 300"
    result = await with_time_to_begin(
        lambda seconds: run(workspace, script, timeout=seconds, sandbox=sandbox),
        lambda result: result.output,
    )

    assert result.timed_out
    assert result.exit_code == 124
    assert result.output.startswith("before\n")
    assert alive(token) == []


@pytest.mark.parametrize("sandbox", BOTH)
async def test_cancelling_ends_every_process(workspace: Workspace, sandbox: Sandbox | None) -> None:
    token = f"sleeper-{secrets.token_hex(6)}"

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:

            async def command() -> None:
                await run(workspace, f"{sleepers(token)} sleep 300", sandbox=sandbox)

            group.start_soon(command)
            # A process tells nothing in here: it is looked for.
            while workspace.stat("started") is None or not alive(token):  # noqa: ASYNC110
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert alive(token) == []


@pytest.mark.parametrize("sandbox", BOTH)
async def test_what_a_command_leaves_in_the_background_ends_with_it(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    token = f"sleeper-{secrets.token_hex(6)}"

    result = await run(workspace, f"{sleepers(token)} echo done", sandbox=sandbox)

    assert result.output.endswith("done\n")
    assert alive(token) == []


@pytest.mark.parametrize("sandbox", BOTH)
async def test_long_output_keeps_its_head_and_its_tail(
    workspace: Workspace, sandbox: Sandbox | None
) -> None:
    result = await run(
        workspace, "echo first; seq 200000; echo last", output_cap=2_000, sandbox=sandbox
    )

    assert result.truncated
    assert result.output.startswith("first\n1\n2\n")
    assert result.output.endswith("200000\nlast\n")
    assert "bytes left out" in result.output
    assert len(result.output.encode()) < 2_100


async def test_endless_output_is_bounded(workspace: Workspace) -> None:
    result = await run(workspace, "yes", timeout=0.5, output_cap=1_000)

    assert result.timed_out
    assert len(result.output) < 1_100


async def test_a_signal_is_told_as_a_shell_tells_it(workspace: Workspace) -> None:
    result = await run(workspace, "kill -TERM $$", sandbox=None)

    assert result.exit_code == 128 + 15


async def test_where_there_is_no_bash_it_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(command, "find_program", lambda *words: asked.append(words))
    with pytest.raises(ToolFailed, match=r"^This machine has no bash; install bash$") as refused:
        await run(workspace, "true", sandbox=None, search_path="/bin")

    assert refused.value.kind == "io_error"
    assert asked == [("bash", "/bin"), ("bash",)]


async def test_a_command_that_no_system_takes_is_told(workspace: Workspace) -> None:
    with pytest.raises(
        ToolFailed, match=r"^The command cannot be started: embedded null byte$"
    ) as refused:
        await run(workspace, "echo \0", sandbox=None)

    assert refused.value.kind == "io_error"


async def test_the_leader_is_told_when_it_is_spawned(workspace: Workspace) -> None:
    leaders: list[int] = []

    await run(workspace, "true", on_spawn=leaders.append)

    assert len(leaders) == 1


@pytest.mark.parametrize("sandbox", BOTH)
async def test_there_is_no_input(workspace: Workspace, sandbox: Sandbox | None) -> None:
    assert (await run(workspace, "cat; echo end", sandbox=sandbox)).output == "end\n"


@pytest.mark.parametrize("sandbox", BOTH)
async def test_limits_are_set(workspace: Workspace, sandbox: Sandbox | None) -> None:
    result = await run(workspace, "ulimit -c; ulimit -n; ulimit -u", sandbox=sandbox)

    core, files, processes = result.output.split()
    assert (core, int(files) <= 4096, int(processes) <= 4096) == ("0", True, True)


async def test_a_folder_that_became_a_link_is_not_entered(
    workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.root / "w").symlink_to(tmp_path)

    with pytest.raises(ToolFailed) as failure:
        await run(workspace, "pwd", cwd="w")
    assert failure.value.kind == "symlink_escape"


class Swapped(Workspace):
    """A workspace in which a folder is swapped for a link as soon as it was opened."""

    def __init__(self, root: Path, target: Path) -> None:
        super().__init__(root)
        self.target = target

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        with super().folder(path) as opened:
            (self.root / path).rename(self.root / "moved")
            (self.root / path).symlink_to(self.target)
            yield opened


@pytest.mark.skipif(sys.platform != "linux", reason="a folder is entered by its name elsewhere")
async def test_a_folder_that_becomes_a_link_just_before_the_command_starts_is_not_followed(
    workspace: Workspace, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    for folder in (outside, workspace.root / "w"):
        folder.mkdir()
    (outside / "secret").write_text("CANARY")
    (workspace.root / "w/own").write_text("own")

    done = await run(Swapped(workspace.root, outside), "ls; touch made", cwd="w", sandbox=None)

    assert done.output == "own\n"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (workspace.root / "moved/made").exists()


@boxed_only
class TestBox:
    async def test_the_rest_of_the_system_is_read_only(self, workspace: Workspace) -> None:
        result = await run(workspace, "touch /etc/x /usr/x /var/x /x; echo $?")

        assert result.output.count("Read-only file system") == 4

    async def test_homes_and_hidden_folders_are_not_shown(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        state, inner = tmp_path / "state", workspace.root / "inner-state"
        for folder in (state, inner):
            folder.mkdir()
            (folder / "token").write_text("CANARY")
        key = tmp_path / "key.txt"
        key.write_text("CANARY")

        result = await run(
            workspace,
            f"ls -A ~root /home; cat {state}/token {inner}/token {key}",
            hidden=[state, inner, key],
        )

        assert "CANARY" not in result.output
        assert (inner / "token").read_text() == "CANARY"

    async def test_what_only_the_host_may_read_is_empty_in_the_box(
        self, workspace: Workspace
    ) -> None:
        there = [path for path in HOSTS_OWN if stands(path)]

        each = f"for each in {' '.join(there)}; do cat $each; ls -A $each/; done 2>/dev/null"
        read = await run(workspace, each)
        mounts = await run(workspace, "cut -d ' ' -f 5 /proc/self/mountinfo")

        assert read.output == ""
        assert {*map(os.path.realpath, there)} <= {*mounts.output.splitlines()}

    async def test_temporary_folders_are_the_commands_own(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        (tmp_path / "neighbour").write_text("CANARY")

        result = await run(
            workspace, f"echo x > /tmp/mine-alone; ls /tmp /var/tmp; cat {tmp_path}/*"
        )

        assert "mine-alone" in result.output
        assert not stands("/tmp/mine-alone")  # noqa: S108
        assert "CANARY" not in result.output

    async def test_there_is_no_network(self, workspace: Workspace) -> None:
        result = await run(workspace, "cat /proc/net/dev")

        assert [line.split(":")[0].strip() for line in result.output.splitlines()[2:]] == ["lo"]

    async def test_only_its_own_processes_are_seen(self, workspace: Workspace) -> None:
        result = await run(workspace, f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()}")

        assert int(result.output.split()[0]) < 10
        assert result.exit_code == 1

    async def test_protected_paths_are_read_only_at_any_depth(self, workspace: Workspace) -> None:
        for path in (".git/hooks", "sub/.git", ".vscode"):
            (workspace.root / path).mkdir(parents=True)
        (workspace.root / ".bashrc").write_text("kept")

        result = await run(
            workspace,
            "touch .git/hooks/x; touch sub/.git/x; rm -rf .vscode; echo y > .bashrc; touch sub/ok",
        )

        assert result.output.count("Read-only file system") == 3
        assert "Device or resource busy" in result.output
        assert (workspace.root / ".bashrc").read_text() == "kept"
        assert (workspace.root / "sub/ok").exists()
        assert not list(workspace.root.glob("**/x"))

    async def test_gonogos_own_code_is_read_only_where_it_lies_in_the_workspace(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = workspace.root / "tools/gonogo"
        package.mkdir(parents=True)
        monkeypatch.setattr(bubblewrap, "PACKAGE", package)

        result = await run(workspace, "touch tools/x; touch tools/gonogo/x; mv tools/gonogo other")

        assert "'tools/gonogo/x': Read-only file system" in result.output
        assert "Device or resource busy" in result.output
        assert [*package.iterdir()] == []

    async def test_a_setting_that_names_the_null_device_takes_it_from_nobody(
        self, workspace: Workspace
    ) -> None:
        done = await run(workspace, "echo x > /dev/null && echo ok", hidden=[Path(os.devnull)])

        assert done.output == "ok\n"

    async def test_the_interpreter_works_though_it_lies_in_a_hidden_home(
        self, workspace: Workspace
    ) -> None:
        script = "import json, sys, pydantic; print(json.dumps(sys.prefix))"

        result = await run(workspace, f'python -c "{script}"', search_path=PYTHON_PATH)

        assert json.loads(result.output) == sys.prefix

    async def test_no_right_can_be_gained(self, workspace: Workspace) -> None:
        result = await run(workspace, "grep -E 'NoNewPrivs|CapEff' /proc/self/status")

        assert dict(line.split() for line in result.output.splitlines()) == {
            "CapEff:": "0000000000000000",
            "NoNewPrivs:": "1",
        }

    async def test_a_workspace_inside_a_hidden_folder_is_still_there(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        workspace.write("f", b"here", base=None)

        assert (await run(workspace, "cat f", hidden=[tmp_path])).output == "here"


@pytest.mark.parametrize("path", HOSTS_OWN)
def test_what_only_a_host_of_some_kind_has_is_hidden_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda each: str(each) == path or exists(each))

    found = Sandbox("bwrap").wrap(["true"], Box(workspace=tmp_path, cwd=tmp_path))

    assert os.path.realpath(path) in found


def test_a_link_is_not_taken_for_a_protected_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").symlink_to("/etc")
    (tmp_path / "sub/.gonogo").mkdir(parents=True)

    assert guarded_paths(tmp_path).protected == [tmp_path / "sub/.gonogo"]


@boxed_only
async def test_a_read_only_box_shows_the_workspace_and_lets_nothing_change_it(
    workspace: Workspace,
) -> None:
    (workspace.root / "a.txt").write_text("as it was\n")

    done = await run(
        workspace, "cat a.txt; echo new > a.txt; touch b.txt; rm a.txt", read_only=True
    )

    assert done.output.startswith("as it was\n")
    assert done.exit_code != 0
    assert sorted(path.name for path in workspace.root.iterdir()) == ["a.txt"]
    assert (workspace.root / "a.txt").read_text() == "as it was\n"


@boxed_only
async def test_a_read_only_box_shows_nothing_of_a_repository_around_the_workspace(
    workspace: Workspace,
) -> None:
    script = "echo $GIT_CEILING_DIRECTORIES"
    above = f"{workspace.root.parent}\n"
    assert (await run(workspace, script, read_only=True)).output == above
    assert (await run(workspace, script)).output == "\n"


async def test_without_a_box_nothing_runs_that_is_to_write_nothing(workspace: Workspace) -> None:
    with pytest.raises(
        ToolFailed, match=r"^Without a sandbox, nothing stops a command from writing files$"
    ) as refused:
        await run(workspace, "touch made", sandbox=None, read_only=True)
    assert refused.value.kind == "io_error"
    assert not (workspace.root / "made").exists()


@boxed_only
async def test_a_secret_is_empty_by_its_other_names_too(workspace: Workspace) -> None:
    (workspace.root / "deep").mkdir()
    (workspace.root / "secrets").mkdir()
    for secret in (".env", "secrets/a"):
        (workspace.root / secret).write_text("5d1f0c\n")
    os.link(workspace.root / ".env", workspace.root / "deep/plain")
    os.link(workspace.root / "deep/plain", workspace.root / "shown")
    os.link(workspace.root / "secrets/a", workspace.root / "other")
    (workspace.root / "mine").write_text("mine\n")
    os.link(workspace.root / "mine", workspace.root / "mine too")
    script = "cat deep/plain shown other 'mine too' 2>/dev/null"

    done = await run(workspace, script, shown=lambda path: False)
    some = await run(workspace, script, shown=lambda path: path == "shown")

    assert done.output == "mine\n"
    assert some.output == "5d1f0c\nmine\n"
    assert (await run(workspace, script)).output == "5d1f0c\n" * 3 + "mine\n"
