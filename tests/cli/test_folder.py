"""The state folder: one owner at a time, reachable by the same user only."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gonogo.cli.folder import Folder

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


def test_the_token_is_readable_by_its_user_only(folder):
    assert folder.read_token() is None
    folder.write_token("secret")
    folder.write_token("newer")
    assert folder.read_token() == "newer"
    assert mode(folder.token_file) == 0o600


def test_a_token_file_that_waits_as_a_link_is_not_followed(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    folder.token_file.with_suffix(".new").symlink_to(elsewhere)
    folder.write_token("secret")
    assert elsewhere.read_text() == "kept"
    assert not folder.token_file.is_symlink()
