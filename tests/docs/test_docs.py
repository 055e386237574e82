"""The documentation is true: what it prints is what the code reads, and nothing is left out."""

import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gonogo.cli.app import app
from gonogo.domain import errors
from gonogo.domain.events import EVENTS
from gonogo.domain.messages import ClientMessage, PlanDecision, UserMessage, parse_message
from gonogo.domain.plan import parse_subtasks
from gonogo.execution.agent import load_profiles
from gonogo.policy import load_rules
from gonogo.settings import Settings

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
TUTORIAL = (DOCS / "tutorial" / "first-plan.md").read_text(encoding="utf-8")

_BLOCK = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def blocks(text: str, language: str) -> list[tuple[str, str]]:
    """The code blocks in one language, each with what stands after the language."""
    return [
        (found[3].strip(), re.sub(rf"^{found[1]}", "", found[4], flags=re.MULTILINE))
        for found in _BLOCK.finditer(text)
        if found[2] == language
    ]


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link[1] for link in _LINK.finditer(page.read_text(encoding="utf-8"))]
    missing = [x for x in links if "://" not in x and not (page.parent / x).exists()]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_of_shell_and_json_can_be_parsed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for _, script in blocks(text, "sh"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=60)
    if page.name == "protocol.md":
        return
    for _, body in blocks(text, "json"):
        json.loads(body)


def meant(message: ClientMessage) -> dict[str, Any]:
    """What a message says, with its decision as one of the known words."""
    word = getattr(message, "word", None)
    return message.model_dump() | ({"decision": word} if word else {})


def test_an_older_message_of_the_page_on_older_clients_means_what_stands_beside_it() -> None:
    page = (DOCS / "how-to" / "older-clients.md").read_text(encoding="utf-8")
    shown = [(info, meant(parse_message(json.loads(body)))) for info, body in blocks(page, "json")]
    older = [message for info, message in shown if info == "older"]
    heard = page.partition("## What they hear")[2].partition("## Words")[0]
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


def test_the_rules_that_the_reference_prints_can_be_loaded(tmp_path: Path) -> None:
    page = (DOCS / "reference" / "policy.md").read_text(encoding="utf-8")
    rules = tmp_path / "rules.toml"
    rules.write_text("".join(text for _, text in blocks(page, "toml")))

    assert len(load_rules(None, rules).user) == 3


def test_the_agent_that_the_guide_prints_can_be_loaded(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "own-agent.md").read_text(encoding="utf-8")
    ((_, text),) = blocks(page, "markdown")
    (tmp_path / "reviewer.md").write_text(text)

    assert load_profiles(tmp_path)["reviewer"].may_write == ("notes/*.md",)


def walk_bodies() -> dict[tuple[str, str], dict[str, object]]:
    """The body that each step of the tutorial's walks sends, with a made-up plan."""
    bodies: dict[tuple[str, str], dict[str, object]] = {}
    for info, script in blocks(TUTORIAL, "sh"):
        if named := re.fullmatch(r"walk=(\d) step=(\w+)", info):
            body = re.search(r"-d '(.*)'\s*$", script, re.DOTALL)
            assert body is not None
            bodies[named[1], named[2]] = json.loads(body[1].replace("'\"$PLAN\"'", "p_1"))
    return bodies


def test_the_walks_create_and_then_decide_in_one_session_each() -> None:
    bodies = walk_bodies()

    assert len(bodies) == 6
    for walk in "123":
        create, decide = bodies[walk, "create"], bodies[walk, "decide"]
        assert create["session_id"] == decide["session_id"]
        assert isinstance(parse_message(create["message"]), UserMessage)
        assert isinstance(parse_message(decide["message"]), PlanDecision)


def test_the_edit_of_the_third_walk_is_a_valid_plan() -> None:
    decision = parse_message(walk_bodies()["3", "decide"]["message"])

    assert isinstance(decision, PlanDecision)
    assert len(parse_subtasks(decision.modified_subtasks, agents={"coder"})) == 1
