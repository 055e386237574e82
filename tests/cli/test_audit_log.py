"""The audit log at the terminal: whose entries, which of them, and why each is there."""

import json
from datetime import timedelta

from fakes.rows import NOW, audit_entry
from gonogo.cli.audit_files import newest
from gonogo.domain.audit_chain import AuditFilter
from gonogo.domain.views import Audit


async def test_short_pages_are_followed_until_there_is_enough():
    pages = {None: (2, "b"), "b": (0, "c"), "c": (1, "d"), "d": (5, None)}

    class Pages:
        """A log that is asked for, page by page."""

        async def audit_log(self, wanted, *, before, limit, locale):
            count, rest = pages[before]
            entries = [audit_entry(ts=NOW + timedelta(seconds=n)) for n in range(min(count, limit))]
            return Audit(entries=entries, before=rest)

    assert len(await newest(Pages(), AuditFilter(), 3)) == 3
    assert len(await newest(Pages(), AuditFilter(), 100)) == 8


def test_the_newest_entries_are_shown_with_their_chain_and_sifted(gonogo, home):
    for name in ("ann", "bob"):
        gonogo("token", "create", "--role", "viewer", "--name", name)
    shown = [line.split("\t") for line in gonogo("audit", "show").stdout.splitlines()]
    last = gonogo("audit", "show", "--limit", "1", "--json")
    system = gonogo("audit", "show", "--session", "system", "--action", "token.", "--limit", "1")
    none = gonogo("audit", "show", "--actor", "nobody")
    before = gonogo("audit", "show", "--until", "2000-01-01")
    russian = gonogo("audit", "show", "--limit", "1", env={"GONOGO_LOCALE": "ru"})

    assert shown[0] == ["session", "seq", "time", "actor", "action", "subject", "why"]
    assert [row[-1] for row in shown[-2:]] == ["for ann, role viewer", "for bob, role viewer"]
    assert {row[0] for row in shown[1:]} == {"system"}
    assert json.loads(last.stdout)[0]["details"]["name"] == "bob"
    assert len(system.stdout.splitlines()) == 2
    assert none.stdout.splitlines() == ["\t".join(shown[0])]
    assert before.stdout == none.stdout
    assert "для bob, роль viewer" in russian.stdout
    refused = gonogo("audit", "show", "--after", "3")
    assert (refused.returncode, "only with --session" in refused.stderr) == (2, True)
    typo = gonogo("audit", "show", "--session", "s_typo")
    assert (typo.returncode, "No session found with id=s_typo" in typo.stderr) == (1, True)


def test_a_narrow_terminal_gets_a_paragraph_a_row_and_no_broken_word(terminal, gonogo):
    gonogo("token", "create", "--role", "viewer", "--name", "ann")
    wide = terminal("token", "list", env={"COLUMNS": "200", "GONOGO_LOCALE": "ru"})
    narrow = terminal("token", "list", env={"COLUMNS": "40"})
    assert (wide.end(), narrow.end()) == (0, 0)

    assert wide.output.splitlines()[0].split() == ["токен", "имя", "роль", "создан", "отозван"]
    (found,) = [line for line in narrow.output.splitlines() if "ann" in line]
    assert found.startswith("  ")
