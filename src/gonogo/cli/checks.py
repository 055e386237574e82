"""What `gonogo doctor` checks. It changes nothing, and needs no owner of the state folder."""

import getpass
import os
import platform
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import asdict

from gonogo.cli.folder import Folder
from gonogo.disks import disk_problem
from gonogo.domain.errors import GonogoError, because, together
from gonogo.domain.views import NodeView, PlaceView
from gonogo.settings import Settings

State = Literal["ok", "warn", "bad"]
_NAMED = 5


class Check(Struct, frozen=True):
    """One finding. `warn`: it works with less; `bad`: fix it first."""

    name: str
    state: State
    text: str
    """In English; a `Reason` can be translated."""

    def as_json(self) -> dict[str, str]:
        """The finding as a JSON object."""
        return asdict(self)


async def findings(settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[Check]:
    """Look at everything that gonogo needs, one after the other."""
    yield _python(settings.workspace)
    yield _program(
        "git",
        because(
            "not found: plans cannot change files, because nothing could be undone; install git"
        ),
    )
    boxed = await anyio.to_thread.run_sync(_bubblewrap)
    yield boxed
    if settings.diagnostics is not None:
        yield _diagnostics(settings.diagnostics, is_boxed=settings.sandbox and boxed.state == "ok")
    yield _program("rg", because("not found: code search is slower; install ripgrep"))
    for check in _models(settings, environment):
        yield check
    for check in _files(settings, environment):
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


def cluster_findings(nodes: Sequence[NodeView], places: Sequence[PlaceView]) -> Iterator[Check]:
    """Look at the servers and workers that share the work, as one of the servers sees them."""
    living = [node for node in nodes if node.status != "dead"]
    workers = [node for node in living if node.kind == "worker"]
    yield _living("servers", len(living) - len(workers), "gonogo serve --no-work")
    yield _living("workers", len(workers), "gonogo worker")
    yield _waiting(places, {node.pool for node in workers if node.status == "alive"})
    if living:
        yield _rules(workers)
        versions = ", ".join(sorted({node.version for node in living}))
        yield Check("versions", "warn" if "," in versions else "ok", versions)


def _rules(workers: Sequence[NodeView]) -> Check:
    others = [f"{node.host} {node.pid}" for node in workers if node.status == "other_rules"]
    if others:
        text = because(
            "these have other rules than the server that started last: {names}; give all servers "
            "and workers the same rules, then restart these", names=", ".join(others),
        )  # fmt: skip
        return Check("rules", "bad", text)
    return Check("rules", "ok", because("the same on all servers and workers"))


def _living(name: str, count: int, command: str) -> Check:
    if count:
        return Check(name, "ok", because("{count} running", count=count))
    return Check(name, "bad", because("none is running; start one with {command}", command=command))


def _waiting(places: Sequence[PlaceView], pools: Collection[str | None]) -> Check:
    stuck = [place.workspace for place in places if place.status in ("waiting", "lost")
             and place.pool not in pools]  # fmt: skip
    if not stuck:
        return Check("workspaces", "ok", because("{count} known", count=len(places)))
    text = because(
        "no worker of their pool is running: {names}; start one with gonogo worker --pool",
        names=", ".join(stuck[:_NAMED]),
    )
    return Check("workspaces", "bad", text)


def _python(workspace: Path) -> Check:
    from gonogo.workspace import own_code

    if own := own_code(workspace):
        text = because(
            "gonogo runs from {path}, inside the workspace: a command without a sandbox can change "
            "it; install it elsewhere, for example with uv tool install", path=own[0],
        )  # fmt: skip
        return Check("python", "warn", text)
    version = platform.python_version()
    return Check(
        "python", "ok", because("{version} at {path}", version=version, path=sys.executable)
    )


def _program(name: str, without: str) -> Check:
    found = _found(name)
    return Check(name, "ok", found) if found else Check(name, "warn", without)


def _found(name: str) -> str | None:
    """The path of the program that gonogo would use, perhaps not the first on the user's PATH."""
    from gonogo.workspace import find_program

    return find_program(name)


def _bubblewrap() -> Check:
    found = _found("bwrap")
    if not found:
        text = because(
            "not found: commands that run the repository's code need an approval each time; "
            "install bubblewrap"
        )
        return Check("bubblewrap", "warn", text)
    tried = subprocess.run(  # noqa: S603 - our own words
        [found, "--ro-bind", "/", "/", "--unshare-all", "true"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if tried.returncode:
        problem = because(
            "does not work here: commands that run the repository's code need an approval each "
            "time: {problem}",
            problem=tried.stderr.strip(),
        )
        return Check("bubblewrap", "warn", problem)
    return Check("bubblewrap", "ok", found)


def _diagnostics(command: str, *, is_boxed: bool) -> Check:
    if is_boxed:
        return Check("diagnostics", "ok", command)
    text = because(
        "the command in GONOGO_DIAGNOSTICS does not run, because there is no sandbox to run it in"
    )
    return Check("diagnostics", "warn", text)


def _models(settings: Settings, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the one model, or those of each role if a file names them."""
    from gonogo.llm import detect
    from gonogo.runtime import look_at_models

    is_one = not settings.models_file.is_file()
    if is_one and (settings.model or detect(environment)) is None:
        text = because("none; set GONOGO_MODEL=provider:name and its key, or try gonogo demo")
        yield Check("model", "warn", text)
        return
    try:
        reports = look_at_models(settings, dict(environment))
    except GonogoError as error:
        yield Check("models", "bad", error.args[0])
        return
    for report in reports:
        state: State = "ok" if not report.problems else "warn" if report.works else "bad"
        if is_one:
            yield Check("model", state, [*report.problems, *report.models][0])
        else:
            name = because("model to {role}", role=report.role)
            yield Check(name, state, "; ".join([" → ".join(report.models), *report.problems]))


def _files(settings: Settings, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the existing files of rules and hooks: with a defect in one, every start fails."""
    from gonogo.policy import load_reviews, load_rules
    from gonogo.webhooks import load_hooks

    admin, own, hooks = settings.admin_rules, settings.rules, settings.hooks_file
    is_public = settings.public_url is not None
    reads: dict[str, tuple[Sequence[Path | None], Callable[[], object]]] = {
        "rules": ((admin, own), lambda: (load_rules(admin, own), load_reviews(admin, own))),
        "hooks": ((hooks,), lambda: load_hooks(hooks, environment, links=is_public)),
    }
    for name, (named, read) in reads.items():
        if files := [str(file) for file in named if file is not None and file.exists()]:
            try:
                read()
            except GonogoError as error:
                yield Check(name, "bad", error.args[0])
            else:
                yield Check(name, "ok", ", ".join(files))


def _state_folder(home: Path) -> Check:
    if not home.exists():
        return Check(
            "state folder", "ok", because("{path} will be created when it is needed", path=home)
        )
    if problem := disk_problem(home):
        return Check("state folder", "bad", problem)
    mode = stat.S_IMODE(home.stat().st_mode)
    if home.stat().st_uid != os.geteuid():
        text = because("{path} belongs to another user; set GONOGO_HOME", path=home)
        return Check("state folder", "bad", text)
    if mode & 0o077:
        text = because("other users can enter {path}; fix it: chmod 700 {path}", path=home)
        return Check("state folder", "bad", text)
    if not os.access(home, os.W_OK | os.X_OK):
        text = because("{path} cannot be written; fix it: chmod 700 {path}", path=home)
        return Check("state folder", "bad", text)
    return Check("state folder", "ok", str(home))


def _owner(home: Path) -> Check:
    folder = Folder(home)
    nobody = because("no gonogo process uses this folder now")
    # Look at the lock without taking it: the folder may be read-only, and must not change.
    text = because("process {pid}", pid=folder.owner()) if folder.is_owned() else nobody
    return Check("owner", "ok", text)


def _lingering(user: str, system: Path = Path("/")) -> Check | None:
    """Check whether the background process outlives a logout, if systemd may end it.

    With `KillUserProcesses=yes`, systemd ends a user's processes at logout (logind.conf(5)).
    """
    said = ""
    for file in sorted(system.glob("etc/systemd/logind.conf*")):
        for part in [file] if file.is_file() else sorted(file.glob("*.conf")):
            said += part.read_text(encoding="utf-8", errors="replace") + "\n"
    set_ = re.findall(r"(?m)^\s*KillUserProcesses\s*=\s*(\w+)", said)
    if set_[-1:] != ["yes"] or (system / "var/lib/systemd/linger" / user).exists():
        return None
    text = because(
        "plans stop when {user} logs out; prevent it: loginctl enable-linger {user}", user=user
    )
    return Check("logout", "warn", text)


def _database(settings: Settings) -> Check:
    """Check briefly whether a start would refuse it; `gonogo db check` also reads all of it."""
    from gonogo.runtime import database_file, look_at_database

    try:
        file = database_file(settings)
        if file is None:
            return Check("database", "ok", because("a server; look at it with gonogo db check"))
        is_there = os.path.lexists(file)
        if is_there and (problem := _problem_of_file(file)):
            return Check("database", "bad", problem)
        look_at_database(settings, reads_all=False)
    except GonogoError as error:
        return Check("database", "bad", error.args[0])
    needed = because("it will be created in {path} when it is needed", path=file.parent)
    return Check("database", "ok", str(file) if is_there else needed)


def _problem_of_file(file: Path) -> str | None:
    if problem := disk_problem(file.parent):
        return problem
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as database:
            database.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        return because(
            "{path}: {problem}; look closer with gonogo db check", path=file, problem=error
        )
    if not os.access(file, os.W_OK):
        return because("{path} cannot be written; fix it: chmod 600 {path}", path=file)
    return None


async def _identity(settings: Settings) -> Check:
    from gonogo.runtime import look_for_keys

    try:
        return Check("identity provider", "ok", await look_for_keys(settings))
    except GonogoError as error:
        return Check("identity provider", "bad", error.args[0])


async def _servers(settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[Check]:
    """Check each MCP server, which is started only for this."""
    from gonogo.runtime import look_at_servers

    for report in await look_at_servers(settings, environment):
        name = because("MCP server {name}", name=report.name)
        if report.state != "ready":
            yield Check(name, "bad", report.error or because("it does not start"))
            continue
        tools = ", ".join(report.tools) or because("no tools")
        left_out = [
            because("{tool} is left out: {reason}", tool=tool, reason=why)
            for tool, why in report.refused.items()
        ]
        yield Check(name, "warn" if left_out else "ok", together([tools, *left_out]))
