"""The documentation is true: what it prints is what the code reads, and nothing is left out."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fakes.reader import blocks_of
from gonogo.cli import app
from gonogo.domain import errors
from gonogo.domain.events import EVENTS
from gonogo.domain.messages import ClientMessage, parse_message
from gonogo.settings import Settings

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)]*)?\)")


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link[1] for link in _LINK.finditer(page.read_text(encoding="utf-8"))]
    missing = [x for x in links if not (page.parent / x).exists()]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    found = _LINK.finditer(page.read_text(encoding="utf-8"))
    wanted = [(link[1] or page.name, link[2][1:]) for link in found if link[2]]
    lost = [(x, place) for x, place in wanted if place not in headings(page.parent / x)]

    assert lost == []


def test_a_page_says_first_what_it_gives_and_last_where_to_go_on() -> None:
    kinds = ("how-to", "tutorial", "explanation", "ru/tutorial")
    pages = [page for kind in kinds for page in (DOCS / kind).glob("*.md")]
    texts = {page_id(page): page.read_text(encoding="utf-8").split("\n\n") for page in pages}

    ends = ("Next: ", "Дальше: ")
    assert [page for page, parts in texts.items() if parts[1].startswith(("#", "```"))] == []
    assert [page for page, parts in texts.items() if not parts[-1].startswith(ends)] == []


def test_a_page_in_two_languages_leads_to_itself_in_the_other() -> None:
    russian = {page: DOCS / page.relative_to(DOCS / "ru") for page in (DOCS / "ru").rglob("*.md")}
    pairs = {ROOT / "README.ru.md": ROOT / "README.md", **russian}
    both = [*pairs.items(), *((english, page) for page, english in pairs.items())]
    lost = [
        page_id(page)
        for page, other in both
        if (page.parent / _LINK.search(page.read_text(encoding="utf-8"))[1]).resolve() != other
    ]

    assert len(both) == 10
    assert lost == []


def headings(page: Path) -> set[str]:
    """The names under which the headings of a page can be linked to, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def meant(message: ClientMessage) -> dict[str, Any]:
    """What a message says, with its decision as one of the known words."""
    word = getattr(message, "word", None)
    return message.model_dump() | ({"decision": word} if word else {})


def test_an_older_message_of_the_page_on_older_clients_means_what_stands_beside_it() -> None:
    page = (DOCS / "how-to" / "older-clients.md").read_text(encoding="utf-8")
    shown = [(each.info, meant(parse_message(json.loads(each.text)))) for each in blocks_of(page)]
    older = [message for info, message in shown if info == "older"]
    heard = page.partition("## What they receive")[2].partition("## Words")[0]
    named = set(re.findall(r"`((?:agent|subtask|plan|approval)_[a-z]+)`", heard))

    assert older == [message for info, message in shown if info == "here"] != []
    assert named - {"approval_id"} <= EVENTS.json_schema()["discriminator"]["mapping"].keys()
    assert len(named) > 8


@pytest.fixture
def reference(monkeypatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("reference")


def test_the_page_of_settings_and_the_openapi_document_are_those_of_the_code(reference) -> None:
    renew = "run: PYTHONPATH=src .venv/bin/python scripts/reference.py"
    assert reference.PAGE.read_text(encoding="utf-8") == reference.settings_page(), renew
    assert reference.OPENAPI.read_text(encoding="utf-8") == reference.openapi_document(), renew


def test_every_setting_says_what_it_is(reference) -> None:
    assert set(Settings.model_fields) - reference.texts().keys() == set()


def test_every_error_code_of_the_wire_is_in_the_protocol() -> None:
    protocol = (DOCS / "reference" / "protocol.md").read_text(encoding="utf-8")
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {error.code for error in found if issubclass(error, errors.GonogoError)}

    assert {code for code in codes if f"`{code}`" not in protocol} == set()


def test_the_page_of_commands_names_those_that_there_are_and_no_others() -> None:
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`gonogo ([a-z]+(?: [a-z]+)?)", page))

    real = {" ".join(words) for words in commands(get_command(app))}
    groups = {name.split()[0] for name in real if " " in name}

    assert named - groups == real


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command below one."""
    if not hasattr(command, "commands"):
        yield path
        return
    for name, below in command.commands.items():
        yield from commands(below, (*path, name))


def test_the_words_of_the_code_stand_where_the_glossary_says() -> None:
    rows = re.findall(
        r"^\| (`[A-Z].*?) \|.*\| `(.+)` \|$", (DOCS / "glossary.md").read_text(), re.M
    )
    source = ROOT / "src" / "gonogo"
    lost: list[str] = []
    for words, place in rows:
        files = [source / place] if place.endswith(".py") else [*(source / place).glob("*.py")]
        text = "\n".join(file.read_text() for file in files)
        lost += [word for word in re.findall(r"`(\w+)`", words) if f"class {word}" not in text]

    assert len(rows) > 10
    assert lost == []


def test_the_way_of_a_message_names_what_there_is() -> None:
    page = (DOCS / "explanation" / "follow-a-message.md").read_text()
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+?) \|", page, re.M)
    named = [(file, word) for file, where in rows for word in re.findall(r"[\w.]+", where)]
    lost = [
        f"{file}: {word}"
        for file, word in named
        for part in word.split(".")
        if not re.search(rf"(class|def) {part}\b", (ROOT / "src" / "gonogo" / file).read_text())
    ]

    assert len(rows) > 30
    assert lost == []


@pytest.mark.parametrize("folder", ["how-to", "ru/how-to"])
def test_what_the_page_of_the_console_names_can_be_read_in_the_console(folder: str) -> None:
    page = (DOCS / folder / "web-console.md").read_text(encoding="utf-8")
    texts = (ROOT / "console" / "src" / "shared" / "i18n").rglob("*.ts")
    console = "\n".join(path.read_text(encoding="utf-8") for path in texts)
    named = set(re.findall(r"\*\*([^*]+)\*\*", page))

    assert len(named) > 10
    assert {name for name in named if f'"{name}"' not in console} == set()
