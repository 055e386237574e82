"""The box that commands run in: bubblewrap, and what it shows of the machine.

Inside, the workspace is writable but for its protected files, the rest of the system is read-only,
people's homes, sockets and what the caller hides are not there, and there is no network. Folders
on PATH and the interpreter's own stay readable where they lie inside a hidden home.
"""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gonogo.domain.paths import write_guard
from gonogo.workspace._programs import DEFAULT_PATH, find_program

PRIVATE_HOME = "/run/home"
"""The home of commands in the box, where /run is empty and its own."""
SCAN_LIMIT = 100_000
"""Names of the workspace that are looked at to find protected ones."""

_EMPTY = ("/home", "/root", "/tmp", "/var/tmp", "/run")  # noqa: S108
_PROBE_TIME = 10.0
_NOT_SCANNED = frozenset({"node_modules", ".venv", "venv", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What one command's box contains."""

    workspace: Path
    cwd: Path
    hidden: tuple[Path, ...] = ()
    search_path: str = DEFAULT_PATH
    network: bool = False
    read_only: bool = False
    """The workspace too."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A bubblewrap that works on this machine."""

    program: str

    @staticmethod
    def detect() -> "Sandbox | None":
        """Try bubblewrap once; None where it is missing or may not make namespaces."""
        program = find_program("bwrap")
        if program is None:
            return None
        sandbox = Sandbox(program)
        with tempfile.TemporaryDirectory() as folder:
            return sandbox if sandbox._works(Path(folder).resolve()) else None

    def wrap(self, argv: Sequence[str], box: Box) -> list[str]:
        """The command line that runs `argv` in the box."""
        return [
            self.program,
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *(["--share-net"] if box.network else []),
            *_mounts(box),
            *("--dir", PRIVATE_HOME, "--chdir", str(box.cwd), "--"),
            *argv,
        ]

    def _works(self, folder: Path) -> bool:
        argv = self.wrap(["/bin/sh", "-c", "exit 42"], Box(workspace=folder, cwd=folder))
        try:
            done = subprocess.run(  # noqa: S603 - our own command line
                argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_TIME
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 42


def _mounts(box: Box) -> Iterable[str]:
    """The mounts over the read-only system; the deepest folder that holds a path decides."""
    empty = {
        path for path in map(Path, _EMPTY) if path.is_dir() and not path.is_symlink()
    } | _homes()
    hidden = {path.resolve() for path in box.hidden}
    folders = {path for path in empty | hidden if path.is_dir()} - {box.workspace}
    mounts = [(path, "--tmpfs") for path in folders]
    mounts += [(path, "--ro-bind-try") for path in _kept(box, empty, hidden)]
    mounts.append((box.workspace, "--ro-bind" if box.read_only else "--bind"))
    mounts += [(path, "--ro-bind-try") for path in protected_paths(box.workspace)]
    mounts.sort(key=lambda mount: (len(mount[0].parts), mount[1] != "--tmpfs"))
    for path, option in mounts:
        yield from (option, str(path)) if option == "--tmpfs" else (option, str(path), str(path))
    for path in hidden:
        if path.is_file():
            yield from ("--ro-bind", "/dev/null", str(path))


def _kept(box: Box, empty: set[Path], hidden: set[Path]) -> set[Path]:
    """Programs' folders that would vanish with a hidden one, and that are no home themselves."""
    wanted = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    for entry in filter(None, box.search_path.split(":")):
        folder = Path(entry)
        wanted.add(folder.parent if folder.name == "shims" else folder)
    if box.network:
        wanted.add(Path("/etc/resolv.conf").resolve().parent)
    true = {path.resolve() for path in wanted if path.is_absolute() and path.is_dir()}
    return {
        path
        for path in true - hidden
        if any(path.is_relative_to(folder) for folder in empty | hidden)
        and not any(folder.is_relative_to(path) for folder in empty)
        and not path.is_relative_to(box.workspace)
    }


def protected_paths(workspace: Path) -> list[Path]:
    """The files and folders that stand in the workspace now and that nothing may change."""
    found: list[Path] = []
    seen = 0
    for folder, names, files in os.walk(workspace):
        below = Path(folder)
        seen += len(names) + len(files)
        if seen > SCAN_LIMIT:
            break
        # What lies in a guarded folder is not walked, so a name alone decides.
        guarded = [name for name in (*names, *files) if _denied(name)]
        found += [below / name for name in guarded if not (below / name).is_symlink()]
        names[:] = [name for name in names if name not in guarded and name not in _NOT_SCANNED]
    return found


@lru_cache(maxsize=65_536)
def _denied(name: str) -> bool:
    return write_guard(name) == "deny"


def _homes() -> set[Path]:
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return set()
    return {home} - {Path("/")}
