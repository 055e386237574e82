"""The process that carries the work out goes on without the terminal that began it."""

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from cli.conftest import end_background, environment
from cli.test_owner import wait_for
from gonogo.cli import checks
from gonogo.cli.daemon import facts_of_this, minimal, other_keys
from gonogo.cli.folder import Folder
from gonogo.demo import lay_out, run_tests
from gonogo.settings import Settings

pytestmark = pytest.mark.feature(240)
ENDS = "plans stop when ann logs out; prevent it: loginctl enable-linger ann"
HERE = {"GONOGO_BACKGROUND": "true", "GONOGO_LINGER": "60"}


@pytest.fixture
def project(tmp_path):
    lay_out(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def ask(gonogo, home):
    """A command that may leave a process in the background; that is ended with the test."""

    def asked(*words, whole=False, **more):
        return gonogo(*words, env={**HERE, **more}, whole=whole)

    yield asked
    end_background(home)


def begun(terminal, project, *words, whole=False):
    """A plan that runs; where the command is `whole`, what it starts begins with a new Python."""
    run = ("run", "Mend it", "-C", str(project), "--model", "demo", *words)
    at = terminal(*run, env=HERE, whole=whole)
    at.expect("Subtask 1/5")
    return at


def plans(ask):
    return json.loads(ask("plans", "list", "--json").stdout)["plans"]


def told(ask):
    return json.loads(ask("status", "--json").stdout)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_plan_goes_on_when_the_window_of_its_terminal_is_closed(
    ask, terminal, project, home, number
):
    at = begun(terminal, project, "--yes", whole=True)
    process = told(ask)
    assert (process["kind"], process["plans"]) == ("background", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", process["since"])
    assert process["pid"] != at.process.pid
    at.process.send_signal(number)
    at.process.wait(60)
    wait_for(lambda: json.loads(ask("approvals", "list", "--json").stdout)["approvals"])
    assert told(ask)["pid"] == process["pid"]
    ended = ask("attach", "--yes=all")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert run_tests(project).passed


def test_the_next_command_takes_up_what_a_killed_process_left(ask, terminal, project, home):
    at = begun(terminal, project, "--yes")
    first = told(ask)["pid"]
    at.process.kill()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not Folder(home).is_owned())
    second = told(ask)
    assert second["running"]
    assert second["pid"] != first
    wait_for(lambda: json.loads(ask("approvals", "list", "--json").stdout)["approvals"])


def test_a_command_that_follows_starts_the_process_again_that_was_killed_under_it(
    ask, terminal, project
):
    at = begun(terminal, project, "--yes=all")
    os.kill(told(ask)["pid"], signal.SIGKILL)
    # What was cut off may have had its effect, so a person is asked about that.
    assert at.end() in {0, 1, 3, 4}
    assert "takes its place" not in at.output
    (plan,) = plans(ask)
    assert plan["status"] in {"completed", "running", "partial"}


@pytest.fixture
def beside(home, project, born, tmp_path):
    """`gonogo serve` on a free port; and what it prints, a line at a time."""
    with (tmp_path / "served").open("w+") as said:
        process = born.start(
            "gonogo", "serve", "-C", str(project), "--port", "0", "--model", "demo",
            stdout=said.fileno(), stderr=said.fileno(),
            env={**environment(home), **HERE}, cwd=tmp_path,
        )  # fmt: skip

        def line(text, number=1):
            def found():
                lines = Path(said.name).read_text().splitlines()
                return [each for each in lines if text in each][number - 1 :]

            return wait_for(found)[0]

        yield process, line
        process.kill()
        process.wait(60)


def known_by(url, home):
    token = {"Authorization": f"Bearer {Folder(home).read_token()}"}
    return httpx.get(f"{url}/api/v1/plans", headers=token, trust_env=False).json()["plans"]


def test_a_server_that_is_started_meanwhile_shows_the_work_and_leaves_it_where_it_is(
    ask, terminal, project, home, request
):
    begun(terminal, project, "--yes")
    pid = told(ask)["pid"]
    process, line = request.getfixturevalue("beside")
    url = line("Serving ").rpartition(" ")[2]
    assert line("Process ").startswith(f"Process {pid} does the work")
    assert url in line("Open the console")
    (plan,) = known_by(url, home)
    assert plan["goal"].startswith("Make the failing test pass")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    with pytest.raises(httpx.ConnectError):
        known_by(url, home)
    assert told(ask)["pid"] == pid
    wait_for(lambda: json.loads(ask("approvals", "list", "--json").stdout)["approvals"])


def test_such_a_server_takes_the_place_of_the_process_that_is_killed(
    ask, terminal, project, home, request
):
    begun(terminal, project, "--yes")
    first = told(ask)["pid"]
    process, line = request.getfixturevalue("beside")
    line("Open the console")
    os.kill(first, signal.SIGKILL)
    url = line("Serving ", 2).rpartition(" ")[2]
    assert line("Open the console", 2)
    assert told(ask)["pid"] == process.pid
    assert [plan["session_id"] for plan in known_by(url, home)]


def test_commands_that_come_at_once_start_one_process(ask, home, project):
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(
                lambda n: ask("run", f"Mend it {n}", "-C", str(project), "--model", "demo"),
                range(4),
            )
        )
    assert [each.returncode for each in done] == [3] * 4, [each.stderr for each in done]
    assert len({plan["session_id"] for plan in plans(ask)}) == 4
    assert told(ask)["questions"] == 4


def test_it_ends_when_nothing_is_left_to_do_and_nobody_is_there(ask, project, home):
    done = ask("run", "Mend it", "-C", str(project), "--model", "demo", GONOGO_LINGER="0")
    assert done.returncode == 3, done.stderr
    wait_for(lambda: not Folder(home).is_owned())
    assert not Folder(home).facts.exists()
    assert told(ask) == {"running": False}
    assert [plan["status"] for plan in plans(ask)] == ["awaiting_approval"]
    assert not Folder(home).is_owned()


def test_it_is_stopped_at_once_where_it_is_idle_and_asks_first_where_it_is_not(
    ask, terminal, project, home
):
    at = begun(terminal, project, "--yes")
    pid = told(ask)["pid"]
    refused = ask("stop")
    assert refused.returncode == 3
    assert f"Process {pid} is busy" in refused.stderr
    assert ask("stop", "--now").returncode == 0
    at.expect("The work was stopped")
    at.expect("to continue a session: gonogo attach")
    assert at.end() == 1
    assert not Folder(home).is_owned()
    again = ask("stop")
    assert again.returncode == 0
    assert "No gonogo process is running" in again.stdout


def test_a_run_is_done_in_its_own_process_where_that_is_asked_for(ask, project, home):
    done = ask("run", "Mend it", "-C", str(project), "--model", "demo", "--yes=all", "--foreground")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Folder(home).is_owned()


def test_an_idle_process_makes_room_for_a_command_that_does_all_itself(ask, project, home):
    ask("run", "Mend it", "-C", str(project), "--model", "demo")
    assert told(ask)["kind"] == "background"
    read = ask("tool", "run", "read_file", '{"path": "README.md"}', "-C", str(project))
    assert read.returncode == 0, read.stderr
    assert not Folder(home).is_owned()


def test_what_hinders_it_from_starting_is_said(ask, home):
    (home / "no-config").mkdir()
    (home / "no-config" / "rules.toml").write_text("broken")
    done = ask("run", "Mend it", "--model", "demo", whole=True)
    assert done.returncode == 1
    assert "rules.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_idle_process_with_other_keys_or_of_another_version_gives_its_place_up(
    ask, project, home
):
    ask("run", "Mend it", "-C", str(project), "--model", "demo")
    first = told(ask)["pid"]
    ask("run", "Mend it", "-C", str(project), "--model", "demo")
    assert told(ask)["pid"] == first
    ask("run", "Mend it", "-C", str(project), "--model", "demo", OPENAI_API_KEY="another")
    second = told(ask)["pid"]
    assert second != first
    facts = Folder(home).read_facts()
    assert "another" not in str(facts)
    written = Folder(home).facts.read_text().replace(facts.version, "0.0.1")
    Folder(home).facts.write_text(written)
    ask(
        "run", "Mend it", "-C", str(project), "--model", "demo", OPENAI_API_KEY="another"
    )  # fmt: skip
    assert told(ask)["pid"] != second


def test_a_command_that_records_elsewhere_than_the_process_is_another_one(monkeypatch):
    facts = facts_of_this("background")
    assert "GONOGO_RECORD" not in other_keys(facts)
    monkeypatch.setenv("GONOGO_RECORD", "tape.jsonl")
    assert "GONOGO_RECORD" in other_keys(facts)


@pytest.mark.parametrize(
    ("said", "lingers", "found"),
    [
        ("#KillUserProcesses=yes", False, None),
        ("KillUserProcesses=yes\nKillUserProcesses=no", False, None),
        ("KillUserProcesses = yes", True, None),
        (
            "KillUserProcesses = yes",
            False,
            ENDS,
        ),
    ],
)
def test_the_doctor_warns_where_a_logout_would_end_it(tmp_path, said, lingers, found):
    (tmp_path / "etc/systemd").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf").write_text(said)
    if lingers:
        (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
        (tmp_path / "var/lib/systemd/linger/ann").touch()
    check = checks._lingering("ann", tmp_path)
    assert (check and check.text) == found


def test_it_gets_the_variables_of_its_work_and_no_others(tmp_path):
    (tmp_path / "mcp.toml").write_text('env_from = ["DOCS_WORD"]')
    settings = Settings(home=tmp_path, config=tmp_path, mcp=tmp_path / "mcp.toml")
    given = {
        "PATH": "/bin", "GONOGO_LOCALE": "ru", "ANTHROPIC_API_KEY": "k", "DOCS_WORD": "w",
        "OPENAI_BASE_URL": "http://x", "GONOGO_UNATTENDED": "1", "GONOGO_WORKSPACE": "/w",
        "EDITOR": "vi", "SSH_AUTH_SOCK": "/s",
    }  # fmt: skip
    kept = minimal(given, settings)
    assert kept.pop("GONOGO_HOME") == str(tmp_path)
    assert set(kept) == {
        "PATH", "GONOGO_LOCALE", "ANTHROPIC_API_KEY", "DOCS_WORD", "OPENAI_BASE_URL",
    }  # fmt: skip
