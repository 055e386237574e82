"""What a shell is given to complete with is harmless, and there is nothing where nobody answers."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from gonogo.cli import support


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GONOGO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_only_ids_that_mean_nothing_to_a_shell_are_offered(monkeypatch):
    async def found(_):
        return ["s_1", "s_2", "t_1", "s_$(reboot)", "s_`id`", "s_\n", "s_'x", "-s", ""]

    monkeypatch.setattr(support, "_found", found)

    assert support.session_ids("s_") == ["s_1", "s_2"]


def test_without_an_owner_there_is_nothing_and_no_folder_is_made(home):
    assert support.plan_ids("") == []
    assert not home.exists()


def test_an_owner_that_does_not_answer_is_nothing_to_complete_with(home):
    home.mkdir()
    (home / "owner.sock").touch()

    assert support.approval_ids("") == []


class Owner:
    """Who owns the folder, and is asked for no more than a hundred, and for what is open."""

    async def plans(self, *, limit):
        return SimpleNamespace(plans=[SimpleNamespace(plan_id=f"p{n}") for n in range(limit)])

    async def sessions(self, *, limit):
        return SimpleNamespace(sessions=[SimpleNamespace(session_id=f"s{n}") for n in range(limit)])

    async def approvals(self, *, status):
        found = [SimpleNamespace(approval_id=f"{status}-{n}") for n in range(101)]
        return SimpleNamespace(approvals=found)


@pytest.mark.parametrize("is_there", [True, False])
def test_ids_are_those_that_the_owner_knows_and_a_hundred_at_most(monkeypatch, home, is_there):
    seen = []

    @asynccontextmanager
    async def glance(folder, settings, *, alone):
        seen.append((folder.home, settings.home, alone))
        yield Owner() if is_there else None

    monkeypatch.setattr("gonogo.cli.daemon.glance", glance)
    home.mkdir()
    (home / "owner.sock").touch()
    found = [support.plan_ids(""), support.session_ids("s9"), support.approval_ids("")]

    assert found == [
        [f"p{number}" for number in range(100)],
        ["s9", *(f"s9{number}" for number in range(10))],
        [f"pending-{number}" for number in range(100)],
    ] if is_there else [[], [], []]  # fmt: skip
    assert seen == [(home, home, False)] * 3
