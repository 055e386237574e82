"""A process that appends events to a log, as the test that started it sees it."""

from pathlib import Path
from types import TracebackType

from fakes.nursery import Nursery

SECONDS = 30


class Writer:
    """A `store.writer`, from the moment when its store is open until its end."""

    def __init__(self, born: Nursery, url: str, name: str, count: int) -> None:
        talk = born.converse("store.writer", url, name, str(count), env={}, cwd=Path.cwd())
        self.process, self._typed, self.said = talk

    def __enter__(self) -> "Writer":
        assert self.said.readline() == "open\n"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        self.said.close()
        self._typed.close()

    def go(self) -> None:
        """Let it write."""
        self._typed.write("go\n")
        self._typed.flush()
