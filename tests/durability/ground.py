"""A folder in which servers come and go, and what must hold in it."""

import json
import os
import shutil
from pathlib import Path

from durability import story
from durability.invariants import check_invariants
from durability.person import Told
from durability.server import CANARY, Server
from fakes import template
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI
from plugins.nightly import is_nightly

SEED = int(os.environ.get("GONOGO_DURABILITY_SEED", "20260"))
"""Where the random points come from."""
EVERYTHING = is_nightly()


class Ground:
    """One folder in which servers come and go."""

    def __init__(self, folder: Path, model: FakeOpenAI, nursery: Nursery) -> None:
        self.folder, self.model = folder, model
        self.home = folder / "home"
        template.lay_out(self.home)
        self.workspace = story.lay_out(folder / "workspace")
        self.told = Told(folder / "told.jsonl")
        self.nursery = nursery
        self.environment: dict[str, str] = {}
        """What every server is given besides what it needs."""
        self._servers: list[Server] = []

    @property
    def log(self) -> Path:
        """What all of them have said on their errors."""
        return self.folder / "server.log"

    @property
    def database(self) -> Path | str:
        """Where it is: a file of SQLite, or the URL that the servers are given."""
        return self.environment.get("GONOGO_DB") or self.home / "gonogo.db"

    def server(self, *words: str, whole: bool = False) -> Server:
        """A new life; a `whole` one begins with a new Python.

        Args:
            words: Its command in the place of `serve`.
        """
        born = None if whole else self.nursery
        server = Server(
            self.folder, self.model.base_url, born, len(self._servers), self.environment,
            words or ("serve",),
        )  # fmt: skip
        self._servers.append(server)
        return server

    def snapshot(self) -> Path:
        """A copy of the database as it lies there, for looking at between two lives."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in self.home.glob("gonogo.db*"):
            shutil.copy(path, copy)
        return copy / "gonogo.db"

    def problems(self, *, settled: bool = True) -> list[str]:
        """What does not hold."""
        database = self.database if settled else self.snapshot()
        asked = self.model.requests
        told = self.told.events
        found = check_invariants(
            database, self.workspace if settled else None, story.ledger(self.workspace), asked,
            acknowledged=told, settled=settled, secrets=[CANARY],
        )  # fmt: skip
        wrong = [f"I28 {json.dumps(violation)}" for violation in self.model.violations]
        return found + wrong

    def close(self) -> None:
        for server in self._servers:
            server.kill()
