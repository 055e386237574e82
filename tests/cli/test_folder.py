"""The state folder: one owner at a time, reachable by the same user only."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.cli.daemon import _opening, facts_of_this, leaves
from gonogo.cli.folder import Folder, hold, program, read_settings
from gonogo.cli.support import Stop, own_locale
from gonogo.settings import Settings

HOLD = """
import sys, pathlib
from gonogo.cli.folder import Folder
with Folder(pathlib.Path(sys.argv[1])).owned() as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "home")
    folder.prepare()
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_is_created_for_its_user_only(folder):
    assert mode(folder.home) == 0o700


def test_a_folder_that_others_may_enter_is_closed_to_them(folder):
    folder.home.chmod(0o755)
    folder.prepare()
    assert mode(folder.home) == 0o700


def test_a_folder_with_a_long_name_has_a_short_address(tmp_path):
    folder = Folder(tmp_path / ("x" * 120))
    folder.prepare()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.address))
    assert folder.socket.is_socket()


def test_only_one_holds_the_folder_at_a_time(folder):
    with folder.owned() as first:
        with folder.owned() as second:
            assert (first, second) == (True, False)
        assert folder.owner() == str(os.getpid())
    with folder.owned() as again:
        assert again


def test_a_killed_owner_holds_nothing(folder):
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "True\n"
        with folder.owned() as ours:
            assert not ours
        owner.send_signal(signal.SIGKILL)
        owner.wait(timeout=60)
    with folder.owned() as ours:
        assert ours


def test_a_disk_that_knows_no_locks_is_told_with_what_to_do(folder, monkeypatch):
    def refusing(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refusing)
    told = "^The state folder cannot be locked: No locks available; set GONOGO_HOME to "
    for lock in (folder.owned(), folder.visited(), folder.closed()):
        with pytest.raises(Stop, match=told), lock:
            pass


async def test_what_a_killed_owner_has_said_is_not_taken_for_its_successors(folder, monkeypatch):
    signals = []
    monkeypatch.setattr(os, "kill", lambda *given: signals.append(given))
    killed = replace(facts_of_this("background"), pid=os.getpid() + 1)
    folder.write_facts(killed)
    assert folder.holder() is None
    assert await leaves(folder)
    with folder.owned():
        assert folder.holder() is None
        assert not await leaves(folder)
        folder.write_facts(facts_of_this("command"))
        assert folder.holder().pid == os.getpid()
        assert not await leaves(folder)
    assert signals == []
    assert folder.holder() is None


def test_the_token_is_readable_by_its_user_only(folder):
    assert folder.read_token() is None
    folder.write_token("secret")
    folder.write_token("newer")
    assert folder.read_token() == "newer"
    assert mode(folder.token_file) == 0o600


@pytest.mark.parametrize("torn", [b"", b"\n", b"\xcb\xff", b"to\0ken", b"to\nken", b"\0" * 48])
def test_a_token_file_that_was_torn_has_none(folder, torn):
    folder.token_file.write_bytes(torn)
    assert folder.read_token() is None
    folder.write_token("secret")
    assert folder.read_token() == "secret"


def test_a_token_file_that_waits_as_a_link_is_not_followed(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    folder.token_file.with_suffix(".new").symlink_to(elsewhere)
    folder.write_token("secret")
    assert elsewhere.read_text() == "kept"
    assert not folder.token_file.is_symlink()


def test_each_thing_in_the_folder_has_its_name(folder):
    assert {
        name: getattr(folder, name).relative_to(folder.home).as_posix()
        for name in ("lock", "guests", "socket", "token_file", "log", "facts")
    } == {
        "lock": "owner.lock", "guests": "guests.lock", "socket": "owner.sock",
        "token_file": "owner.token", "log": "gonogo.log", "facts": "owner.json",
    }  # fmt: skip


def test_an_address_is_the_sockets_own_up_to_a_hundred_bytes(tmp_path):
    room = 100 - len(f"{tmp_path}//owner.sock")
    fits = Folder(tmp_path / ("x" * room))
    long = Folder(tmp_path / ("x" * (room + 1)))
    long.prepare()
    assert fits.address == fits.socket
    assert long.address != long.socket
    assert long.address.name == "owner.sock"
    assert long.address.parent.samefile(long.home)


def test_a_lock_tells_who_owns_it_and_its_files_are_for_this_user_only(folder):
    assert not folder.is_owned()
    folder.lock.write_text("123456789 and more\n")
    assert folder.owner() == "123456789"
    with folder.owned() as ours:
        assert ours
        assert folder.is_owned()
        assert folder.lock.read_text() == f"{os.getpid()}\n"
    assert not folder.is_owned()
    folder.lock.write_bytes(b"\xff\xfe")
    assert folder.owner() == "\ufffd\ufffd"
    folder.lock.write_text("")
    assert folder.owner() == "unknown"
    folder.lock.unlink()
    with folder.visited(), folder.owned():
        assert (mode(folder.lock), mode(folder.guests)) == (0o600, 0o600)


def test_guests_come_in_together_and_keep_the_owner_from_closing(folder):
    with folder.visited() as one, folder.visited() as two:
        assert (one, two) == (True, True)
        with folder.closed() as closed:
            assert not closed
    with folder.closed() as closed:
        assert closed
        with folder.visited() as late:
            assert not late


def test_a_lock_is_kept_for_as_long_as_it_is_held(folder):
    with ExitStack() as held:
        assert hold(held, folder.owned())
        assert not hold(held, folder.owned())
        assert folder.is_owned()
    assert not folder.is_owned()


def test_what_is_left_for_clients_is_read_back_and_nothing_else(folder):
    assert folder.read_facts() is None
    facts = facts_of_this("server")
    folder.write_facts(facts)
    assert folder.read_facts() == facts
    assert mode(folder.facts) == 0o600
    folder.facts.write_text("{}")
    assert folder.read_facts() is None
    folder.write_token("secret\u0436")
    assert folder.token_file.read_text("utf-8") == "secret\u0436\n"
    folder.token_file.write_text(" \n")
    assert folder.read_token() is None
    assert sorted(path.name for path in folder.home.iterdir()) == ["owner.json", "owner.token"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_refused(folder):
    os.chown(folder.home, 12345, -1)
    with pytest.raises(Stop) as caught:
        folder.prepare()
    assert str(caught.value) == (
        f"{folder.home} belongs to another user; set GONOGO_HOME to a folder of yours"
    )


def test_the_program_is_called_as_it_was_started(tmp_path, monkeypatch):
    found = tmp_path / "gonogo"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "gonogo"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["x/__main__.py", "run"])
    assert program() == f"{sys.executable} -m gonogo"
    monkeypatch.setattr(sys, "argv", ["x/gonogo", "run"])
    assert program() == f"{tmp_path}/x/gonogo"


def test_what_the_command_line_says_comes_before_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("GONOGO_MODEL", "openai:a")
    monkeypatch.setenv("GONOGO_LOCALE", "ru")
    monkeypatch.setenv("GONOGO_CONFIG", str(tmp_path))
    assert read_settings({"model": None}).model == "openai:a"
    assert read_settings().models_file == tmp_path / "models.toml"
    named = read_settings({"model": "openai:b", "host": "::1"})
    assert (named.model, named.host, str(named.models_file)) == ("openai:b", "::1", os.devnull)
    assert own_locale() == "ru"


def test_a_session_is_opened_with_what_the_command_says(tmp_path, monkeypatch):
    for name in ("GONOGO_LOCALE", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    settings = Settings(home=tmp_path, config=tmp_path, workspace=tmp_path, model="demo")
    assert _opening(settings) == {"workspace": str(tmp_path), "model": "demo"}
    monkeypatch.setenv("GONOGO_LOCALE", "ru")
    more = settings.model_copy(update={"unattended": True})
    assert _opening(more) == {
        "workspace": str(tmp_path), "model": "demo", "locale": "ru", "unattended": True,
    }  # fmt: skip
    (tmp_path / "models.toml").touch()
    assert _opening(settings) == {"workspace": str(tmp_path), "locale": "ru"}


LOG = """
import logging, os, pathlib, sys
from gonogo.cli.daemon import _close_streams, _log_to
from gonogo.cli.folder import Folder
folder = Folder(pathlib.Path(sys.argv[1]))
_log_to(folder)
os.truncate(folder.log, 10 << 20)
_log_to(folder)
print(folder.log.stat().st_size)
os.truncate(folder.log, (10 << 20) + 1)
_log_to(folder)
logging.getLogger("gonogo.x").warning("something")
logging.getLogger("gonogo.x").info("nothing")
_close_streams(folder)
print("written", flush=True)
print("complained", file=sys.stderr, flush=True)
"""


def test_what_goes_wrong_inside_is_for_the_log_and_a_long_one_is_put_away(folder):
    done = subprocess.run(
        [sys.executable, "-c", LOG, str(folder.home)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60,
    )  # fmt: skip
    log = folder.log.read_text()

    assert (done.stdout, done.stderr) == (f"{10 << 20}\n", "")
    assert ("something" in log, "nothing" in log, mode(folder.log)) == (True, False, 0o600)
    assert log.splitlines()[-2:] == ["written", "complained"]
    assert (folder.home / "gonogo.log.1").stat().st_size == (10 << 20) + 1
