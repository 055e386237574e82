"""Keeping an installation small and in order, from the command line."""

import json
import re
import sqlite3

import pytest

from gonogo.i18n import say


@pytest.fixture
def session(gonogo, home, tmp_path):
    """A session in which something was said: no model is there, and the question is kept."""
    gonogo("token", "create", "--role", "viewer", "--name", "ann")
    gonogo("run", "Say banana", "--model", "test:none", "-C", str(tmp_path))
    [found] = json.loads(gonogo("sessions", "list", "--json").stdout)["sessions"]
    return found["session_id"]


def test_what_the_next_request_would_hold_is_shown(gonogo, session):
    shown = gonogo("sessions", "context", session)
    told = gonogo("sessions", "context", session, "--json")
    assert told.returncode == 0, (told.stderr, shown.stderr)
    found = json.loads(told.stdout)

    assert shown.returncode == 0
    assert "window" not in found
    assert shown.stdout.startswith(f"orchestrator: {found['tokens']} tokens\n")
    rows = [f"{part['part']}\t{part['count']}\t{part['tokens']}" for part in found["parts"]]
    assert shown.stdout.splitlines()[1:] == ["part\tcount\ttokens", *rows]
    window = {"GONOGO_MODEL_WINDOW": "10000", "GONOGO_LOCALE": "ru"}
    known = gonogo("sessions", "context", session, env=window)
    tokens = found["tokens"]
    assert known.stdout.splitlines()[0] == (
        f"orchestrator: {tokens} из 10000 токенов ({tokens // 100} %)"
    )
    russian = gonogo("sessions", "context", session, env={"GONOGO_LOCALE": "ru"})
    assert russian.stdout.splitlines()[0] == f"orchestrator: токенов {tokens}"
    assert [part["part"] for part in found["parts"]] == ["system", "tools", "texts"]
    assert gonogo("sessions", "context", "s_none").returncode != 0


def holds(home, word):
    return [p for p in home.rglob("*") if p.is_file() and word in p.read_bytes()]


def test_room_is_given_back_and_said_in_bytes(gonogo, home):
    gonogo("token", "create", "--role", "viewer", "--name", "ann")
    hoped = gonogo("db", "vacuum", "--dry-run")
    done = gonogo("db", "vacuum", "--json")

    assert (hoped.returncode, done.returncode) == (0, 0)
    assert "Nothing was changed" in hoped.stdout
    assert hoped.stdout.count("iB now, at most ") == 3
    told = json.loads(done.stdout)
    assert told["dry_run"] is False
    assert told["after"]["database"] == (home / "gonogo.db").stat().st_size
    last = gonogo("db", "vacuum", env={"GONOGO_LOCALE": "ru"}).stdout
    size = r"[\d,]+\s[КМ]иБ"
    assert re.fullmatch(
        rf"База данных: было {size}, стало {size}\.\n"
        rf"Журнал базы данных: было {size}, стало {size}\.\n"
        rf"Снимки файлов: было {size}, стало {size}\.\n",
        last,
    )
    hoped = gonogo("db", "vacuum", "--dry-run", env={"GONOGO_LOCALE": "ru"}).stdout
    assert hoped.count("сейчас") == hoped.count("останется не больше") == 3
    assert hoped.endswith("\nНичего не изменено. Чтобы освободить место: gonogo db vacuum\n")


def test_a_session_is_deleted_only_when_that_was_said(gonogo, home, terminal, session):
    assert holds(home, b"banana")
    asked = gonogo("sessions", "delete", session)
    said = "gonogo: There is no terminal to ask you on; add --yes to delete the session\n"
    assert (asked.returncode, asked.stderr) == (2, said)

    line = terminal("sessions", "delete", session)
    line.expect(session)
    line.type("k\n")
    assert line.end() == 0
    assert gonogo("sessions", "show", session).returncode == 0
    russian = {"GONOGO_LOCALE": "ru"}
    line = terminal("sessions", "delete", session, env=russian)
    sure = say("cli_session_sure", "ru", session=session)
    line.expect(sure)
    line.expect("[k] оставить >")
    line.type("d\n")
    line.expect(say("cli_session_deleted", "ru", session=session))
    assert line.end() == 0
    assert not holds(home, b"banana")


def test_a_session_is_deleted_without_a_question_where_the_command_says_yes(gonogo, home, session):
    done = gonogo("sessions", "delete", session, "--yes")
    assert (done.returncode, session in done.stdout) == (0, True)
    assert gonogo("sessions", "delete", session, "--yes").returncode == 1
    assert holds(home, b"banana") == []
    assert gonogo("audit", "verify").returncode == 0


def test_an_old_database_is_opened_once_that_was_accepted(gonogo, home):
    gonogo("token", "create", "--role", "viewer", "--name", "ann")
    with sqlite3.connect(home / "gonogo.db") as database:
        database.execute("DELETE FROM audit WHERE seq > 1")
        database.execute("UPDATE chains SET audit_seq = 1")
    database.close()

    opening = (("plans", "list"), ("db", "check"), ("db", "migrate"), ("serve", "--port", "0"))
    for words in opening:
        refused = gonogo(*words)
        assert refused.returncode == 1
        assert "--accept-restored" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert gonogo("db", "migrate", "--accept-restored").returncode == 0
    assert gonogo("db", "check").returncode == 0
    listed = gonogo("plans", "list")
    head = "plan\tstatus\tdone\tsession\tcreated\tgoal\n"
    assert (listed.returncode, listed.stdout) == (0, head)
    assert "database.accepted" in gonogo("audit", "show", "--session", "system").stdout
