"""Batches: values that arrive together are written together.

Promises: `put` returns when its value is written, and raises when that value could not be; what is
wrong with one value touches no other. While one batch of a key is written, the next one gathers,
so many at once share a transaction and one alone waits for nobody.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


@dataclass(slots=True)
class _Batch(Generic[T]):
    items: list[T]
    written: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


class Batches(Generic[T]):
    """Gathers values by key and hands them to a function that writes several at once."""

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        self._write = write
        self._open: dict[str, _Batch[T]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def put(self, key: str, item: T) -> None:
        """Have a value written, with those that arrive at the same time."""
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch([item])
            await self._lead(key, batch)
        else:
            batch.items.append(item)
            await batch.written.wait()
        if batch.error is None:
            return
        if len(batch.items) == 1:
            raise batch.error
        await self._write([item])

    async def _lead(self, key: str, batch: _Batch[T]) -> None:
        lock = self._locks.setdefault(key, anyio.Lock())
        # The others of the batch must not suffer from a stop of the one that came first.
        with anyio.CancelScope(shield=True):
            async with lock:
                del self._open[key]
                # What fails as one batch is written one by one, so that each is told its own.
                try:
                    await self._write(batch.items)
                except Exception as error:
                    batch.error = error
                finally:
                    batch.written.set()
        if key not in self._open:
            self._locks.pop(key, None)
