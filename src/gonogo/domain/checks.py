"""Checks: what has to hold before a subtask counts as done, as its plan says.

The runtime makes them after the subtask's agent has said that it is done. They are part of what a
person approves, so each has one closed form.
"""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gonogo.domain.base import Frozen, canonical_json
from gonogo.domain.errors import because

MOST_CHECKS = 20
"""Checks of one subtask."""
CHECKS = "checks"
"""What a conversation's message is about that says which checks did not hold."""
_LONGEST = 4_000


def _inside(path: str) -> str:
    """A path below the workspace.

    Raises:
        ValueError: it leads out by its words, or names nothing.
    """
    names = path.split("/")
    if path.startswith(("/", "~")) or ".." in names or not set(names) - {"", "."}:
        raise ValueError(because("{path!r} is not a path inside the workspace", path=path))
    return path


def _text(most: int) -> StringConstraints:
    return StringConstraints(min_length=1, max_length=most, strict=True)


_Path = Annotated[str, _text(512), AfterValidator(_inside)]


class FileText(Frozen):
    """A text, and the file that has to contain it."""

    path: _Path
    text: Annotated[str, _text(_LONGEST)]


class DoneCheck(Frozen):
    """One thing that has to hold; just one of its kinds is given."""

    command: Annotated[str, _text(_LONGEST)] | None = None
    """Ends with the exit code 0."""
    timeout: Annotated[float, Field(gt=0, le=3_600)] | None = None
    """Seconds that the command may take."""
    file_exists: _Path | None = None
    file_contains: FileText | None = None
    unchanged: Annotated[tuple[_Path, ...], Field(min_length=1, max_length=50)] | None = None
    """Globs of files that the subtask leaves as they were."""
    ask: Annotated[str, _text(_LONGEST)] | None = None
    """A question to a model that sees what the subtask changed, and nothing else."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                because("a check must have exactly one of {kinds}", kinds=", ".join(KINDS))
            )
        if self.timeout is not None and self.command is None:
            raise ValueError(because("only a command can have a timeout"))
        return self

    @property
    def kind(self) -> str:
        """Which of its kinds is given."""
        return next(name for name in KINDS if getattr(self, name) is not None)

    @property
    def facts(self) -> dict[str, Any]:
        """The check as a plan writes it."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def file(self) -> str | None:
        """The file that it reads, if it reads one."""
        return self.file_contains.path if self.file_contains is not None else self.file_exists

    @property
    def text(self) -> str:
        """The check in one line, for people and models."""
        return canonical_json(self.facts)


KINDS = ("command", "file_exists", "file_contains", "unchanged", "ask")


# Commands that end well because there was nothing to run: what runners of tests say of that.

_RAN = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # unittest, node, cargo, mocha: the number of tests, and of those that were left out.
        r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \(.*?skipped=(\d+))?",
        r"^[#\u2139] pass (\d+)$()",
        r"^test result: ok\. (\d+) passed()",
        r"^ *(\d+) passing\b()",
    )
)
_PYTEST = re.compile(r"^(?:=+ )?(?:\d+ [a-z]+|no tests ran)\b.* in [\d.]+s", re.MULTILINE)
_OF_PYTEST = re.compile(r"(\d+) (?:passed|failed|xfailed|xpassed|error)")
_GO = re.compile(r"^(?:ok|\?) *\t.*$", re.MULTILINE)
_NONE_OF_GO = ("[no test files]", "[no tests to run]")


def ran_no_test(output: str) -> bool:
    """Whether what a command printed is of a runner of tests that found none, or left all out.

    Known are unittest, pytest, node, go, cargo and mocha.
    """
    counts = [int(ran) - int(left or 0) for each in _RAN for ran, left in each.findall(output)]
    counts += [sum(map(int, _OF_PYTEST.findall(line))) for line in _PYTEST.findall(output)]
    counts += [not line.rstrip().endswith(_NONE_OF_GO) for line in _GO.findall(output)]
    return bool(counts) and sum(counts) == 0
