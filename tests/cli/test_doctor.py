"""What the doctor finds, one thing after the other, and what it says to do about it."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fakes.disk import small_disk
from gonogo.cli import checks
from gonogo.cli.checks import Check
from gonogo.cli.folder import Folder
from gonogo.settings import Settings
from gonogo.store import Store
from gonogo.store import events as log


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, name: str = "bwrap") -> str:
    """A program that is found first."""
    file = folder / "bin" / name
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    monkeypatch.setattr(
        "gonogo.workspace.find_program", lambda name: shutil.which(name, path=str(file.parent))
    )
    return str(file)


def test_a_program_is_found_or_what_is_missed_without_it_is_said(tmp_path, monkeypatch):
    found = program(tmp_path, "", monkeypatch, name="git")
    assert checks._program("git", "install it") == Check("git", "ok", found)
    assert checks._program("rg", "install it") == Check("rg", "warn", "install it")


WITHOUT = "commands that run the repository's code need an approval each time"


def test_bubblewrap_is_tried_with_namespaces_of_its_own(tmp_path, monkeypatch):
    expected = "--ro-bind / / --unshare-all true"
    found = program(tmp_path, f'[ "$*" = "{expected}" ]', monkeypatch)
    assert checks._bubblewrap() == Check("bubblewrap", "ok", found)


def test_bubblewrap_that_fails_or_is_not_there_is_said_with_what_that_means(tmp_path, monkeypatch):
    found = program(tmp_path, "echo ' not here ' >&2; exit 1", monkeypatch)
    assert checks._bubblewrap() == Check(
        "bubblewrap", "warn", f"does not work here: {WITHOUT}: not here"
    )
    Path(found).unlink()
    assert checks._bubblewrap() == Check(
        "bubblewrap", "warn", f"not found: {WITHOUT}; install bubblewrap"
    )


def test_where_no_server_and_no_worker_runs_it_is_said_how_to_start_one_and_nothing_of_both():
    assert list(checks.cluster_findings([], [])) == [
        Check("servers", "bad", "none is running; start one with gonogo serve --no-work"),
        Check("workers", "bad", "none is running; start one with gonogo worker"),
        Check("workspaces", "ok", "0 known"),
    ]


def test_the_python_is_named_with_its_place():
    version = ".".join(map(str, sys.version_info[:3]))
    where = Check("python", "ok", f"{version} at {sys.executable}")
    assert checks._python(Path("/nowhere")) == where


def test_a_gonogo_that_commands_could_change_is_said():
    found = checks._python(Path(sys.prefix).parent)
    assert found.state == "warn"
    assert found.text.startswith(f"gonogo runs from {sys.prefix}, inside the workspace: ")


@pytest.mark.parametrize(
    ("mode", "state", "said"),
    [
        (0o700, "ok", "{home}"),
        (0o710, "bad", "other users can enter {home}; fix it: chmod 700 {home}"),
        (0o701, "bad", "other users can enter {home}; fix it: chmod 700 {home}"),
    ],
)
def test_a_state_folder_is_for_its_user_only(tmp_path, mode, state, said):
    home = tmp_path / "home"
    assert checks._state_folder(home) == Check(
        "state folder", "ok", f"{home} will be created when it is needed"
    )
    home.mkdir()
    home.chmod(mode)
    assert checks._state_folder(home) == Check("state folder", state, said.format(home=home))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away, or be another")
def test_a_state_folder_of_somebody_else_or_that_cannot_be_written_is_said(tmp_path):
    home = tmp_path / "home"
    home.mkdir(0o700)
    os.chown(home, 12345, -1)
    assert checks._state_folder(home) == Check(
        "state folder", "bad", f"{home} belongs to another user; set GONOGO_HOME"
    )


def test_who_owns_the_state_folder_is_said(tmp_path):
    nobody = Check("owner", "ok", "no gonogo process uses this folder now")
    assert checks._owner(tmp_path) == nobody
    with Folder(tmp_path).owned():
        assert checks._owner(tmp_path) == Check("owner", "ok", f"process {os.getpid()}")
    assert checks._owner(tmp_path) == nobody


def test_of_a_state_folder_on_a_read_only_disk_it_is_said_what_to_do(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        for name in ("owner.lock", "gonogo.db"):
            (disk.folder / name).touch()
        disk.folder.chmod(0o700)
        disk.fill()
        full = Check("state folder", "bad", f"the disk of {disk.folder} is full; free some space")
        assert checks._state_folder(disk.folder) == full
        disk.free()
        disk.allow_writing(False)
        said = f"the disk of {disk.folder} is read-only; make it writable"
        assert checks._state_folder(disk.folder) == Check("state folder", "bad", said)
        nobody = Check("owner", "ok", "no gonogo process uses this folder now")
        assert checks._owner(disk.folder) == nobody
        assert checks._database(Settings(home=disk.folder)) == Check("database", "bad", said)


BAD = "file is not a database; look closer with gonogo db check"


def test_the_database_of_the_state_folder_is_opened(tmp_path):
    home = tmp_path / "a home?mode=ro#1%41"
    settings, file = Settings(home=home), home / "gonogo.db"
    needed = Check("database", "ok", f"it will be created in {home} when it is needed")
    assert checks._database(settings) == needed
    home.mkdir()
    assert checks._database(settings) == needed
    file.touch()
    assert checks._database(settings) == Check("database", "ok", str(file))
    file.write_text("not a database, whatever its name says")
    assert checks._database(settings) == Check("database", "bad", f"{file}: {BAD}")
    file.unlink()
    file.symlink_to(home / "none")
    found = checks._database(settings)
    assert (found.state, "unable to open database file" in found.text) == ("bad", True)


def test_a_database_that_every_start_refuses_is_bad(tmp_path):
    settings, file = Settings(home=tmp_path), tmp_path / "gonogo.db"
    Store(f"sqlite:///{file}").close()
    assert checks._database(settings) == Check("database", "ok", str(file))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    found = checks._database(settings)
    assert (found.state, "upgrade gonogo to use it" in found.text) == ("bad", True)


async def test_a_database_that_was_lost_or_replaced_by_an_older_copy_is_bad(tmp_path):
    settings, file = Settings(home=tmp_path), tmp_path / "gonogo.db"
    Store(f"sqlite:///{file}").close()
    copy = file.read_bytes()
    store = Store(f"sqlite:///{file}")
    await store.write(log.start_system_chain)
    await store.write(log.note, log.SYSTEM, actor="ann", action="did", subject="x")
    store.close()
    for replace in (lambda: file.write_bytes(copy), file.unlink):
        replace()
        found = checks._database(settings)
        assert (found.state, "is older than gonogo's last record" in found.text) == ("bad", True)


@pytest.mark.parametrize("address", ["sqlite:work.db", "mysql://host/work", "work.db"])
def test_an_address_of_no_database_is_refused_as_a_start_refuses_it(tmp_path, address):
    found = checks._database(Settings(home=tmp_path, db=address))
    assert found.state == "bad"
    assert found.text.startswith("GONOGO_DB must be sqlite:///PATH or postgresql://")


def test_the_database_that_was_named_is_opened_instead(tmp_path):
    home, file = tmp_path / "home", tmp_path / "own" / "work.sqlite"
    home.mkdir()
    (home / "gonogo.db").write_text("not a database, and not the one that is used")
    settings = Settings(home=home, db=f"sqlite:///{file}")
    needed = f"it will be created in {file.parent} when it is needed"
    assert checks._database(settings) == Check("database", "ok", needed)
    file.parent.mkdir()
    file.touch()
    assert checks._database(settings) == Check("database", "ok", str(file))
    file.write_text("not a database, whatever its name says")
    assert checks._database(settings) == Check("database", "bad", f"{file}: {BAD}")


def test_the_model_that_is_used_is_named_or_how_to_choose_one(tmp_path):
    settings = Settings(home=tmp_path, config=tmp_path)
    none = "none; set GONOGO_MODEL=provider:name and its key, or try gonogo demo"

    def model(settings, **environment):
        return list(checks._models(settings, environment))

    assert model(settings) == [Check("model", "warn", none)]
    assert model(settings.model_copy(update={"model": "demo"})) == [Check("model", "ok", "demo")]
    [found] = model(settings, OPENAI_API_KEY="k")
    assert (found.state, found.text.partition(":")[0]) == ("ok", "openai")
    for name, said in (("bogus", "There is no model"), ("openai:x", "openai:x needs OPENAI_API")):
        [found] = model(settings.model_copy(update={"model": name}))
        assert (found.state, str(found.text).startswith(said)) == ("bad", True)


def test_files_of_rules_and_hooks_are_read_as_a_start_reads_them(tmp_path):
    settings = Settings(home=tmp_path, config=tmp_path)

    def told(**environment):
        return [(each.name, each.state, each.text) for each in checks._files(settings, environment)]

    assert told() == []
    (tmp_path / "rules.toml").write_text('[[rule]]\ncommand = "ls"\ndecision = "allow"\n')
    hook = '[[hook]]\nname = "chat"\nurl = "http://127.0.0.1/"\nsecret_env = "CHAT"\n'
    (tmp_path / "hooks.toml").write_text(hook)
    rules, hooks = tmp_path / "rules.toml", tmp_path / "hooks.toml"
    unset = f"{hooks}:1: hook 1: secret_env: CHAT: it is not set"
    assert told() == [("rules", "ok", str(rules)), ("hooks", "bad", unset)]
    rules.write_text("[[rule]]\n")
    [broken, whole] = told(CHAT="whsec_" + "A" * 44)
    assert (broken[:2], whole) == (("rules", "bad"), ("hooks", "ok", str(hooks)))


def test_a_finding_is_json_by_its_parts():
    found = Check("a", "warn", "b").as_json()
    assert found == {"name": "a", "state": "warn", "text": "b"}


ENDS = Check(
    "logout", "warn", "plans stop when ann logs out; prevent it: loginctl enable-linger ann"
)


def test_what_a_part_of_the_configuration_says_last_counts(tmp_path):
    folder = tmp_path / "etc/systemd/logind.conf.d"
    folder.mkdir(parents=True)
    assert checks._lingering("ann", tmp_path) is None
    (tmp_path / "etc/systemd/logind.conf").write_text("[Login]\n  KillUserProcesses=no")
    (folder / "other.txt").write_text("KillUserProcesses=no")
    (folder / "b.conf").write_text("KillUserProcesses=yes")
    assert checks._lingering("ann", tmp_path) == ENDS
    (folder / "a.conf").write_text("KillUserProcesses=no")
    assert checks._lingering("ann", tmp_path) == ENDS
    (folder / "c.conf").write_bytes(b"\xff\nKillUserProcesses=no")
    assert checks._lingering("ann", tmp_path) is None
