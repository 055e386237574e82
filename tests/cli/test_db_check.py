"""`gonogo db check`: whether the database is the one that this version needs, and whole."""

import json
import sqlite3
from contextlib import closing

import pytest

from gonogo.store import Store
from gonogo.store.migrate import HEAD


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "gonogo.db"
    Store(f"sqlite:///{path}").close()
    return path


def says(gonogo, url, *words, **more):
    done = gonogo("db", "check", *words, env={"GONOGO_DB": url, **more})
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def change(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        for each in statements:
            database.execute(each)


def test_one_of_this_version_is_as_it_should_be(gonogo, database_url):
    Store(database_url).close()
    assert says(gonogo, database_url) == (0, "The database has the schema of this version.\n")


def test_one_that_is_not_there_is_not_made(gonogo, tmp_path):
    code, said = says(gonogo, f"sqlite:///{tmp_path / 'none.db'}", "--json")
    expected = {"state": "empty", "schema": None, "expected": HEAD, "problem": None}
    assert (code, json.loads(said)) == (1, expected)
    assert not (tmp_path / "none.db").exists()


def test_an_older_one_is_told_what_brings_it_up_and_stays(gonogo, file):
    change(file, "UPDATE alembic_version SET version_num = '0010'")
    code, said = says(gonogo, f"sqlite:///{file}", LC_ALL="ru_RU.UTF-8")
    assert (code, said) == (
        1, f"У базы данных схема 0010, а этой версии нужна {HEAD}. Обновите базу командой gonogo "
        "db migrate\n",
    )  # fmt: skip
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchone() == ("0010",)


def test_one_of_a_newer_version_says_to_upgrade_gonogo(gonogo, file):
    change(file, "UPDATE alembic_version SET version_num = '9999'")
    code, said = says(gonogo, f"sqlite:///{file}")
    assert (code, "upgrade gonogo" in said) == (1, True)


def test_a_damaged_one_is_found(gonogo, file):
    change(file, "CREATE TABLE more (a TEXT)", "INSERT INTO more VALUES ('here')")
    with closing(sqlite3.connect(file)) as database:
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'more'"
        ).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * 8)
    code, said = says(gonogo, f"sqlite:///{file}")
    assert code == 1
    assert "The database is damaged" in said


def test_no_database_at_all_is_an_error(gonogo, tmp_path):
    (tmp_path / "text.db").write_text("Not a database, however long this text may be. " * 99)
    code, said = says(gonogo, f"sqlite:///{tmp_path / 'text.db'}")
    assert code == 1
    assert "not a database" in said
