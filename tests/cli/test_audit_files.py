"""The log as a file: taken elsewhere, checked there, anchored, and old entries removed after it."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from gonogo.cli.audit_files import check_file
from gonogo.cli.commands.analytics import _told
from gonogo.cli.support import Exit
from gonogo.domain.plan_views import AuditHead, AuditReport


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def told(gonogo, home):
    """A state folder with a few entries."""
    for name in ("ann", "bob", "eve"):
        gonogo("token", "create", "--role", "viewer", "--name", name)


def test_an_export_is_checked_without_the_folder_it_came_from(gonogo, home, told, tmp_path):
    file = tmp_path / "log.jsonl"
    assert gonogo("audit", "export", "-o", str(file)).returncode == 0
    written = gonogo("audit", "export").stdout

    assert lines(file.read_text()) == lines(written)
    assert lines(written)[-1]["end"]["entries"] == len(lines(written)) - 1
    assert file.stat().st_mode & 0o777 == 0o600
    elsewhere = {"GONOGO_HOME": str(tmp_path / "elsewhere")}
    assert gonogo("audit", "verify", "--export", str(file), env=elsewhere).returncode == 0
    assert not (tmp_path / "elsewhere").exists()
    assert gonogo("audit", "export", "-o", str(file)).returncode == 2
    file.write_text(file.read_text().replace('"bob"', '"rob"'))
    found = gonogo("audit", "verify", "--export", str(file), "--json")
    assert found.returncode == 1
    assert any("its content was changed" in each for each in json.loads(found.stdout)["problems"])


def test_a_file_is_reported_on_without_an_anchor_too(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text("no entry\n")
    report = check_file(file, None)

    assert report is not None
    assert (report.ok, report.entries) == (False, 0)
    assert report.problems


def test_an_anchor_finds_a_log_that_was_made_anew(gonogo, home, told, tmp_path):
    anchor, file = gonogo("audit", "anchor").stdout, tmp_path / "anchors.txt"
    file.write_text(f"kept by cron\n{anchor}")
    log = tmp_path / "log.jsonl"
    gonogo("audit", "export", "-o", str(log))

    assert gonogo("audit", "verify", "--anchor", anchor.strip()).returncode == 0
    assert gonogo("audit", "verify", "--anchor", str(file)).returncode == 0
    both = "audit", "verify", "--anchor", str(file), "--export", str(log)
    assert gonogo(*both).returncode == 0
    assert gonogo("audit", "verify", "--anchor", "neither").returncode == 2
    assert json.loads(gonogo("audit", "anchor", "--json").stdout)["text"] == anchor.strip()
    with sqlite3.connect(home / "gonogo.db") as database:
        database.execute("DELETE FROM audit")
        database.execute("DELETE FROM tokens")
        database.execute(f"UPDATE chains SET audit_seq = 0, audit_hash = '{'0' * 64}'")  # noqa: S608
    database.close()
    (home / "gonogo.db-heads").unlink()
    assert gonogo("audit", "verify").returncode == 0
    found = gonogo("audit", "verify", "--anchor", str(file))
    assert found.returncode == 1
    assert "it does not exist" in found.stdout


def test_old_entries_are_removed_only_where_that_is_set_and_only_once_they_are_in_a_file(
    gonogo, home, tmp_path
):
    anchor = gonogo("audit", "anchor").stdout.strip()
    old = datetime.now(UTC) - timedelta(days=400)
    with sqlite3.connect(home / "gonogo.db") as database:
        _add_old_session(database, old.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    database.close()
    file = tmp_path / "old.jsonl"
    prune = "audit", "prune", "--before", "52w", "--export", str(file)
    assert "GONOGO_KEEP_AUDIT_DAYS" in gonogo(*prune).stderr
    assert not file.exists()
    set_ = {"GONOGO_KEEP_AUDIT_DAYS": "365"}
    assert gonogo(*prune, env=set_).returncode == 2
    prune = "audit", "prune", "--before", "53w", "--export", str(file), "--json"
    done = gonogo(*prune, env=set_)

    assert json.loads(done.stdout) == {"chains": 1, "export": str(file)}
    assert [line["chain"] for line in lines(file.read_text())[:-1]] == ["s_old"]
    again = "audit", "prune", "--before", "53w", "--export", str(tmp_path / "more.jsonl")
    assert gonogo(*again, env=set_).stdout == (
        f"Exported to {tmp_path / 'more.jsonl'}. Chains with removed entries: 0.\n"
    )
    assert gonogo("audit", "verify", "--export", str(file)).returncode == 0
    left = gonogo("audit", "verify", "--anchor", anchor)
    assert left.returncode == 0
    assert "s_old: entries up to 1 were exported and removed" in left.stdout
    both = gonogo("audit", "verify", "--anchor", anchor, "--export", str(file))
    assert (both.returncode, both.stdout) == (0, left.stdout)


def test_what_an_anchor_says_of_entries_that_were_removed_is_said_to_be_in_the_export(capsys):
    older = [AuditHead(chain="s_old", seq=7, hash="")]
    code = _told(AuditReport(ok=True, chains=1, entries=3, problems=[], older=older), json=False)

    assert code is Exit.DONE
    said = capsys.readouterr().out.splitlines()[1:]
    assert said == ["s_old #7: removed since the anchor; check it with --export FILE."]


def _add_old_session(database, at):
    from gonogo.domain.audit_chain import GENESIS

    seq, end = database.execute("SELECT audit_seq, audit_hash FROM chains").fetchone()
    opened = _add_entry(
        database, ("system", seq + 1, at, "user:ann", "session.opened", "s_old"), end
    )
    database.execute("UPDATE chains SET audit_seq = ?, audit_hash = ?", (seq + 1, opened))
    digest = _add_entry(database, ("s_old", 1, at, "user:ann", "plan.approved", "p1"), GENESIS)
    names = (
        "id, principal_id, workspace, spoken, tool_host, agent, last_seq, audit_seq, audit_hash, "
        "deleted, created_at, updated_at"
    )
    database.execute(
        f"INSERT INTO sessions ({names}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
        ("s_old", "user:ann", "/w", "en", "server", "coder", 0, 1, digest, 0, at, at),
    )


def _add_entry(database, said, prev):
    """An entry of an earlier version, without a seal. Gives its hash."""
    from gonogo.domain.audit_chain import entry_hash, hashed

    digest = entry_hash(prev, hashed(*said, {}))
    database.execute(
        "INSERT INTO audit (chain, seq, ts, actor, action, subject, details, prev_hash, hash) "
        "VALUES (?,?,?,?,?,?,?,?,?)",
        (*said, "{}", prev, digest),
    )
    return digest
