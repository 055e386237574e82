"""The guarded names of a workspace, and which of them are new.

`domain.paths` defines these names. A look before a command finds what its box must bind; another
look after it shows what is new. In a folder that git would take for a git directory, whatever its
name, git's own names are guarded: HEAD, config, hooks and the like.

The names in the root are always read, however many there are. A folder that cannot be read is
guarded itself. Folders with too many names are `unlooked`, and whoever runs a command must know of
them.
"""

import errno
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import (
    PROGRAM_FOLDERS,
    Guard,
    command_guard,
    folded,
    installed,
    is_secret,
    write_guard,
)
from gonogo.workspace.files.safe_open import (
    READING,
    best_opener,
    check_regular,
    open_component,
    opened,
    read_all,
)
from gonogo.workspace.sandbox.process import find_program
from gonogo.workspace.snapshots.scan import FoundFile, Signature, settled
from gonogo.workspace.snapshots.states import parents

SCAN_LIMIT = 100_000
"""The most names that are looked at, without those in folders of installed packages."""
INSTALLED_LIMIT = 1_000_000
"""The most names in folders of installed packages that are looked at."""

_GIT = frozenset(
    """head config config.worktree hooks info objects refs packed-refs commondir gitdir modules
    worktrees branches remotes""".split()
)
"""Names that git obeys in a git directory, in lower case."""
_HEADING = re.compile(r'\[([A-Za-z0-9-]+)(?: "[^"\\]*")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=\s*(?:[^\\;#\"\s-][^\\;#\"]*)?")
_USUAL = {
    "core": """repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode
        symlinks protecthfs protectntfs""".split(),
    "remote": "url fetch tagopt promisor partialclonefilter".split(),
    "branch": "remote merge rebase".split(),
    "extensions": "objectformat refstorage partialclone".split(),
    "submodule": "url active".split(),
}
"""Settings by which git runs no other program, in lower case."""
_LONGEST = 1 << 20
"""The most bytes of a repository's settings that are read."""
_REMEMBERED = 16
"""How many workspaces are remembered."""
_MAX_PATH = 3_000
"""The most bytes of a path; a longer one could not be bound."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuardedName(Struct, frozen=True):
    """One guarded name."""

    path: str
    """Relative to the workspace; bytes that are not UTF-8 are surrogates."""
    guard: Guard | None
    """None: only together with other names it would make its folder a repository."""
    mark: str
    """What is there, as `sort:folder:which`; the last is an inode, or the target of a link."""
    installed: bool = False
    """It is inside a folder of installed packages."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mark.startswith("link:")

    @property
    def is_repository(self) -> bool:
        """Whether it belongs to what makes a folder a git repository."""
        return self.guard == "deny" and folded(self.name) in {".git", *_GIT}

    def is_like(self, mark: str | None) -> bool:
        """Whether the same sort of thing was here before; a link must have the same target.

        In another folder, even of the same name, it is a different thing.
        """
        if mark is None:
            return False
        *before, which = mark.split(":", 2)
        *now, this = self.mark.split(":", 2)
        return before == now and (not self.is_link or which == this)


class _Record(Struct, frozen=True):
    """The names of interest in one folder; valid as long as the folder's signature is the same."""

    signature: Signature | None
    count: int
    folders: tuple[str, ...]
    names: tuple[GuardedName, ...]


class Guarded(Struct):
    """The guarded names of a workspace at one moment."""

    root: Path
    names: dict[str, GuardedName] = field(default_factory=dict[str, GuardedName])
    unlooked: list[str] = field(default_factory=list[str])
    """Folders that were not looked into, because there are too many names."""
    is_over: bool = False
    """There are more names than the limit, including those in the root itself."""
    records: dict[str, _Record] = field(default_factory=dict[str, _Record])

    @property
    def missed(self) -> set[str]:
        """The folders that a person must know of before a command may run; the root is `.`."""
        return {*self.unlooked} or ({"."} if self.is_over else set())

    @property
    def protected(self) -> list[Path]:
        """Files and folders that nothing may change."""
        denied = (self._place(each) for each in self.names.values() if each.guard == "deny")
        return sorted({*filter(None, denied)})

    def programs(self, may_change: Callable[[str], bool]) -> list[Path]:
        """Folders of installed programs that must not be changed.

        Args:
            may_change: Whether a person has allowed to change a path.
        """
        known = [each for path, each in self.names.items() if installed(path) == "program"]
        let = [each.path for each in known if may_change(each.path)]
        free = {above for path in let for above in (path, *parents(path))}
        places = (self._place(self.names[path]) for path in topmost(known) if path not in free)
        return [place for place in places if place is not None]

    @property
    def secret(self) -> set[Path]:
        """Files and folders that look like secrets."""
        return {
            self.root / path
            for path, each in self.names.items()
            if each.guard and not each.is_link and is_secret(path)
        }

    @property
    def marks(self) -> dict[str, str]:
        """All names with their marks, for a later comparison."""
        return {path: each.mark for path, each in self.names.items()}

    def renewed(self) -> "Guarded":
        """Look again: only folders that have changed are read."""
        return _looked(self.root, self.records)

    def since(self, marks: Mapping[str, str]) -> list[GuardedName]:
        """The guarded names that are new since these marks were taken.

        A name that was moved together with its folder is not new. Neither is one that belongs to
        another user: no command of ours can have made it.
        """
        moved = {(path.rpartition("/")[2], mark) for path, mark in marks.items()}
        return [
            each
            for path, each in sorted(self.names.items())
            if each.guard is not None
            and not each.is_like(marks.get(path))
            and (each.name, each.mark) not in moved
            and _is_ours(self.root / path)
        ]

    def _place(self, each: GuardedName) -> Path | None:
        """The path to bind for a name; None if nothing is bound for it."""
        path = self.root / each.path
        if each.is_link:
            # The target may have any name, but others run it by the name of the link.
            real = Path(os.path.realpath(path))
            return real if self.root in real.parents and os.path.exists(real) else None
        is_bound = not each.installed or each.is_repository or each.guard == "ask"
        return path if is_bound else None


def topmost(names: Iterable[GuardedName]) -> list[str]:
    """The paths of those names that are not below another one."""
    paths = {each.path for each in names}
    return sorted(path for path in paths if paths.isdisjoint(parents(path)))


def is_harmless(workspace: Path, each: GuardedName) -> bool:
    """Whether a new repository has nothing in it that git would run by itself.

    This holds for the result of `git init` or `git clone`. A name that is not part of a repository
    counts as harmless here.
    """
    place = workspace / each.path
    if not each.is_repository:
        return True
    if folded(each.name) == ".git":
        return not each.is_link and place.is_dir() and _runs_nothing(place)
    return _runs_nothing(place.parent)


def take_away(workspace: Path, paths: Iterable[str], to: Path) -> list[str]:
    """Move what is at these paths into a folder of gonogo; links are moved, never followed.

    It can be repeated after a crash: paths that are gone already are skipped.

    Returns:
        The paths at which there was something.

    Raises:
        OSError: something cannot be moved; it is still in its place, or in both places.
    """
    return [path for path in paths if _taken(workspace, path, to)]


def guarded_paths(workspace: Path) -> Guarded:
    """Look for the guarded names of a workspace.

    Raises:
        ToolFailed: `io_error`, if not even the root of the workspace can be read.
    """
    return _looked(workspace, {})


class Guards:
    """Looks for the guarded names of any number of workspaces, and remembers them."""

    def __init__(self) -> None:
        self._last: dict[Path, Guarded] = {}
        self._lock = threading.Lock()

    def look(self, workspace: Path) -> Guarded:
        """The guarded names now; folders that have not changed since the last look are not read.

        Raises:
            ToolFailed: as `guarded_paths`.
        """
        with self._lock:
            last = self._last.pop(workspace, None)
        found = guarded_paths(workspace) if last is None else last.renewed()
        with self._lock:
            self._last[workspace] = found
            if len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
        return found


def _looked(root: Path, known: Mapping[str, _Record]) -> Guarded:
    survey = _Survey(root, known)
    survey.run()
    return survey.found


class _Survey:
    """One walk through a workspace, the upper folders first."""

    def __init__(self, root: Path, known: Mapping[str, _Record]) -> None:
        self.found = Guarded(root)
        self._known = known
        self._room = {False: SCAN_LIMIT, True: INSTALLED_LIMIT}
        self._now = time.time_ns()

    def run(self) -> None:
        todo = deque([_Folder("", os.fspath(self.found.root))])
        while todo:
            folder = todo.popleft()
            record = self._record(folder)
            if record is None:
                continue
            self._room[folder.installed] -= record.count
            self.found.records[folder.path] = record
            self._take(record.names)
            todo.extend(map(folder.below, record.folders))
        self.found.is_over = bool(self.found.unlooked) or min(self._room.values()) < 0

    def _take(self, names: Iterable[GuardedName]) -> None:
        self.found.names.update((each.path, each) for each in names)

    def _record(self, folder: "_Folder") -> _Record | None:
        """The record of a folder; None if it cannot be read, or the folder is gone."""
        if len(os.fsencode(folder.place)) > _MAX_PATH:
            self._take([folder.sealed])
            return None
        try:
            return self._looked_into(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if not folder.path:
                raise ToolFailed(
                    "io_error", "The workspace cannot be read: {error}", error=error.strerror
                ) from error
            self._take([folder.sealed])
            return None

    def _looked_into(self, folder: "_Folder") -> _Record | None:
        # The root is always read completely.
        room = self._room[folder.installed] if folder.path else sys.maxsize
        known = self._known.get(folder.path)
        if known is None or known.signature != folder.signature:
            known = folder.read(room, self._now)
        if known is not None and known.count <= room:
            return known
        self.found.unlooked.append(folder.path)
        self._take(folder.repository())
        return None


class _Folder(Struct, frozen=True):
    """A folder to look into."""

    path: str
    place: str
    installed: bool = False
    """It is part of installed packages, so only denied names and programs count in it."""

    @property
    def signature(self) -> Signature:
        """A value that changes when its names change."""
        return FoundFile(self.path, os.lstat(self.place)).signature

    @property
    def sealed(self) -> GuardedName:
        """The folder itself as a guarded name, if it cannot be looked into."""
        return GuardedName(self.path, "deny", "sealed:-:-")

    def below(self, name: str) -> "_Folder":
        """A subfolder."""
        path = self._path(name)
        return _Folder(path, f"{self.place}/{name}", installed(path) == "package")

    def read(self, room: int, now: int) -> _Record | None:
        """Read the names of interest; None if the folder has more names than `room`."""
        with _opened(self.place) as folder:
            status = os.fstat(folder)
            count, guards, folders = self._listed(folder, room)
            if count > room:
                return None
            names = [self._named(folder, status, *item) for item in guards.items()]
        return _Record(
            signature=settled(FoundFile(self.path, status).signature, now),
            count=count,
            folders=tuple(name for name in folders if guards.get(name) != "deny"),
            names=tuple(each for each in names if each is not None),
        )

    def repository(self) -> Iterator[GuardedName]:
        """The `.git` of a folder with too many names: the only name that is looked for there."""
        with suppress(OSError), _opened(self.place) as folder:
            found = self._named(folder, os.fstat(folder), ".git", "deny")
            if found is not None:
                yield found

    def _listed(self, folder: int, room: int) -> tuple[int, dict[str, Guard | None], list[str]]:
        """The number of names, the names of interest with their guards, and the subfolders."""
        guards: dict[str, Guard | None] = {}
        folders: list[str] = []
        count = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > room:
                    break
                guard = self._guard(entry)
                if guard is not None or folded(entry.name) in _GIT:
                    guards[entry.name] = guard
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
        git = [name for name in guards if folded(name) in _GIT]
        if _is_git({folded(name) for name in git}):
            guards.update(dict.fromkeys(git, "deny"))
        return count, guards, folders

    def _guard(self, entry: os.DirEntry[str]) -> Guard | None:
        name, path = entry.name, self._path(entry.name)
        if self.installed:
            # There are very many files here, and for nearly all the name is enough to decide.
            if _is_denied(name):
                return "deny"
            is_program = folded(name) in PROGRAM_FOLDERS and installed(path) == "program"
            return "ask" if is_program else None
        # A link counts as the stricter case, as nobody has looked at its target.
        return write_guard(path) if entry.is_symlink() else command_guard(path)

    def _named(
        self, folder: int, above: os.stat_result, name: str, guard: Guard | None
    ) -> GuardedName | None:
        try:
            status = os.lstat(name, dir_fd=folder)
            which = str(status.st_ino)
            sort = "folder" if stat.S_ISDIR(status.st_mode) else "file"
            if stat.S_ISLNK(status.st_mode):
                leads = "" if os.path.exists(f"{self.place}/{name}") else "nowhere:"
                sort, which = "link", f"{leads}{os.readlink(name, dir_fd=folder)}"
        except OSError:
            return None
        mark = f"{sort}:{above.st_ino}:{which}"
        return GuardedName(self._path(name), guard, mark, self.installed)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


@contextmanager
def _opened(place: str) -> Generator[int]:
    folder = os.open(place, _FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


def _is_git(names: set[str]) -> bool:
    """Whether a folder with these names is a git directory: git's setup.c, is_git_directory."""
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


def _runs_nothing(folder: Path) -> bool:
    """Whether a git folder has only settings and hooks that git itself writes there."""
    try:
        settings = _settings_in(folder).decode("utf-8", "replace").splitlines()
        hooks = list((folder / "hooks").iterdir()) if (folder / "hooks").is_dir() else []
    except (OSError, ToolFailed):
        return False
    # By another name (a hard link) the same file could be changed from outside.
    own = (folder / "config", folder / "HEAD", *hooks)
    if any(path.is_symlink() or not path.is_file() or path.stat().st_nlink > 1 for path in own):
        return False
    others = (folder / name for name in ("config.worktree", "commondir", "modules", "worktrees"))
    if any(os.path.lexists(path) for path in others) or (folder / "hooks").is_symlink():
        return False
    return all(path.suffix == ".sample" for path in hooks) and _is_usual(settings)


def _settings_in(folder: Path) -> bytes:
    """The settings; fails if the file is a link, a pipe, or too long."""
    with (
        _opened(os.fspath(folder)) as place,
        opened(open_component, place, "config", READING) as file,
    ):
        check_regular(file, "config")
        return read_all(file, "config", _LONGEST)


def _is_usual(settings: Iterable[str]) -> bool:
    section = ""
    for line in filter(None, map(str.strip, settings)):
        if heading := _HEADING.fullmatch(line):
            section = heading[1].lower()
            continue
        setting = _SETTING.fullmatch(line)
        # For a URL such as `x::y`, git runs the program git-remote-x.
        if setting is None or "::" in line or setting[1].lower() not in _USUAL.get(section, ()):
            return False
    return True


def _taken(workspace: Path, path: str, to: Path) -> bool:
    parent, _, name = path.rpartition("/")
    target = to / path
    while os.path.lexists(target):
        target = target.with_name(f"{target.name}~")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError, NotADirectoryError), ExitStack() as stack:
        root = stack.enter_context(_opened(os.fspath(workspace)))
        folder = stack.enter_context(opened(best_opener(), root, parent or ".", _FOLDER))
        try:
            os.rename(name, target, src_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _moved_over(Path(f"/proc/self/fd/{folder}") / name, target)
        return True
    return False


def _moved_over(source: Path, target: Path) -> None:
    """Move to another file system: the copy is complete before the original is removed."""
    half = target.with_name(f"{target.name}.half")
    if source.is_symlink() or not source.is_dir():
        shutil.copy2(source, half, follow_symlinks=False)
        os.rename(half, target)
        os.unlink(source)
        return
    for folder, _, _ in os.walk(source):
        os.chmod(folder, 0o700)
    shutil.rmtree(half, ignore_errors=True)
    # Pipes, sockets and devices have no content to keep, so errors for them do not matter.
    with suppress(shutil.Error):
        shutil.copytree(source, half, symlinks=True)
    os.rename(half, target)
    shutil.rmtree(source)


@lru_cache(maxsize=65_536)
def _is_denied(name: str) -> bool:
    return write_guard(name) == "deny"


def _is_ours(path: Path) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return True


# Repositories of a workspace, as the box of `git add` and `git commit` shows them.
#
# git starts programs that its settings name: filters, signers, watchers of files, pagers, helpers.
# In that box only those settings of a repository are visible that are known to start nothing
# (https://git-scm.com/docs/git-config): a list of dangerous ones would grow with each version of
# git. Settings that lead git out of the workspace are not visible either: work trees are where git
# finds them. The files of the repositories on the disk do not change.

_MOST = 500
"""The most files with settings."""
_TIME = 10.0
"""The most seconds to read one."""
_OBEYED = """config config.worktree hooks info modules worktrees branches remotes commondir gitdir
    objects/info""".split()
"""Names in a repository that lead git elsewhere, or that it runs."""
_SETTINGS = frozenset({"config", "config.worktree"})
_HARMLESS = {
    "core": """repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode
        symlinks protecthfs protectntfs autocrlf eol safecrlf quotepath trustctime
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
    """The git folder of a workspace; None if there is none, or `.git` is a file or a link."""
    git = workspace / ".git"
    return git if git.is_dir() and not git.is_symlink() else None


def obeyed(repository: Path) -> Iterator[Path]:
    """The paths that stay read-only in a git folder that may be written."""
    places = (repository / name for name in _OBEYED)
    return (place for place in places if os.path.lexists(place))


def plain_settings(guarded: Guarded, search_path: str) -> dict[Path, bytes]:
    """The settings of a workspace's repositories, without those that could start a program.

    If the workspace's own repository has no name of a person, it gets that of the user of gonogo.

    Raises:
        ToolFailed: `io_error` if they cannot be read, `too_many_files`.
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
    """Descriptors from which another process can read these contents, each with its file."""
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
    """The files with settings of a repository, its submodules, and its other work trees."""
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
    """The author's name and email, from the global settings of the user of gonogo."""
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
