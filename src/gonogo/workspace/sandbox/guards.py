"""The guarded names of a workspace: what others run, obey or keep secret, and what of it is new.

`domain.paths` says which names these are. Looked for before a command they are what its box binds;
looked for again when it is over, they tell what came meanwhile. A folder whose names make it a git
directory, whatever it is called, has git's own names guarded: HEAD, config, hooks and the like.

The root's own names are always looked at, however many there are. A folder that cannot be looked
into is guarded itself; what is too much to be looked at is `unlooked`, and whoever runs a command
has to know.
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
"""Names that are looked at, those in folders of installed packages left aside."""
INSTALLED_LIMIT = 1_000_000
"""Names in folders of installed packages that are looked at."""

_GIT = frozenset(
    """head config config.worktree hooks info objects refs packed-refs commondir gitdir modules
    worktrees branches remotes""".split()
)
"""What git obeys in a folder that it takes for one of its own."""
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
"""Bytes of the settings of a repository that is looked at."""
_REMEMBERED = 16
"""Workspaces."""
_MAX_PATH = 3_000
"""Bytes; what lies deeper could not be bound."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuardedName(Struct, frozen=True):
    """One name that needs care."""

    path: str
    """Relative to the workspace; bytes that are no UTF-8 are surrogates."""
    guard: Guard | None
    """None: with others it would make its folder a repository."""
    mark: str
    """What stands there: its sort, the folder that it lies in, and which one it is."""
    installed: bool = False
    """It lies among installed packages."""

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
        """Whether it is what makes a folder a git repository."""
        return self.guard == "deny" and folded(self.name) in {".git", *_GIT}

    def is_like(self, mark: str | None) -> bool:
        """Whether the same sort of thing stood here, and of a link the very same.

        In another folder of the same name it is another thing: what is bound stays in its folder.
        """
        if mark is None:
            return False
        *before, which = mark.split(":", 2)
        *now, this = self.mark.split(":", 2)
        return before == now and (not self.is_link or which == this)


class _Record(Struct, frozen=True):
    """What one folder holds; as long as its signature stays, so does this."""

    signature: Signature | None
    count: int
    folders: tuple[str, ...]
    names: tuple[GuardedName, ...]


class Guarded(Struct):
    """What stands in a workspace at one moment and needs care."""

    root: Path
    names: dict[str, GuardedName] = field(default_factory=dict[str, GuardedName])
    unlooked: list[str] = field(default_factory=list[str])
    """Folders that were not looked into, since there are too many names."""
    is_over: bool = False
    """There are more names than are looked at, those of the root itself included."""
    records: dict[str, _Record] = field(default_factory=dict[str, _Record])

    @property
    def missed(self) -> set[str]:
        """What a person is told of before a command runs all the same; the root is `.`."""
        return {*self.unlooked} or ({"."} if self.is_over else set())

    @property
    def protected(self) -> list[Path]:
        """Files and folders that nothing may change."""
        denied = (self._place(each) for each in self.names.values() if each.guard == "deny")
        return sorted({*filter(None, denied)})

    def programs(self, may_change: Callable[[str], bool]) -> list[Path]:
        """Folders of installed programs that nobody let be changed.

        Args:
            may_change: Whether somebody did, by the path.
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
        """All names with what stands there, to be compared with later."""
        return {path: each.mark for path, each in self.names.items()}

    def renewed(self) -> "Guarded":
        """The same, now: only folders that have changed are read again."""
        return _looked(self.root, self.records)

    def since(self, marks: Mapping[str, str]) -> list[GuardedName]:
        """The guarded names that were not there when these marks were taken.

        What was moved together with its folder is not new, and neither is what belongs to somebody
        else than us: no command of ours can have made that.
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
        """Where a name's content lies, as far as it is bound."""
        path = self.root / each.path
        if each.is_link:
            # What it leads to may have any name, and others run it by this one.
            real = Path(os.path.realpath(path))
            return real if self.root in real.parents and os.path.exists(real) else None
        is_bound = not each.installed or each.is_repository or each.guard == "ask"
        return path if is_bound else None


def topmost(names: Iterable[GuardedName]) -> list[str]:
    """The paths of those that lie in none of the others."""
    paths = {each.path for each in names}
    return sorted(path for path in paths if paths.isdisjoint(parents(path)))


def is_harmless(workspace: Path, each: GuardedName) -> bool:
    """Whether a repository that came has nothing in it that git would run by itself.

    Of one that `git init` or `git clone` makes that is so. Names that make no repository are all
    alike here.
    """
    place = workspace / each.path
    if not each.is_repository:
        return True
    if folded(each.name) == ".git":
        return not each.is_link and place.is_dir() and _runs_nothing(place)
    return _runs_nothing(place.parent)


def take_away(workspace: Path, paths: Iterable[str], to: Path) -> list[str]:
    """Move what stands at these paths into a folder of ours; links are moved, never followed.

    It may be done again after a crash: what is gone already is gone.

    Returns:
        The paths at which something stood.

    Raises:
        OSError: something cannot be moved; it is still where it was, or in both places.
    """
    return [path for path in paths if _taken(workspace, path, to)]


def guarded_paths(workspace: Path) -> Guarded:
    """Look for what has to be guarded.

    Raises:
        ToolFailed: `io_error`, where not even the workspace's own names can be read.
    """
    return _looked(workspace, {})


class Guards:
    """The guarded names of any number of workspaces, looked for again and again."""

    def __init__(self) -> None:
        self._last: dict[Path, Guarded] = {}
        self._lock = threading.Lock()

    def look(self, workspace: Path) -> Guarded:
        """What stands there now: folders that have not changed since the last look are not read.

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
        """What a folder holds; None where that is not known, or the folder is gone."""
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
        # Of the root all is read.
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
    """A folder to be looked into."""

    path: str
    place: str
    installed: bool = False
    """What packages bring here is their own: only what is denied counts, and the programs."""

    @property
    def signature(self) -> Signature:
        """What changes with its names."""
        return FoundFile(self.path, os.lstat(self.place)).signature

    @property
    def sealed(self) -> GuardedName:
        """The folder itself, where nobody can look into it."""
        return GuardedName(self.path, "deny", "sealed:-:-")

    def below(self, name: str) -> "_Folder":
        """A folder in it."""
        path = self._path(name)
        return _Folder(path, f"{self.place}/{name}", installed(path) == "package")

    def read(self, room: int, now: int) -> _Record | None:
        """All that is of interest; None where there are more names than there is room for."""
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
        """The one name that is looked for in a folder with too many."""
        with suppress(OSError), _opened(self.place) as folder:
            found = self._named(folder, os.fstat(folder), ".git", "deny")
            if found is not None:
                yield found

    def _listed(self, folder: int, room: int) -> tuple[int, dict[str, Guard | None], list[str]]:
        """How many names it has, those that count with their guards, and the folders."""
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
            # There are very many, and of nearly all the name says enough.
            if _is_denied(name):
                return "deny"
            is_program = folded(name) in PROGRAM_FOLDERS and installed(path) == "program"
            return "ask" if is_program else None
        # A link leads to what nobody has looked at.
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
    """Whether git takes a folder with these names for one of its own: setup.c, is_git_directory."""
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


def _runs_nothing(folder: Path) -> bool:
    """Whether a git folder has only the settings and the hooks that git itself puts there."""
    try:
        settings = _settings_in(folder).decode("utf-8", "replace").splitlines()
        hooks = list((folder / "hooks").iterdir()) if (folder / "hooks").is_dir() else []
    except (OSError, ToolFailed):
        return False
    # Another name of the same file would change it from outside.
    own = (folder / "config", folder / "HEAD", *hooks)
    if any(path.is_symlink() or not path.is_file() or path.stat().st_nlink > 1 for path in own):
        return False
    others = (folder / name for name in ("config.worktree", "commondir", "modules", "worktrees"))
    if any(os.path.lexists(path) for path in others) or (folder / "hooks").is_symlink():
        return False
    return all(path.suffix == ".sample" for path in hooks) and _is_usual(settings)


def _settings_in(folder: Path) -> bytes:
    """The settings, unless they are a link, a pipe, or without an end."""
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
        # `x::y` has git run a program of that name.
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
    """Move to another file system: the copy is whole before the original goes."""
    half = target.with_name(f"{target.name}.half")
    if source.is_symlink() or not source.is_dir():
        shutil.copy2(source, half, follow_symlinks=False)
        os.rename(half, target)
        os.unlink(source)
        return
    for folder, _, _ in os.walk(source):
        os.chmod(folder, 0o700)
    shutil.rmtree(half, ignore_errors=True)
    # What is neither file, folder nor link has nothing in it that could be kept.
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
# In that box the settings of every repository are shown without those: only such as are known to
# start nothing are left (https://git-scm.com/docs/git-config). A list of what is dangerous would be
# longer with each version of git. Nor is a setting left that leads git out of the workspace: work
# trees are where git finds them. The repositories' own files stay as they are.

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
