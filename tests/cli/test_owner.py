"""One process owns the state folder; every other command is its client, or takes its place."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from cli.conftest import SECONDS, Start, environment
from fakes.nursery import Nursery, Process
from gonogo import __version__
from gonogo.cli.daemon import facts_of_this
from gonogo.cli.doors import Address, _say_how, _tell_of_models
from gonogo.cli.folder import Folder
from gonogo.demo import lay_out, run_tests
from gonogo.i18n import say
from gonogo.settings import Settings

Serve = Callable[..., "Server"]


class Server:
    """A `gonogo serve` and the address that it printed."""

    def __init__(self, start: Start) -> None:
        read, write = os.pipe()
        self.output = os.fdopen(read)
        self.process = start(write)
        os.close(write)
        self.printed = ""
        while not (found := re.search(r"http://[\d.]+:\d+", self.printed)):
            line = self.output.readline()
            assert line, self.printed
            self.printed += line
        self.url = found[0]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=SECONDS)


@pytest.fixture
def serve(home: Path, tmp_path: Path, born: Nursery) -> Iterator[Serve]:
    opened: list[Server] = []
    where = {"env": environment(home), "cwd": tmp_path, "stdin": subprocess.DEVNULL}

    def start(*words: str, whole: bool = False) -> Server:
        command = ["gonogo", "serve", "--port", "0", *words]

        def begin(end: int) -> Process | subprocess.Popen[bytes]:
            if whole:
                return subprocess.Popen(
                    [sys.executable, "-m", *command], stdout=end, stderr=end, **where
                )
            return born.start(*command, stdout=end, stderr=end, **where)

        server = Server(begin)
        opened.append(server)
        return server

    yield start
    for server in opened:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(timeout=60)
        server.output.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    lay_out(tmp_path / "project")
    return tmp_path / "project"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_commands_are_clients_of_a_server_that_lives(serve, gonogo, project):
    serve("--workspace", str(project), "--model", "demo")
    done = gonogo("run", "Mend it", "-C", str(project), "--yes=all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_tests(project).passed
    assert json.loads(gonogo("sessions", "list", "--json").stdout)["total"] == 1


def test_a_decision_given_to_a_living_server_is_carried_on_there(serve, gonogo, project):
    serve("--workspace", str(project), "--model", "demo")
    assert gonogo("run", "Mend it", "-C", str(project)).returncode == 3
    (waiting,) = json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"]
    decided = gonogo("approvals", "decide", waiting["approval_id"], "approve")
    assert decided.returncode == 0, decided.stderr
    assert "approved" in decided.stdout


def test_a_plan_is_watched_and_an_interrupt_leaves_it_alone(serve, gonogo, project, terminal):
    serve("--workspace", str(project), "--model", "demo")
    assert gonogo("run", "Mend it", "-C", str(project)).returncode == 3
    (plan,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    at = terminal("plans", "show", plan["plan_id"], "--watch")
    at.expect("reproduce* [not started]")
    (waiting,) = json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"]
    gonogo("approvals", "decide", waiting["approval_id"], "approve")
    at.expect("reproduce* [done")
    at.interrupt()
    assert at.end() == 130
    assert "Traceback" not in at.output
    (after,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    assert after["status"] != "cancelled"


def test_a_run_brings_its_own_model_to_the_server_of_another(serve, gonogo, project):
    serve("--workspace", str(project), "--model", "openai:other")
    done = gonogo("run", "Mend it", "-C", str(project), "--model", "demo")
    assert done.returncode == 3, done.stderr
    (session,) = json.loads(gonogo("sessions", "list", "--json").stdout)["sessions"]
    assert (session["model"], session["unattended"]) == ("demo", False)


def test_a_workspace_outside_the_servers_roots_is_only_for_the_user_of_this_machine(
    serve, gonogo, project, tmp_path
):
    server = serve("--workspace", str(tmp_path / "home"), "--model", "demo")
    token = gonogo("token", "create", "--role", "admin", "--name", "far").stdout.strip()
    refused = httpx.post(
        f"{server.url}/api/v1/sessions", json={"workspace": str(project)}, trust_env=False,
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip
    assert refused.status_code == 403
    assert str(project) in refused.json()["detail"]
    assert gonogo("run", "Mend it", "-C", str(project)).returncode == 3


def test_a_second_server_says_who_was_first(serve, gonogo, project):
    first = serve("--workspace", str(project))
    done = gonogo("serve", "--port", "0")
    assert done.returncode == 1
    assert f"Process {first.process.pid} " in done.stderr


def test_a_server_does_not_wait_for_a_process_that_keeps_the_folder(gonogo, home):
    folder = Folder(home)
    folder.prepare()
    with folder.owned():
        done = gonogo("serve", "--port", "0")
    assert done.returncode == 1
    assert (
        f"Process {os.getpid()} already serves {home}; see where with gonogo status" in done.stderr
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_server_leaves_the_folder_to_the_next(serve, gonogo, home, number):
    server = serve(whole=True)
    assert (mode(home), mode(home / "owner.token"), mode(home / "owner.sock")) == (
        0o700,
        0o600,
        0o600,
    )
    assert server.end(number) == 0
    assert not (home / "owner.sock").exists()
    assert Folder(home).read_facts() is None
    assert gonogo("sessions", "list").returncode == 0


def test_a_killed_server_leaves_a_socket_that_nobody_trips_over(serve, gonogo, home):
    server = serve()
    server.end(signal.SIGKILL)
    assert (home / "owner.sock").exists()
    done = gonogo("sessions", "list")
    assert done.returncode == 0, done.stderr
    assert not (home / "owner.sock").exists()


def test_a_server_asks_for_a_token_also_on_this_machine(serve, gonogo):
    server = serve()
    url = f"{server.url}/api/v1/sessions"
    assert httpx.get(url, trust_env=False).status_code == 401
    made = gonogo("token", "create", "--role", "viewer", "--name", "ci")
    token = made.stdout.strip()
    with_token = {"Authorization": f"Bearer {token}"}
    assert httpx.get(url, headers=with_token, trust_env=False).status_code == 200
    assert httpx.post(url, headers=with_token, json={}, trust_env=False).status_code == 403
    listed = json.loads(gonogo("token", "list", "--json").stdout)
    (ci,) = (one for one in listed if one["name"] == "ci")
    assert token not in json.dumps(listed)
    assert gonogo("token", "revoke", ci["token_id"]).returncode == 0
    assert httpx.get(url, headers=with_token, trust_env=False).status_code == 401


@pytest.mark.parametrize("more", [(), ("--no-auth",)], ids=["tokens", "no tokens"])
def test_a_server_says_what_it_serves_where_by_which_rules_and_how_to_come_in(
    serve, home, project, more
):
    server = serve("--workspace", str(project), "--model", "demo", *more)
    while server.printed.count("\n") < 3:
        server.printed += server.output.readline()

    where, rules, door = server.printed.splitlines()
    assert where == f"Serving {project} on {server.url}"
    assert str(home / "no-config" / "rules.toml") in rules
    if more:
        assert door == "No token is needed: every program on this machine can use the server."
    else:
        console = (
            r"Open the console; the link works once, within \d+ minutes: "
            rf"{re.escape(server.url)}/\S+"
        )
        assert re.fullmatch(console, door)


def test_without_authentication_everybody_on_this_machine_may_use_it(serve):
    server = serve("--no-auth")
    assert httpx.get(f"{server.url}/api/v1/sessions", trust_env=False).status_code == 200


def test_a_token_of_the_folder_that_was_revoked_is_made_anew(gonogo):
    (own,) = json.loads(gonogo("token", "list", "--json").stdout)
    gonogo("token", "revoke", own["token_id"])
    assert gonogo("sessions", "list").returncode == 0


def test_commands_that_start_together_take_turns(born, home, tmp_path):
    where = {"env": environment(home), "cwd": tmp_path}
    with ExitStack() as files:
        kept = [files.enter_context((tmp_path / f"out.{n}").open("w+")) for n in range(4)]
        started = [
            born.start(
                "gonogo", "token", "create", "--role", "viewer",
                stdout=out.fileno(), stderr=out.fileno(), **where,
            )
            for out in kept
        ]  # fmt: skip
        ended = [process.wait(SECONDS) for process in started]
        said = [Path(out.name).read_text() for out in kept]
    assert ended == [0] * 4, said
    assert len(set(said)) == 4


def wait_for(look, seconds: float = 60):
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, "it did not come"
    return found


@pytest.mark.feature(23)
def test_what_a_killed_server_left_undone_goes_on_with_the_next_one_and_no_query_sets_it_going(
    serve, gonogo, terminal, project
):
    server = serve("--workspace", str(project), "--model", "demo")
    at = terminal("run", "Mend it", "-C", str(project), "--yes")
    at.expect("Subtask 3/5")
    server.end(signal.SIGKILL)
    assert at.end() == 1
    assert "Run the command again; to continue a session: gonogo attach" in at.output
    (before,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    (still,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    assert before == still
    assert still["status"] == "running"
    serve("--workspace", str(project), "--model", "demo")
    asked = wait_for(lambda: json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"])
    assert asked[0]["kind"] in {"tool", "intervention"}
    (plan,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    first = plan["subtasks"][0]
    assert (first["id"], first["status"], first["attempt"]) == ("reproduce", "completed", 1)


def test_an_owner_stays_for_the_commands_that_are_its_clients(home, project, gonogo, terminal):
    first = terminal("run", "Mend it", "-C", str(project), "--model", "demo")
    first.expect("[h] hold")
    second = terminal("run", "Mend it", "-C", str(project))
    second.expect("[h] hold")
    first.type("h\n")
    first.expect("Waiting for other gonogo commands")
    second.type("r\n\n")
    assert second.end() == 4
    assert first.end() == 0
    assert not (home / "owner.sock").exists()


def test_a_changed_audit_row_is_found(gonogo, home):
    gonogo("token", "create", "--role", "viewer")
    assert gonogo("audit", "verify").returncode == 0
    with sqlite3.connect(home / "gonogo.db") as database:
        database.execute("UPDATE audit SET actor = 'nobody' WHERE rowid = 1")
    database.close()
    found = gonogo("audit", "verify")
    assert found.returncode == 1
    assert found.stdout


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("read_file", {"path": "README.md"}, 0),
        ("write_file", {"path": "x.txt", "content": "x"}, 3),
        ("execute_command", {"command": "rm -rf /"}, 4),
        ("write_file", {"path": ".git/config", "content": "x"}, 4),
        ("read_file", {"path": "no-such-file"}, 1),
        ("read_file", {"no": "path"}, 2),
    ],
)
def test_a_tool_by_hand_goes_through_the_same_gate(gonogo, project, tool, arguments, code):
    done = gonogo("tool", "run", tool, json.dumps(arguments), "-C", str(project), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    assert not (project / "x.txt").exists()
    assert "Traceback" not in done.stderr


def test_the_database_is_migrated_and_the_doctor_is_content(gonogo, home):
    assert gonogo("db", "migrate").returncode == 0
    assert gonogo("db", "migrate").returncode == 0
    done = gonogo("doctor", "--json", env={"GONOGO_MODEL": "demo"})
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert found["model"] == {"name": "model", "state": "ok", "text": "demo"}
    assert found["database"] == {"name": "database", "state": "ok", "text": str(home / "gonogo.db")}
    assert os.stat(home / "gonogo.db").st_mode & 0o777 in {0o600, 0o644}


def test_the_database_of_a_process_of_an_older_version_is_said_to_be_older(gonogo, home, serve):
    server = serve()
    with closing(sqlite3.connect(home / "gonogo.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0010'")
    done = gonogo("db", "migrate")
    said = f"gonogo: Process {server.process.pid} uses the database with the schema 0010, and "
    assert (done.returncode, done.stderr.startswith(said)) == (1, True), done.stderr


RUSSIAN = {"GONOGO_LOCALE": "ru"}


def test_what_a_server_has_to_do_is_said_and_it_is_stopped_where_it_runs(serve, gonogo, home):
    server = serve()
    facts = Folder(home).read_facts()
    assert facts is not None
    told = gonogo("status", env=RUSSIAN)
    known = json.loads(gonogo("status", "--json").stdout)
    refused = gonogo("stop", env=RUSSIAN)

    assert known == {
        "running": True, "pid": server.process.pid, "kind": "server", "version": __version__,
        "since": facts.since.isoformat().replace("+00:00", "Z"),
        "log": str(home / "gonogo.log"), "plans": 0, "questions": 0, "urls": [server.url],
    }  # fmt: skip
    since = f"{facts.since:%Y-%m-%d %H:%M:%S} UTC"
    named = {"pid": server.process.pid, "version": __version__, "since": since}
    assert told.stdout.splitlines() == [
        say("cli_process_server", "ru", **named),
        say("cli_process_url", "ru", url=server.url),
        say("cli_process_work", "ru", plans=0, questions=0, log=home / "gonogo.log"),
    ]
    elsewhere = say("cli_process_elsewhere", "ru", pid=server.process.pid)
    assert (refused.returncode, refused.stderr) == (1, f"gonogo: {elsewhere}\n")
    assert server.process.poll() is None


def test_where_no_process_works_that_is_said_and_none_is_started(gonogo, home):
    nobody = f"{say('cli_no_process', 'ru', home=home)}\n"
    for words in (("status",), ("stop",), ("stop", "--now")):
        done = gonogo(*words, env=RUSSIAN)
        assert (done.returncode, done.stdout, done.stderr) == (0, nobody, "")
    assert json.loads(gonogo("status", "--json").stdout) == {"running": False}
    Folder(home).write_facts(facts_of_this("background"))
    for words in (("status",), ("stop",)):
        assert gonogo(*words, env=RUSSIAN).stdout == nobody
    assert not Folder(home).is_owned()


def test_a_process_that_does_not_answer_is_named(gonogo, home):
    folder = Folder(home)
    folder.prepare()
    folder.write_facts(facts_of_this("command"))
    with folder.owned():
        silent, elsewhere = gonogo("status", env=RUSSIAN), gonogo("stop", env=RUSSIAN)

    said = say("cli_process_silent", "ru", pid=os.getpid())
    assert (silent.returncode, silent.stderr) == (1, f"gonogo: {said}\n")
    said = say("cli_process_elsewhere", "ru", pid=os.getpid())
    assert (elsewhere.returncode, elsewhere.stderr) == (1, f"gonogo: {said}\n")


BUSY = """
import os, pathlib, signal, sys
from gonogo.cli.daemon import facts_of_this
from gonogo.cli.doors import _tell_of_models
from gonogo.cli.folder import Folder
folder = Folder(pathlib.Path(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
with folder.owned():
    folder.write_facts(facts_of_this("background"))
    os.write(1, b"there")
    signal.pause()
"""


@pytest.fixture
def busy(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the background that has something to do."""
    Folder(home).prepare()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(home)], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"there"
        yield process
        process.kill()


STOPS_AT_KEYS = """
import fcntl, sys, termios
from gonogo.cli import main
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv = ["gonogo", "stop"]
main()
"""


def test_a_process_that_works_is_stopped_once_a_person_says_so(busy, gonogo, terminal):
    named = {"pid": busy.pid}
    refused = gonogo("stop", env=RUSSIAN)
    works = say("cli_process_works", "ru", **named)
    assert (refused.returncode, refused.stderr) == (3, f"gonogo: {works}\n")

    at = terminal(script=STOPS_AT_KEYS, env=RUSSIAN)
    yes, no = say("cli_stop_yes", "ru"), say("cli_stop_no", "ru")
    at.expect(f"[y] {yes}, [n] {no} >")
    at.type("n")
    assert (at.end(), busy.poll()) == (0, None)
    at = terminal("stop", env=RUSSIAN)
    at.expect("[y]")
    at.type("y\n")
    at.expect(say("cli_process_stopped", "ru", **named))
    assert (at.end(), busy.wait(SECONDS)) == (0, -signal.SIGTERM)


def test_a_process_that_works_is_stopped_without_a_question_where_it_is_to_be_now(busy, gonogo):
    done = gonogo("stop", "--now", env=RUSSIAN)
    assert done.stdout == f"{say('cli_process_stopped', 'ru', pid=busy.pid)}\n"
    assert (done.returncode, busy.wait(SECONDS)) == (0, -signal.SIGTERM)


SAYS = "Messages will fail: There is no model 'bogus'. "


def test_a_server_says_at_its_start_that_its_model_cannot_be_asked_and_works(serve, project):
    server = serve("--workspace", str(project), "--model", "bogus")
    assert server.end(signal.SIGTERM) == 0
    said = server.printed + server.output.read()
    assert "gonogo: " + SAYS in said
    assert "--model demo" in said


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_database_that_cannot_be_opened_is_all_that_a_server_and_a_worker_say(gonogo, command):
    done = gonogo(command, "--db", "nope", "--model", "bogus")
    assert (done.returncode, SAYS in done.stderr) == (2, False)
    assert "GONOGO_DB must be" in done.stderr


async def test_of_models_that_can_be_asked_and_of_a_file_that_cannot_be_read_nothing_is_said(
    tmp_path, capsys
):
    for name in ("demo", "bogus"):
        await _tell_of_models(Settings(home=tmp_path, config=tmp_path, model=name))
        assert (SAYS in capsys.readouterr().err) is (name == "bogus")
    (tmp_path / "models.toml").write_text("[")
    await _tell_of_models(Settings(home=tmp_path, config=tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_built", [True, False])
def test_a_server_whose_console_was_not_built_says_how_to_build_it(
    tmp_path, monkeypatch, capsys, is_built
):
    monkeypatch.setattr("gonogo.server.app.CONSOLE", tmp_path)
    if is_built:
        (tmp_path / "index.html").touch()
    _say_how(Address(auth=False), "")
    assert ("run scripts/console" in capsys.readouterr().err) is not is_built
