"""The tasks: a repository, what is asked for, what shows that it was done, and a right solution.

Each is a file in `tasks/`. The check and the solution never get into the repository that an agent
works in.
"""

import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("tasks")
_AUTHOR = (
    "-c",
    "user.name=bench",
    "-c",
    "user.email=bench@localhost",
    "-c",
    "commit.gpgsign=false",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task."""

    name: str
    kind: str
    language: str
    needs: str
    """The program without which it can neither be done nor checked."""
    text: str
    """What the agent is asked for."""
    files: Mapping[str, str]
    solution: Mapping[str, str]
    command: str
    """The check: it ends with 0 when the task was done."""
    hidden: Mapping[str, str]
    """The files of the check; they take the place of those of the same name."""

    @property
    def is_possible(self) -> bool:
        """Whether its program is installed."""
        return shutil.which(self.needs) is not None

    def lay_out(self, folder: Path) -> None:
        """Make the repository, with one commit."""
        write(folder, self.files)
        for words in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            (*_AUTHOR, "commit", "-q", "--no-verify", "-m", "As it was"),
        ):
            subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)


def load_tasks() -> dict[str, Task]:
    """All tasks by their names."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.toml"))}


def _read(path: Path) -> Task:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return Task(
        name=path.stem, kind=told["kind"], language=told["language"], needs=told["needs"],
        text=told["task"], files=_plain(told["files"]), solution=_plain(told["solution"]),
        command=told["check"]["command"], hidden=_plain(told["check"]["files"]),
    )  # fmt: skip


def _plain(files: Mapping[str, str]) -> dict[str, str]:
    """Files by name. All lie in one folder, so that no link can lead their names elsewhere."""
    for name in files:
        if "/" in name:
            raise ValueError(f"{name}: the files of a task lie in one folder")
    return {name: text.removeprefix("\n") for name, text in files.items()}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, in the place of whatever had their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
