"""Verbs that only the owner of a place can carry out: a server asks it, and waits for the answer.

The question and the answer are rows, so that neither is lost with a process. What was begun is not
begun again: if the worker ends in the middle, whoever asked is told that nobody knows.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from msgspec import Struct, field

from gonogo.domain.errors import (
    Busy,
    Conflict,
    Forbidden,
    GonogoError,
    Internal,
    InvalidMessage,
    NotFound,
    PlaceLost,
    of_parts,
    parts_of,
)
from gonogo.domain.identity import Principal
from gonogo.domain.records import Job
from gonogo.store import Store, Tx, go_on, new_id
from gonogo.store.asks import (
    ASK,
    Ask,
    add_ask,
    answer_ask,
    begin_ask,
    drop_ask,
    find_ask,
    is_in_hand,
    unanswered,
)
from gonogo.store.places import held

_LOG = logging.getLogger(__name__)
_FIRST, _LONGEST = 0.01, 0.2
_KINDS = {kind.__name__: kind for kind in (Busy, Conflict, Forbidden, InvalidMessage, NotFound)}
Verb = Callable[[Principal, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Asks(Struct, frozen=True, kw_only=True):
    """Asks owners of places, and answers for the places that this process owns."""

    store: Store
    verbs: dict[str, Verb] = field(default_factory=dict[str, Verb])
    """What an owner can be asked for: it gives JSON."""
    patience: float = 20.0
    """Seconds that an ask waits for a worker that begins it."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the caller has to ask, as it does not write as the owner of a place."""
        return self.store.shared_as is not None and held() is None

    async def ask(
        self,
        place: Callable[[Tx], str],
        verb: str,
        principal: Principal,
        body: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Have the owner of a place carry out a verb, and wait until that is done.

        Args:
            place: Finds the place, in the transaction that asks.

        Raises:
            Busy: no worker began it in time; it was taken back.
            Conflict: the worker that began it has ended, and for as long no other one came.
            GonogoError: whatever the verb raised there.
        """
        ask_id = new_id(ASK)

        def put_up(tx: Tx) -> None:
            by = principal.model_dump(mode="json")
            said = {"by": by, **body}
            add_ask(tx, Ask(id=ask_id, place_id=place(tx), verb=verb, body=said, status="open"))

        await self.store.write(put_up)
        return _told(await self._answer(ask_id))

    async def job(self, job: Job) -> None:
        """Carry out what was asked of a place that is ours."""
        ask = await self.store.write(begin_ask, job.key)
        if ask is not None:
            answer = await self._carry_out(ask)
            await self.store.write(answer_ask, ask.id, answer)

    def recover(self, tx: Tx, place: str) -> None:
        """Go on with what was asked of a place before it was ours."""
        for ask in unanswered(tx, place):
            if ask.status == "open":
                go_on(tx, ASK, ask.id)
            else:
                answer_ask(tx, ask.id, _error(_UNKNOWN))

    async def _answer(self, ask_id: str) -> dict[str, Any]:
        until, delay = anyio.current_time() + self.patience, _FIRST
        in_hand = anyio.current_time()
        while True:
            await anyio.sleep(delay)
            delay = min(2 * delay, _LONGEST)
            ask = await self.store.read(find_ask, ask_id)
            if ask is None:
                return _error(_UNKNOWN)
            if ask.answer is not None:
                await self.store.write(drop_ask, ask_id, ask.status)
                return ask.answer
            now = anyio.current_time()
            if now > until and await self.store.write(drop_ask, ask_id, "open"):
                raise Busy(
                    "No worker started this in time; see which workers are running with "
                    "gonogo nodes, then try again"
                )
            # The worker that has begun it answers, or the one that goes on after it.
            if ask.status == "open" or await self.store.read(is_in_hand, ask.place_id):
                in_hand = now
            elif now - in_hand > self.patience:
                return _error(_UNKNOWN)

    async def _carry_out(self, ask: Ask) -> dict[str, Any]:
        principal = Principal.model_validate(ask.body["by"])
        body = {name: value for name, value in ask.body.items() if name != "by"}
        try:
            return {"result": await self.verbs[ask.verb](principal, body)}
        except PlaceLost:
            raise
        except GonogoError as error:
            return _error(error)
        except Exception:
            _LOG.exception("%s could not be carried out", ask.verb)
            return _error(Internal())


_UNKNOWN = Conflict(
    "The worker that did this has ended, and nobody knows how far it got; look at the files and "
    "the plan, then try again"
)


def _error(error: GonogoError) -> dict[str, Any]:
    said = error.said
    more = {"see": error.see} if isinstance(error, NotFound) and error.see else {}
    return {"error": {"kind": type(error).__name__, "detail": str(said), **parts_of(said), **more}}


def _told(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What came of an ask.

    Raises:
        GonogoError: as it was raised by whoever carried it out.
    """
    if "error" not in answer:
        return answer["result"]
    error = answer["error"]
    kind = _KINDS.get(error["kind"])
    made = kind(of_parts(error["detail"], error)) if kind else Internal()
    if isinstance(made, NotFound):
        made.see = error.get("see")
    raise made
