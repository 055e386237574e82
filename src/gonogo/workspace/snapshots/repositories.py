"""Repositories of a workspace, as the box of `git add` and `git commit` shows them.

git starts programs that its settings name: filters, signers, watchers of files, pagers, helpers. In
that box the settings of every repository are shown without those: only such as are known to start
nothing are left (https://git-scm.com/docs/git-config). A list of what is dangerous would be longer
with each version of git. The repositories' own files stay as they are.
"""

import os
import pwd
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import folded
from gonogo.workspace.sandbox.guards import Guarded
from gonogo.workspace.sandbox.process import find_program

_MOST = 500
"""Files of settings."""
_TIME = 10.0
"""Seconds to read one."""
_OBEYED = """config config.worktree hooks info modules worktrees branches remotes commondir gitdir
    objects/info""".split()
"""What in a repository leads git elsewhere, or is run by it."""
_SETTINGS = frozenset({"config", "config.worktree"})
_HARMLESS = {
    "core": """repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode
        symlinks protecthfs protectntfs worktree autocrlf eol safecrlf quotepath trustctime
        checkstat abbrev compression loosecompression bigfilethreshold sharedrepository
        checkroundtripencoding""".split(),
    "extensions": """objectformat compatobjectformat refstorage partialclone worktreeconfig
        relativeworktrees preciousobjects noop noop-v1""".split(),
    "user": "name email useconfigonly".split(),
    "author": "name email".split(),
    "committer": "name email".split(),
    "commit": "cleanup status".split(),
    "i18n": "commitencoding logoutputencoding".split(),
    "index": "version skiphash threads".split(),
}


def own_repository(workspace: Path) -> Path | None:
    """The git folder of a workspace; None where a file or a link leads to it, or there is none."""
    git = workspace / ".git"
    return git if git.is_dir() and not git.is_symlink() else None


def obeyed(repository: Path) -> Iterator[Path]:
    """What stays as it is in a git folder that is written in."""
    places = (repository / name for name in _OBEYED)
    return (place for place in places if os.path.lexists(place))


def plain_settings(guarded: Guarded, search_path: str) -> dict[Path, bytes]:
    """The settings of a workspace's repositories, without all that could start anything.

    The workspace's own repository gets the name of the person that we run for, where it has none.

    Raises:
        ToolFailed: `io_error` where they cannot be read, `too_many_files`.
    """
    git = find_program("git", search_path)
    if git is None:
        raise ToolFailed("io_error", "This machine has no git; install git")
    files = sorted({*_files(guarded)})
    if len(files) > _MOST:
        raise ToolFailed(
            "too_many_files",
            "This folder has more than {most} repositories; open a smaller folder",
            most=_MOST,
        )
    found = {path: _read(git, path) for path in files}
    own = guarded.root / ".git/config"
    if own in found:
        person = _global_person(git)
        found[own] = {**person, **found[own]}
    return {path: _written(settings) for path, settings in found.items()}


@contextmanager
def held(contents: Mapping[Path, bytes]) -> Generator[dict[int, Path]]:
    """Descriptors from which another process reads these contents, each with its file."""
    with ExitStack() as stack:
        found: dict[int, Path] = {}
        for path, content in contents.items():
            memory = stack.enter_context(os.fdopen(os.memfd_create("settings"), "w+b", buffering=0))
            memory.write(content)
            memory.seek(0)
            found[memory.fileno()] = path
        yield found


def _files(guarded: Guarded) -> Iterator[Path]:
    for each in guarded.names.values():
        if not each.is_repository:
            continue
        place = guarded.root / each.path
        if folded(each.name) in _SETTINGS:
            yield place
        elif folded(each.name) == ".git" and not each.is_link and place.is_dir():
            yield from _inside(place)


def _inside(repository: Path) -> Iterator[Path]:
    """Those of a repository itself, of its submodules, and of its other work trees."""
    yield from (repository / name for name in _SETTINGS if os.path.lexists(repository / name))
    for part in ("modules", "worktrees"):
        for folder, below, names in os.walk(repository / part):
            below[:] = [name for name in below if name not in {"objects", "refs", "logs", "hooks"}]
            yield from (Path(folder) / name for name in names if name in _SETTINGS)


def _read(git: str, path: Path) -> dict[str, str | None]:
    if path.is_symlink() or not path.is_file():
        raise ToolFailed("io_error", "git's settings {name!r} are not a file", name=path.name)
    return _listed(git, ("--file", str(path), "--no-includes"), {})


def _global_person(git: str) -> dict[str, str | None]:
    """Whose commits these are, as the settings of the person say that we run for."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
        found = _listed(git, ("--global", "--includes"), {"HOME": home})
    except (KeyError, ToolFailed):
        return {}
    return {key: value for key, value in found.items() if key in {"user.name", "user.email"}}


def _listed(
    git: str, source: tuple[str, ...], environment: Mapping[str, str]
) -> dict[str, str | None]:
    """The harmless settings of one source, by their names."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words, no shell
            [git, "config", *source, "--null", "--list"], capture_output=True, timeout=_TIME,
            env={"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", **environment}, cwd="/", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(
            "io_error", "git's settings cannot be read: {error}", error=error
        ) from error
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise ToolFailed("io_error", "git's settings cannot be read: {error}", error=why)
    entries = filter(None, done.stdout.decode("utf-8", "surrogateescape").split("\0"))
    settings = (entry.partition("\n") for entry in entries)
    return {key: value if mark else None for key, mark, value in settings if _is_harmless(key)}


def _is_harmless(key: str) -> bool:
    section, _, name = key.partition(".")
    return name in _HARMLESS.get(section, ())


def _written(settings: Mapping[str, str | None]) -> bytes:
    return "".join(_line(*each) for each in settings.items()).encode("utf-8", "surrogateescape")


def _line(key: str, value: str | None) -> str:
    section, _, name = key.partition(".")
    if value is None:
        return f"[{section}]\n\t{name}\n"
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[{section}]\n\t{name} = "{quoted}"\n'
