"""The demo's material: a sample project with a real bug, and a model's recorded lines.

Only data and what lays it out: no model, no runtime. The recording's lines are answers that a
model gave; everything that they set going is done for real. The sample's files are packaged with
`.txt` added to their names, so that no tool takes them for a part of gonogo.
"""

import json
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from msgspec import Struct

from gonogo.domain.base import mapped

TASKS = {
    "en": "One test fails, please find out why and fix it. Also add a --json flag, with a test, "
    "and describe it in the README.",
    "ru": "Один тест падает: найди причину и исправь. Ещё добавь флаг --json с тестом и опиши "
    "его в README.",
}
"""What the user of the demo asks for."""

_PACKED = ".txt"
_AUTHOR = ("-c", "user.name=gonogo demo", "-c", "user.email=demo@localhost")


class TestRun(Struct, frozen=True, kw_only=True):
    """How a run of the sample's own tests ended."""

    passed: bool
    summary: str
    """The last line that unittest wrote: `OK`, or how many failed; empty if it wrote none."""


def recording(locale: str = "en") -> dict[str, list[dict[str, Any]]]:
    """The recorded lines by their thread: a subtask's id, or `main/<agent>`.

    They are in English; `recording.ru.json` has the Russian of each text in them.
    """
    return told(json.loads(_file("recording.json")), locale)


def told(value: Any, locale: str) -> Any:  # noqa: ANN401 - any part of the recording
    """A part of the story with its texts in that language; what is no text of it stays."""
    texts: dict[str, str] = {} if locale == "en" else json.loads(_file(f"recording.{locale}.json"))
    return mapped(value, lambda text: texts.get(text, text))


def lay_out(folder: Path) -> None:
    """Copy the sample project into a folder and, where there is git, commit it there.

    Args:
        folder: Created if it is missing; what it already holds stays.
    """
    with as_file(files(__name__).joinpath("sample")) as sample:
        for packed in sorted(sample.rglob("*" + _PACKED)):
            target = folder / _unpacked(packed.relative_to(sample))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(packed, target)
    if shutil.which("git"):
        _commit(folder)


def run_tests(folder: Path) -> TestRun:
    """Run the sample's own tests, as its developer would."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stderr.strip().splitlines()
    return TestRun(passed=done.returncode == 0, summary=lines[-1] if lines else "")


def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _unpacked(path: Path) -> Path:
    plain = path.with_suffix("")
    return plain.with_name("." + plain.name) if plain.name == "gitignore" else plain


def _commit(folder: Path) -> None:
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*_AUTHOR, "-c", "commit.gpgsign=false", "commit", "-q", "--no-verify", "-m", "Sample"),
    ):
        subprocess.run(  # noqa: S603 - our own words
            ["git", *words],  # noqa: S607 - wherever the user has it
            cwd=folder,
            capture_output=True,
            timeout=30,
            check=False,
        )
