"""What `gonogo doctor` looks at. Nothing is changed, and no owner is needed."""

import getpass
import os
import platform
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import asdict

from gonogo.cli.folder import Folder
from gonogo.domain.errors import GonogoError
from gonogo.settings import Settings

State = Literal["ok", "weak", "bad"]


class Check(Struct, frozen=True):
    """One finding. `weak` works with less; `bad` has to be mended first."""

    name: str
    state: State
    text: str

    def as_json(self) -> dict[str, str]:
        """The finding as a JSON object."""
        return asdict(self)


async def findings(settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[Check]:
    """Look at everything that gonogo needs, one after the other."""
    yield _python()
    yield _program(
        "git", "subtasks of plans cannot change files, as nothing could be undone; install git"
    )
    boxed = await anyio.to_thread.run_sync(_bubblewrap)
    yield boxed
    if settings.diagnostics is not None:
        yield _diagnostics(settings.diagnostics, is_boxed=settings.sandbox and boxed.state == "ok")
    yield _program("rg", "code is searched in Python, more slowly; install ripgrep")
    for check in _models(settings, environment):
        yield check
    yield _state_folder(settings.home)
    yield _owner(settings.home)
    if (lingering := _lingering(getpass.getuser())) is not None:
        yield lingering
    yield await anyio.to_thread.run_sync(_database, settings)
    if settings.oidc_issuer is not None:
        yield await _identity(settings)
    if settings.mcp_file.exists():
        async for check in _servers(settings, environment):
            yield check


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _program(name: str, without: str) -> Check:
    found = shutil.which(name)
    return Check(name, "ok", found) if found else Check(name, "weak", f"not found: {without}")


def _bubblewrap() -> Check:
    found = shutil.which("bwrap")
    without = "so commands that run repository code ask each time"
    if not found:
        return Check("bubblewrap", "weak", f"not found, {without}; install bubblewrap")
    tried = subprocess.run(  # noqa: S603 - our own words
        [found, "--ro-bind", "/", "/", "--unshare-all", "true"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if tried.returncode:
        return Check("bubblewrap", "weak", f"does not work here, {without}: {tried.stderr.strip()}")
    return Check("bubblewrap", "ok", found)


def _diagnostics(command: str, *, is_boxed: bool) -> Check:
    if is_boxed:
        return Check("diagnostics", "ok", command)
    text = "the command of GONOGO_DIAGNOSTICS does not run, as it runs in the sandbox alone"
    return Check("diagnostics", "weak", text)


def _model(settings: Settings, environment: Mapping[str, str]) -> Check:
    from gonogo.llm import detect

    name = settings.model or detect(environment)
    if name is None:
        text = "none; set GONOGO_MODEL=provider:name and its key, or try gonogo demo"
        return Check("model", "weak", text)
    return Check("model", "ok", name)


def _models(settings: Settings, environment: Mapping[str, str]) -> Iterator[Check]:
    """The one model, or those of each role where a file names them."""
    from gonogo.runtime import look_at_models

    try:
        reports = look_at_models(settings, dict(environment))
    except GonogoError as error:
        yield Check("models", "bad", str(error))
        return
    if not reports:
        yield _model(settings, environment)
    for report in reports:
        state: State = "ok" if not report.problems else "weak" if report.works else "bad"
        text = "; ".join([", then ".join(report.models), *report.problems])
        yield Check(f"model to {report.role}", state, text)


def _state_folder(home: Path) -> Check:
    if not home.exists():
        return Check("state folder", "ok", f"{home} is created when it is needed")
    mode = stat.S_IMODE(home.stat().st_mode)
    if home.stat().st_uid != os.geteuid():
        return Check("state folder", "bad", f"{home} belongs to another user; set GONOGO_HOME")
    if mode & 0o077:
        return Check("state folder", "bad", f"others may enter {home}: chmod 700 {home}")
    if not os.access(home, os.W_OK | os.X_OK):
        return Check("state folder", "bad", f"{home} cannot be written: chmod 700 {home}")
    return Check("state folder", "ok", str(home))


def _owner(home: Path) -> Check:
    folder = Folder(home)
    if not folder.lock.exists():
        return Check("owner", "ok", "no process owns the state folder")
    with folder.owned() as ours:
        text = "no process owns the state folder" if ours else f"process {folder.owner()}"
    return Check("owner", "ok", text)


def _lingering(user: str, system: Path = Path("/")) -> Check | None:
    """Whether the process in the background outlives a logout, where the system says otherwise.

    systemd ends what a user has left with `KillUserProcesses=yes` (logind.conf(5)).
    """
    said = ""
    for file in sorted(system.glob("etc/systemd/logind.conf*")):
        for part in [file] if file.is_file() else sorted(file.glob("*.conf")):
            said += part.read_text(encoding="utf-8", errors="replace") + "\n"
    set_ = re.findall(r"(?m)^\s*KillUserProcesses\s*=\s*(\w+)", said)
    if set_[-1:] != ["yes"] or (system / "var/lib/systemd/linger" / user).exists():
        return None
    text = f"plans end when {user} logs out: loginctl enable-linger {user}"
    return Check("logout", "weak", text)


def _database(settings: Settings) -> Check:
    if settings.db and not settings.db.startswith("sqlite"):
        return Check("database", "ok", "a server; gonogo db migrate tries it")
    files = sorted(settings.home.glob("*.db")) if settings.home.exists() else []
    if not files:
        return Check("database", "ok", f"{settings.home} gets one when it is needed")
    for file in files:
        try:
            with sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=5) as database:
                database.execute("PRAGMA schema_version")
            if not os.access(file, os.W_OK):
                return Check("database", "bad", f"{file} cannot be written: chmod 600 {file}")
        except sqlite3.Error as error:
            return Check("database", "bad", f"{file}: {error}")
    return Check("database", "ok", str(files[0]))


async def _identity(settings: Settings) -> Check:
    from gonogo.runtime import look_for_keys

    try:
        return Check("identity provider", "ok", await look_for_keys(settings))
    except GonogoError as error:
        return Check("identity provider", "bad", str(error))


async def _servers(settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[Check]:
    """Each MCP server, started for this look alone."""
    from gonogo.runtime import look_at_servers

    for report in await look_at_servers(settings, environment):
        name = f"MCP server {report.name}"
        left_out = "".join(f"; not {tool}: {why}" for tool, why in report.refused.items())
        if report.state != "ready":
            yield Check(name, "bad", report.error or "it does not start")
            continue
        tools = ", ".join(report.tools) or "no tools"
        yield Check(name, "weak" if left_out else "ok", f"{tools}{left_out}")
