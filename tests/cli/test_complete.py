"""What a shell is given to complete with is harmless, and there is nothing where nobody answers."""

import pytest

from gonogo.cli import arguments


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GONOGO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_only_ids_that_mean_nothing_to_a_shell_are_offered(monkeypatch):
    async def found(_):
        return ["s_1", "s_2", "t_1", "s_$(reboot)", "s_`id`", "s_\n", "s_'x", "-s", ""]

    monkeypatch.setattr(arguments, "_found", found)

    assert arguments.session_ids("s_") == ["s_1", "s_2"]


def test_without_an_owner_there_is_nothing_and_no_folder_is_made(home):
    assert arguments.plan_ids("") == []
    assert not home.exists()


def test_an_owner_that_does_not_answer_is_nothing_to_complete_with(home):
    home.mkdir()
    (home / "owner.sock").touch()

    assert arguments.approval_ids("") == []
