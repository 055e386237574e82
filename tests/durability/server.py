"""`gonogo serve` as a process that can be killed, and a person's line to it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx

from durability.story import SESSION
from fakes.nursery import Nursery, python
from gonogo.client import Client
from gonogo.domain.errors import AlreadyDecided, Conflict

_URL = re.compile(r"http://127\.0\.0\.1:\d+")
_LINK = re.compile(r"http://127\.0\.0\.1:\d+/#code=[\w-]+")
STARTING = 60.0
CANARY = "sk-canary-0451"
"""The key of the model's provider, which must be written nowhere."""


class Server:
    """One life of the server."""

    def __init__(
        self,
        folder: Path,
        model_url: str,
        born: Nursery | None,
        number: int,
        more: Mapping[str, str] | None = None,
        words: Sequence[str] = ("serve",),
    ) -> None:
        self.home, self.workspace = folder / "home", folder / "workspace"
        environment = {
            **python(measured=False),
            "GONOGO_HOME": str(self.home),
            "GONOGO_CONFIG": str(folder / "config"),
            "GONOGO_WORKSPACE": str(self.workspace),
            "GONOGO_PORT": "0",
            "GONOGO_MODEL": "openai:scripted",
            # Races come faster than what one principal may ask for.
            "GONOGO_RATE_REQUESTS": "0",
            "GONOGO_RATE_MESSAGES": "0",
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": CANARY,
            **(more or {}),
        }
        self.log, self._out = folder / "server.log", folder / f"out.{number}"
        where = {"env": environment, "cwd": folder}
        with self.log.open("a") as log, self._out.open("w") as out:
            files = {"stdout": out.fileno(), "stderr": log.fileno()}
            self.process = (
                _whole(words, where, files)
                if born is None
                else born.start("gonogo", *words, **files, **where)
            )
        self.pid = self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait(self, says: re.Pattern[str] = _URL) -> "Server":
        """Wait until it listens, or says something else."""
        until = time.monotonic() + STARTING
        while not (found := self._out.exists() and says.search(self._out.read_text())):
            alive = self.is_alive and time.monotonic() < until
            assert alive, f"the server does not listen:\n{self.log.read_text()}"
            time.sleep(0.005)
        self.url = found[0]
        return self

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self._out.read_text()

    def kill(self) -> None:
        """End it as a power cut would, as far as it can tell."""
        self.process.kill()
        self.process.wait(timeout=STARTING)

    @property
    def link(self) -> str:
        """What opens the console, once; it is printed after the address."""
        until = time.monotonic() + STARTING
        while (found := _LINK.search(self._out.read_text())) is None:
            assert time.monotonic() < until, f"it prints no link:\n{self._out.read_text()}"
            time.sleep(0.005)
        return found[0]

    @property
    def token(self) -> str:
        return (self.home / "owner.token").read_text().strip()

    def client(self, busy: float = STARTING) -> Client:
        return Client(self.url, token=self.token, busy=busy)

    def http(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)


def _whole(
    words: Sequence[str], where: dict[str, Any], files: dict[str, int]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gonogo", *words]
    return subprocess.Popen(command, start_new_session=True, **files, **where)


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
        status = 503
        while status == 503:
            async with self._http.stream(
                "POST", "/agent/message/stream", json=body, headers=headers
            ) as answer:
                status = answer.status_code
                assert status in (200, 503), await answer.aread()
                pause = float(answer.headers.get("retry-after", 0))
            await anyio.sleep(pause)

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
