"""Where programs are found: our own helpers, and those that commands name.

A program that lies where agents write is no program of the machine but code of theirs, whatever it
is called: it is never found by its name alone among the others.
"""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEFAULT_PATH = f"{_SYSTEM}:{Path(sys.executable).parent}"
"""The PATH of commands when none is given: the system's folders, then the interpreter's."""

_SHELL = frozenset(
    """. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare
    dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill
    let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt
    source suspend test times trap true type typeset ulimit umask unalias unset wait
    case coproc do done elif else esac fi for function if in select then time until while""".split()
)
"""What bash itself is meant by, whatever programs there are."""


def find_program(name: str, path: str = DEFAULT_PATH) -> str | None:
    """The full path of a program, or None."""
    return shutil.which(name, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of commands: those of the machine, and those of one workspace."""

    path: str = DEFAULT_PATH
    """As the operator has it: where a program is looked for, and in which order."""
    roots: tuple[Path, ...] = ()
    """Folders that agents write in."""

    def elsewhere(self, workspace: Path) -> str:
        """The PATH without what is relative, or lies where agents write."""
        kept = [entry for entry in self._entries() if not self._is_written(entry, workspace)]
        return ":".join(kept) or _SYSTEM

    def of_machine(self, name: str, workspace: Path) -> str | None:
        """The full path of a program that no agent wrote."""
        path = self.elsewhere(workspace)
        return next(
            (found for found in _found(name, path) if not self._is_written(found, workspace)), None
        )

    def of_workspace(self, name: str, workspace: Path) -> str | None:
        """The full path of the workspace's own program, where PATH names that first."""
        found = next(_found(name, ":".join(self._entries())), None)
        return found if found is not None and _is_in(found, (workspace,)) else None

    def _entries(self) -> list[str]:
        return [entry for entry in self.path.split(":") if os.path.isabs(entry)]

    def _is_written(self, path: str, workspace: Path) -> bool:
        return _is_in(path, (workspace, *self.roots)) or _is_open_to_all(path)


def _found(name: str, path: str) -> Iterator[str]:
    """Every program of that name, in the order of the PATH."""
    if "/" in name or name in _SHELL:
        return
    for entry in path.split(":"):
        found = shutil.which(name, path=entry)
        if found is not None:
            yield found


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _is_in(path: str, folders: tuple[Path, ...]) -> bool:
    """Whether a path lies in one of the folders, by its name or by what that leads to."""
    places = {Path(os.path.normpath(path)), Path(os.path.realpath(path))}
    known = {place for folder in folders for place in (folder, Path(os.path.realpath(folder)))}
    return any(place in known or not known.isdisjoint(place.parents) for place in places)
