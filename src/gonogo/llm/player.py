"""Plays a cassette: answers a provider's requests with what was recorded for them.

Nothing reaches the network. Ids of the recorded run that stand in a reply become those of this run.
"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
from msgspec import Struct
from pydantic_ai.models import create_async_httpx2_client

from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm.cassette import (
    ID,
    WITHHELD,
    HttpExchange,
    NormalForm,
    Redaction,
    agreed,
    body_of,
    bytes_of,
    difference,
    mapped,
    path_of,
    text_of,
    told_apart,
)
from gonogo.llm.model import Model, OnText

_NOT_RECORDED = 422


class Player(httpx2.AsyncBaseTransport):
    """Answers requests with what was recorded for them; reaches no network.

    A request that was not recorded, or is asked more often than it was, is answered with 422, which
    no provider's library tries again, and with where it differs from the nearest one.
    """

    def __init__(self, path: Path, exchanges: Sequence[HttpExchange], redaction: Redaction) -> None:
        """Take what was recorded."""
        self._path, self._exchanges, self._redaction = path, exchanges, redaction
        self._waiting: dict[str, deque[tuple[int, HttpExchange]]] | None = None
        self._names: dict[str, str] = {}
        self._lock = anyio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Find the exchange of a request, and answer as it was answered."""
        async with self._lock:
            found = await anyio.to_thread.run_sync(self._answered, request)
        if isinstance(found, str):
            error = {"type": "not_recorded", "code": _NOT_RECORDED, "message": found}
            return httpx2.Response(_NOT_RECORDED, json={"type": "error", "error": error})
        if found.status is None:
            raise _error_of(found)
        return httpx2.Response(found.status, headers=found.headers, stream=_Playing(found))

    def renamed(self, reply: Reply) -> Reply:
        """A reply in which the ids of the recorded run are those of this one."""
        if not self._names:
            return reply
        told = reply.model_dump(include={"text", "raw"}) | {
            "calls": [call.model_dump() for call in reply.calls]
        }
        fresh = mapped(told, lambda text: ID.sub(lambda f: self._names.get(f[0], f[0]), text))
        return Reply.model_validate({**reply.model_dump(), **fresh})

    def _answered(self, request: httpx2.Request) -> HttpExchange | str:
        """The next exchange of a request, or why there is none."""
        now = HttpExchange(
            model="", method=request.method, path=path_of(request), body=body_of(request)
        )
        form = NormalForm.of(now.body, self._redaction)
        waiting = self._index()
        same = waiting.get(form.digest(now))
        if same is None:
            return f"This request is not in {self._path.name}. {self._nearest(now, form)}"
        if not same:
            return f"This request is asked more often than it was recorded in {self._path.name}"
        number, found = same.popleft()
        if found.withheld:
            return f"{self._path.name}, exchange {number}: {WITHHELD}"
        ids = NormalForm.of(found.body, self._redaction).ids
        self._names |= {old: new for old, new in zip(ids, form.ids, strict=True) if old != new}
        return found

    def _index(self) -> dict[str, deque[tuple[int, HttpExchange]]]:
        """What was not played yet, by its request, each in the order of the recording."""
        if self._waiting is None:
            found = defaultdict[str, deque[tuple[int, HttpExchange]]](deque)
            for number, exchange in enumerate(self._exchanges, start=1):
                form = NormalForm.of(exchange.body, self._redaction)
                found[form.digest(exchange)].append((number, exchange))
            self._waiting = dict(found)
        return self._waiting

    def _nearest(self, now: HttpExchange, form: NormalForm) -> str:
        """Where a request differs from the recorded one that is most like it."""
        text = text_of(form.value)

        def likeness(item: tuple[int, NormalForm]) -> int:
            return agreed(text_of(item[1].value), text)

        forms = [NormalForm.of(exchange.body, self._redaction) for exchange in self._exchanges]
        number, nearest = max(enumerate(forms, start=1), key=likeness)
        told = difference(nearest.value, form.value)
        recorded = self._exchanges[number - 1]
        return f"Nearest is exchange {number}: " + (
            told or told_apart("the address", recorded.path, now.path)
        )


class _Playing(httpx2.AsyncByteStream):
    """The body of a recorded answer, in its pieces."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._exchange.chunks:
            yield bytes_of(piece)
        if self._exchange.error is not None:
            raise _error_of(self._exchange)

    async def aclose(self) -> None:
        """There is nothing to close."""


def _error_of(exchange: HttpExchange) -> httpx2.TransportError:
    kind = getattr(httpx2, exchange.error or "", None)
    known = isinstance(kind, type) and issubclass(kind, httpx2.TransportError)
    return (kind if kind is not None and known else httpx2.ReadError)("as it was recorded")


class TapedModel(Struct, frozen=True, kw_only=True):
    """A model whose exchanges are recorded, or played."""

    model: Model
    client: httpx2.AsyncClient
    player: Player | None = None

    @property
    def name(self) -> str:
        """The model's own."""
        return self.model.name

    @property
    def window(self) -> int | None:
        """The model's own."""
        return self.model.window

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model; see `Model.request`."""
        reply = await self.model.request(request, on_text)
        return self.player.renamed(reply) if self.player else reply

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.model.aclose()
        await self.client.aclose()


def playing_client(player: Player) -> httpx2.AsyncClient:
    """An HTTP client that plays."""
    return create_async_httpx2_client(transport=player)
