"""In the box of `git add` and `git commit` git writes, starts nothing, and obeys nothing else."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import Conditions, Rules, verdict
from gonogo.workspace import CommandOutput, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox import guards
from gonogo.workspace.sandbox.guards import guarded_paths, held, own_repository, plain_settings

BUBBLEWRAP = Sandbox.detect()
boxed = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
EVIL = "touch {root}/ran-{what}; cat"
NEAR = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", 'A "B" \\ C')
    git(root, "config", "user.email", "a@example.org")
    (root / "a.py").write_text("one\n")
    git(root, "add", "a.py")
    git(root, "commit", "-qm", "first")
    return root


def test_a_repository_is_a_workspaces_own_where_it_is_a_folder_and_nothing_leads_to_it(
    root: Path, tmp_path: Path
) -> None:
    none, leads, linked = folders = [tmp_path / name for name in ("none", "leads", "linked")]
    for folder in folders:
        folder.mkdir()
    (leads / ".git").write_text(f"gitdir: {root}/.git\n")
    (linked / ".git").symlink_to(root / ".git")

    assert own_repository(root) == root / ".git"
    assert [own_repository(folder) for folder in (none, leads, linked)] == [None] * 3


def git(folder: Path, *words: str, check: bool = True) -> str:
    """What git says to a person, who has no settings elsewhere."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env=NEAR, check=check, capture_output=True, text=True
    )
    return done.stdout.strip()


def arm(root: Path, repository: Path | None = None) -> None:
    """Let a repository's settings start something at every turn."""
    place = repository or root
    evil = {what: EVIL.format(root=root, what=what) for what in ("clean", "process", "monitor")}
    for name, value in {
        "filter.evil.clean": evil["clean"], "filter.evil.smudge": evil["clean"],
        "filter.evil.required": "true", "core.fsmonitor": evil["monitor"],
        "core.editor": f"touch {root}/ran-editor;", "core.pager": f"touch {root}/ran-pager;",
        "commit.gpgSign": "true", "gpg.program": f"{root}/sign.sh", "alias.add": "!touch alias",
        "core.hooksPath": f"{root}/hooks", "include.path": f"{root}/more", "gc.auto": "1",
        "trailer.x.command": f"touch {root}/ran-trailer", "commit.template": "/etc/passwd",
    }.items():  # fmt: skip
        git(place, "config", name, value)
    (root / "more").write_text('[filter "more"]\n\tclean = touch ran-more; cat\n')
    (root / ".gitattributes").write_text("*.py filter=evil\n*.txt filter=more\n")
    for folder in (root / "hooks", root / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("pre-commit", "commit-msg", "post-commit", "post-index-change"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {root}/ran-{name}\n")
            (folder / name).chmod(0o755)
    (root / "sign.sh").write_text(f"#!/bin/sh\ntouch {root}/ran-signer\n")
    (root / "sign.sh").chmod(0o755)


def ran(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("ran-*"))


async def run(root: Path, script: str, *, writes_git: bool = True) -> CommandOutput:
    with anyio.fail_after(120):
        return await run_command(
            Workspace(root), script, cwd=None, timeout=60, sandbox=BUBBLEWRAP,
            writes_git=writes_git,
        )  # fmt: skip


def form(root: Path, text: str, *, declared: bool) -> str:
    """What runs of a command, whether a plan declares it or a person approves it."""
    commands = ("git add", "git commit") if declared else ()
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=text), plan_id="p", revision=1, subtask_id="s",
    )  # fmt: skip
    grant = Grant(
        grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=Scope(commands=commands)
    )
    found = verdict(call, Rules(), Conditions(workspace=str(root)), grant)
    assert found.decision == ("allow" if declared else "ask")
    assert found.git_as is not None
    return found.git_as


@boxed
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "approved"])
async def test_a_commit_is_made_and_nothing_that_the_repository_names_is_run(root, declared):
    arm(root)
    (root / "b.py").write_text("two\n")
    (root / "c.txt").write_text("three\n")
    for text in ("git add -A", "git commit -m 'two words'"):
        result = await run(root, form(root, text, declared=declared))
        assert result.exit_code == 0, result.output

    assert ran(root) == []
    git(root, "config", "--unset", "core.fsmonitor")
    assert git(root, "log", "-1", "--format=%an %ae %s") == 'A "B" \\ C a@example.org two words'
    assert git(root, "show", "HEAD:b.py") == "two"
    assert git(root, "show", "HEAD:c.txt") == "three"


@boxed
async def test_the_settings_do_run_where_nothing_keeps_git_from_them(root):
    """So the traps of these tests are set."""
    arm(root)
    (root / "b.py").write_text("two\n")
    for words in (("add", "-A"), ("commit", "-qm", "x")):
        git(root, *words, check=False)
    assert {"ran-clean", "ran-monitor", "ran-signer", "ran-pre-commit"} <= {*ran(root)}


@boxed
async def test_what_git_obeys_cannot_be_written_in_that_box_and_the_rest_can(root):
    (root / ".git/modules").mkdir()
    before = {name: (root / ".git" / name).read_bytes() for name in ("config", "info/exclude")}
    places = "config hooks/pre-commit hooks/new info/exclude info/attributes modules/x"
    script = "; ".join(f"echo x >>.git/{place}" for place in places.split())
    moves = "; ".join(f"mv .git/{name} .git/{name}-" for name in ("config", "hooks", "info"))
    result = await run(root, f"{script}; {moves}; rm -rf .git/hooks; echo x >.git/free")

    assert (root / ".git/free").exists(), result.output
    assert not [each for each in places.split()[1:3] if (root / ".git" / each).exists()]
    assert not (root / ".git/info/attributes").exists()
    assert {name: (root / ".git" / name).read_bytes() for name in before} == before
    assert (root / ".git/hooks").is_dir()


@boxed
async def test_only_where_it_is_asked_for_the_repository_can_be_written(root):
    result = await run(root, "git add -A || touch .git/x", writes_git=False)
    assert result.exit_code != 0
    assert not (root / ".git/x").exists()


@boxed
async def test_a_link_to_a_repository_stays_as_it_is(root, tmp_path):
    other = tmp_path / "other"
    git(root, "worktree", "add", "-q", str(other))
    (other / "b.py").write_text("two\n")
    result = await run(other, form(other, "git add -A", declared=True))
    assert result.exit_code != 0
    assert git(other, "status", "--short") == "?? b.py"


@boxed
async def test_a_work_tree_that_lies_elsewhere_is_not_taken_in(root):
    git(root, "config", "core.worktree", "/etc")
    (root / "b.py").write_text("two\n")
    result = await run(root, form(root, "git add -A", declared=True))
    assert result.exit_code == 0, result.output
    git(root, "config", "--unset", "core.worktree")
    assert git(root, "diff", "--cached", "--name-only") == "b.py"


@boxed
async def test_secrets_are_not_taken_in_unless_a_person_says_so(root):
    for path in (".env", "sub/.ENV", "secrets/k", "x.pem", "sub/b.py"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("s\n")
    for text in ("git add -A", "git add sub", "git add ."):
        result = await run(root, form(root, text, declared=True))
        assert result.exit_code == 0, result.output
    assert git(root, "diff", "--cached", "--name-only").split() == ["sub/b.py"]

    await run(root, form(root, "git add .env", declared=False))
    assert ".env" in git(root, "diff", "--cached", "--name-only").split()


@boxed
async def test_a_secret_that_was_committed_is_not_taken_for_deleted(root):
    (root / "secrets").mkdir()
    (root / "secrets/k").write_text("s\n")
    git(root, "add", "secrets")
    git(root, "commit", "-qm", "a secret")
    (root / "a.py").write_text("two\n")
    result = await run(root, form(root, "git commit -a -m x", declared=True))
    assert result.exit_code == 0, result.output
    assert git(root, "show", "--name-status", "--format=", "HEAD") == "M\ta.py"


@boxed
async def test_a_repository_in_the_repository_starts_nothing_either(root):
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main")
    git(
        inner, "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "i"
    )
    git(root, "add", "inner")
    git(root, "commit", "-qm", "a link to it")
    (inner / "x.py").write_text("x\n")
    git(inner, "add", "x.py")
    arm(root, inner)
    (inner / ".gitattributes").write_text("*.py filter=evil\n")
    (inner / "x.py").write_text("y\n")
    (root / "a.py").write_text("two\n")
    for text in ("git add -A", "git commit -am x"):
        result = await run(root, form(root, text, declared=True))
        assert result.exit_code == 0, result.output
    assert ran(root) == []
    assert git(root, "show", "HEAD:a.py") == "two"


@boxed
async def test_settings_that_cannot_be_read_stop_it(root):
    (root / ".git/config").write_text("[core\n")
    with pytest.raises(
        ToolFailed,
        match=r"^git's settings cannot be read: fatal: bad config line 1 in file \S+/config$",
    ) as failure:
        await run(root, "git add -A")
    assert failure.value.kind == "io_error"
    (root / ".git/config").unlink()
    (root / ".git/config").symlink_to("/etc/hostname")
    with pytest.raises(ToolFailed, match=r"^git's settings 'config' are not a file$"):
        await run(root, "git add -A")


async def test_only_settings_that_start_nothing_are_shown(root):
    arm(root)
    git(root, "config", "core.autocrlf", "input")
    git(root, "config", "user.signingKey", "x")
    with (root / ".git/config").open("a") as settings:
        settings.write("[core]\n\tignoreCase\n[user]\n\tname = two\\nlines\n")
    own = root / ".git/config"
    shown = plain_settings(guarded_paths(root), NEAR["PATH"])
    assert list(shown) == [own]
    (root / "shown").write_bytes(shown[own])
    listed = git(root, "config", "--file", "shown", "--list").splitlines()
    assert {line.partition("=")[0] for line in listed} <= {
        "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates",
        "core.autocrlf", "core.ignorecase", "user.name", "user.email", "lines",
    }  # fmt: skip
    assert git(root, "config", "--file", "shown", "user.name") == "two\nlines"
    assert git(root, "config", "--file", "shown", "--type=bool", "core.ignorecase") == "true"
    assert git(root, "config", "--file", "shown", "core.autocrlf") == "input"


async def test_submodules_and_other_work_trees_are_shown_so_too(root, monkeypatch):
    for path in ("modules/a/config", "modules/a/b/config", "worktrees/w/config.worktree"):
        place = root / ".git" / path
        place.parent.mkdir(parents=True)
        place.write_text("[core]\n\tpager = evil\n\tbare = false\n")
    shown = plain_settings(guarded_paths(root), NEAR["PATH"])
    assert {path.relative_to(root / ".git").as_posix() for path in shown} == {
        "config", "modules/a/config", "modules/a/b/config", "worktrees/w/config.worktree",
    }  # fmt: skip
    assert not any(b"evil" in content for content in shown.values())
    monkeypatch.setattr("gonogo.workspace.sandbox.guards._MOST", 3)
    with pytest.raises(
        ToolFailed, match=r"^This folder has more than 3 repositories; open a smaller folder$"
    ):
        plain_settings(guarded_paths(root), NEAR["PATH"])


async def test_without_git_it_says_so(root):
    with pytest.raises(ToolFailed, match=r"^This machine has no git; install git$"):
        plain_settings(guarded_paths(root), "/nowhere")


async def test_contents_are_held_as_long_as_they_are_read(root):
    with held({root / "a": b"one", root / "b": b""}) as found:
        assert {path.name: os.read(fd, 10) for fd, path in found.items()} == {"a": b"one", "b": b""}
    for fd in found:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)


@pytest.mark.parametrize(
    "key",
    [
        *("core.repositoryformatversion", "core.bare", "core.protectntfs"),
        *("core.eol", "core.trustctime", "core.checkstat", "core.sharedrepository"),
        *("core.checkroundtripencoding", "extensions.objectformat", "extensions.worktreeconfig"),
        *("extensions.noop-v1", "user.name", "user.email", "user.useconfigonly", "author.name"),
        *("author.email", "committer.name", "committer.email", "commit.cleanup", "commit.status"),
        *("i18n.commitencoding", "i18n.logoutputencoding", "index.version", "index.threads"),
    ],
)
def test_settings_that_start_nothing_stay(key):
    assert guards._is_harmless(key)


@pytest.mark.parametrize(
    "key",
    ["core.fsmonitor", "core.pager", "core.worktree", "core.a.bare", "user.signingkey",
     "commit.gpgsign", "core",
     "bare", "author.bare", "filter.x.clean", "include.path", ""],
)  # fmt: skip
def test_all_other_settings_go(key):
    assert not guards._is_harmless(key)


def test_what_git_obeys_in_a_repository_is_known(tmp_path):
    names = ("config", "config.worktree", "hooks", "info", "modules", "worktrees", "branches",
             "remotes", "commondir", "gitdir", "objects/info")  # fmt: skip
    for name in (*names, "HEAD", "refs", "objects/pack", "logs"):
        (tmp_path / name).mkdir(parents=True)

    assert [str(path.relative_to(tmp_path)) for path in guards.obeyed(tmp_path)] == [*names]
    (tmp_path / "hooks").rmdir()
    (tmp_path / "hooks").symlink_to("nowhere")
    assert tmp_path / "hooks" in guards.obeyed(tmp_path)


def test_settings_are_written_so_that_git_reads_them_back(tmp_path):
    settings = {"user.name": 'A "B" \\ C\nD', "core.bare": None, "user.email": ""}
    file = tmp_path / "config"
    file.write_bytes(guards._written(settings))

    assert file.read_bytes() == (
        b'[user]\n\tname = "A \\"B\\" \\\\ C\\nD"\n[core]\n\tbare\n[user]\n\temail = ""\n'
    )
    assert guards._read("git", file) == settings


async def test_as_many_repositories_as_may_be_are_read(root, monkeypatch):
    monkeypatch.setattr(guards, "_MOST", 1)
    assert list(plain_settings(guarded_paths(root), NEAR["PATH"])) == [root / ".git/config"]


async def test_a_repository_without_a_name_gets_that_of_the_person(root, monkeypatch):
    home = root.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n\tsigningKey = x\n[core]\n\tbare\n"
    )
    monkeypatch.setattr(guards.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(home)))
    git(root, "config", "--unset", "user.name")

    [shown] = plain_settings(guarded_paths(root), NEAR["PATH"]).values()
    file = root / "shown"
    file.write_bytes(shown)
    found = guards._read("git", file)
    assert (found["user.name"], found["user.email"]) == ("Ann", "a@example.org")
    assert "user.signingkey" not in found
    assert found["core.bare"] == "false"
