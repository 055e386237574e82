"""`gonogo serve` as a process that can be killed, and a person's line to it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from durability.story import SESSION
from gonogo.client import Client
from gonogo.domain.errors import AlreadyDecided, Conflict

_URL = re.compile(r"http://127\.0\.0\.1:\d+")
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
STARTING = 60.0
CANARY = "sk-canary-0451"
"""The key of the model's provider, which must be written nowhere."""


class Nursery:
    """A process whose forks are servers: they start at once, since it has imported everything."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def bear(self, **job: Any) -> int:
        """A new server's process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def nursery() -> Iterator[Nursery]:
    """The nursery, for as long as the block runs."""
    environment = {**os.environ, "PYTHONPATH": _python_path()}
    command = [sys.executable, str(Path(__file__).with_name("serve_driver.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Nursery(process)
        process.kill()


def _python_path() -> str:
    return os.pathsep.join(path for path in sys.path if path)


class Server:
    """One life of the server."""

    def __init__(self, folder: Path, model_url: str, born: Nursery | None, number: int) -> None:
        self.home, self.workspace = folder / "home", folder / "workspace"
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment = {
            **kept,
            "PYTHONPATH": _python_path(),
            "PYTHONUNBUFFERED": "1",
            "GONOGO_HOME": str(self.home),
            "GONOGO_CONFIG": str(folder / "config"),
            "GONOGO_WORKSPACE": str(self.workspace),
            "GONOGO_PORT": "0",
            "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": CANARY,
        }
        self.log, self._out = folder / "server.log", folder / f"out.{number}"
        self.process: subprocess.Popen[bytes] | None = None
        if born is not None:
            self.pid = born.bear(
                environment=environment, folder=str(folder), out=str(self._out), log=str(self.log)
            )
            return
        with self.log.open("a") as log, self._out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gonogo", "serve"],
                env=environment, cwd=folder, stdout=out, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.pid = self.process.pid

    @property
    def is_alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self) -> "Server":
        """Wait until it listens."""
        until = time.monotonic() + STARTING
        while not (found := self._out.exists() and _URL.search(self._out.read_text())):
            alive = self.is_alive and time.monotonic() < until
            assert alive, f"the server does not listen:\n{self.log.read_text()}"
            time.sleep(0.005)
        self.url = found[0]
        return self

    def kill(self) -> None:
        """End it as a power cut would, as far as it can tell."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        until = time.monotonic() + STARTING
        while self.is_alive:
            assert time.monotonic() < until, f"process {self.pid} cannot be killed"
            time.sleep(0.001)

    @property
    def token(self) -> str:
        return (self.home / "owner.token").read_text().strip()

    def client(self) -> Client:
        return Client(self.url, token=self.token)

    def http(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)


class Wire:
    """The line of a person who is a client of the server."""

    def __init__(self, client: Client, http: httpx.AsyncClient, session: str = SESSION) -> None:
        self._client, self._http, self._session = client, http, session

    async def say(self, content: str) -> None:
        body = {
            "session_id": self._session,
            "message": {"type": "user_message", "content": content},
        }
        headers = {"Idempotency-Key": f"said {content}"}
        async with self._http.stream(
            "POST", "/agent/message/stream", json=body, headers=headers
        ) as answer:
            assert answer.status_code == 200, await answer.aread()

    async def pending(self) -> list[Any]:
        return (await self._client.pending_approvals(self._session)).pending_approvals

    async def decide(self, approval_id: str, fields: dict[str, Any]) -> None:
        shown = await self._client.approval(approval_id)
        with suppress(AlreadyDecided, Conflict):
            await self._client.decide(approval_id, digest=shown.digest, **fields)

    @asynccontextmanager
    async def events(self, after: int) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async with aclosing(self._client.follow(self._session, after)) as bodies:
            yield bodies


def processes_in(folder: Path) -> list[str]:
    """The command lines of processes that work in a folder or name it."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            where = os.readlink(entry / "cwd")
            if words != [""] and (str(folder) in where or any(str(folder) in w for w in words)):
                found.append(" ".join(words))
    return found
