"""Every block of code in the documentation does what its page says, run as a reader runs it.

What a block is stands in its first line (see `fakes.reader`). What a page expects to be there, it
has from BEFORE. `GONOGO_WRITE_GOLDEN=1` writes into the pages what their commands print now.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fakes.golden import kept
from fakes.reader import Block, Reader, blocks_of, read_through
from gonogo.cli import app
from gonogo.domain.messages import parse_message

ROOT = Path(__file__).parent.parent.parent
COMMAND = get_command(app)
FOLDERS = ("docs", "examples", "bench")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted(
        [*ROOT.glob("*.md"), *(x for f in FOLDERS for x in (ROOT / f).rglob("*.md"))]
    )
    if "decisions" not in path.parts
}
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
WALKS = "first-plan.md"
"""The pages that `test_walks.py` reads."""
BLOCKS = {page: blocks_of(text) for page, text in PAGES.items()}
RUN = [
    page
    for page, blocks in BLOCKS.items()
    if not page.endswith(WALKS) and any(b.language == "sh" and not b.reason for b in blocks)
]
PLAN_WAITS = 'gonogo run "Add a --json flag" -C ~/src/my-project --plan-only'
PLAN_IS_DONE = 'gonogo run "Add a --json flag" -C ~/src/my-project --yes=all'
PLAN_ASKS = 'gonogo run "Take a step that asks" -C ~/src/my-project --yes'
TURN_ASKS = 'gonogo run "Do what asks" --agent coder -C ~/src/my-project'
BEFORE = {
    "docs/how-to/undo.md": PLAN_IS_DONE,
    "docs/how-to/audit.md": PLAN_IS_DONE,
    "docs/how-to/keep-small.md": PLAN_WAITS,
    "docs/how-to/comments.md": PLAN_WAITS,
    "docs/how-to/edit-plans.md": PLAN_WAITS,
    "docs/how-to/replan.md": PLAN_ASKS,
    "docs/how-to/steer.md": f"{PLAN_ASKS}\n{TURN_ASKS}",
    "docs/reference/policy.md": PLAN_WAITS,
}


@pytest.mark.parametrize("page", RUN)
def test_what_a_page_prints_can_be_done_and_says_what_the_page_shows(
    page: str, at_home: Reader
) -> None:
    if page in BEFORE:
        at_home.run(BEFORE[page])

    seen = read_through(at_home, PAGES[page])

    assert PAGES[page] == seen or kept(ROOT / page, seen) == seen


def test_every_block_says_what_it_is_for() -> None:
    """It is run, or is of a form that is looked at here, or says why not."""
    strange = [
        f"{page}: {block.language} {block.info}"
        for page, blocks in BLOCKS.items()
        for block in blocks
        if not block.reason and not (block.language == "sh" or block.file or understood(block))
    ]

    assert strange == []


def test_a_block_that_is_only_shown_names_tests_that_there_are() -> None:
    named = [
        (page, file)
        for page, blocks in BLOCKS.items()
        for block in blocks
        for file in re.findall(r"\b(?:tests|scripts)/[\w./]+\w", block.reason or "")
    ]

    assert len(named) > 5
    assert [(page, file) for page, file in named if not (ROOT / file).exists()] == []


def understood(block: Block) -> bool:
    """Whether a block that no shell runs holds what its language and its first line promise."""
    match block.language, block.info:
        case "text", info:
            return info.startswith("output")
        case "json", "message":
            parse_message(json.loads(block.text))
        case "json", "lines":
            return all(json.loads(line) for line in block.text.splitlines())
        case "json", _:
            json.loads(block.text)
        case "toml", _:
            tomllib.loads(block.text)
        case "python", _:
            exec(compile(block.text, "page", "exec"), {"__name__": "page"})  # noqa: S102 - our page
        case _:
            return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_exists_with_its_options(page: str) -> None:
    unknown = [
        f"{' '.join(words)}: {option}"
        for words in commands_in(PAGES[page])
        for option in unknown_options(COMMAND, words)
    ]

    assert unknown == []


def commands_in(text: str) -> Iterator[list[str]]:
    """The words after `gonogo` in blocks of shell and in the text around them."""
    shell = "\n".join(block.text for block in blocks_of(text) if block.language == "sh")
    lines = shell.replace("\\\n", "").splitlines()
    for line in [*lines, *re.findall(r"(?<!`)`(gonogo [^`]+)`(?!`)", text)]:
        bare = _QUOTED.sub("X", line).partition(" #")[0]
        for found in re.finditer(r"(?:^|[ (])(?:gonogo|scripts/run) ([a-z-][^|>;&)#·…\\]*)", bare):
            yield found[1].split()


def unknown_options(command: Any, words: list[str]) -> list[str]:
    """The words that are no command, and the options that a command does not have."""
    left = list(words)
    while hasattr(command, "commands") and left and not left[0].startswith("-"):
        word = left.pop(0)
        if word not in command.commands:
            return [] if word.isupper() else [word]
        command = command.commands[word]
    if "--" in left:
        left = left[: left.index("--")]
    known = {"--help", "-h", "--yes=all"} | {
        o for p in command.params for o in [*p.opts, *p.secondary_opts]
    }
    named = [word.strip("[],.") for word in left if word.strip("[").startswith("-")]
    return [word for word in named if word and word not in known]
