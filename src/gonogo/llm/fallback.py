"""Several models in the place of one: where the first is away, the next one answers.

A failure of the request itself, which every model would refuse, is passed on; so is the failure of
all of them, as the one after which waiting makes the most sense. A model that failed rests for a
while: it is asked again only when that is over, or when no other answers.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gonogo.domain.errors import InternalFailure, ModelFailed, ModelNotConfigured, together
from gonogo.domain.failures import is_away, quota_pause
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm.model import Model, ModelChoice, OnText
from gonogo.llm.provider import Relay

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often a model is asked that has another one behind it."""
_OF_THE_REQUEST = frozenset({400, 413, 422})
_SHORT, _LONG = 60.0, 600.0
"""Seconds that a model rests: the first time, doubled each time after it; and at most."""


class ModelRest(Struct, frozen=True, kw_only=True):
    """A model that failed, and is left alone for a while."""

    until: float
    failures: int
    error: str


class FallbackModel:
    """Asks the first of several models that answers."""

    def __init__(
        self,
        choices: Sequence[ModelChoice],
        opened: Callable[[ModelChoice], Model],
        rests: dict[ModelChoice, ModelRest],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the models.

        Args:
            choices: In the order in which they are asked.
            opened: Gives one, opened; may raise `ModelNotConfigured`.
            rests: Which ones failed lately; may be shared with other lists.
            clock: Seconds, from whenever.
        """
        self._choices, self._opened, self._rests, self._clock = choices, opened, rests, clock

    @property
    def name(self) -> str:
        """The first one's."""
        return self._choices[0].name or "the configured model"

    @property
    def window(self) -> int | None:
        """The smallest of theirs, since each may be asked; those count of which it is known."""
        known = (self._window_of(choice) for choice in self._choices)
        return min(filter(None, known), default=None)

    def _window_of(self, choice: ModelChoice) -> int | None:
        try:
            return self._opened(choice).window
        except ModelNotConfigured:
            return choice.window

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the models, one after the other, until one answers.

        Raises:
            ModelFailed: none did, or what was asked is at fault.
            ModelNotConfigured: none can be asked.
        """
        relay, failed = Relay(on_text), list[InternalFailure]()
        for choice in self._in_order():
            relay.restart()
            try:
                reply = await self._opened(choice).request(request, relay.feed)
            except (ModelFailed, ModelNotConfigured) as error:
                if not is_for_another(error):
                    raise
                failed.append(error)
                self._let_rest(choice, error)
                continue
            relay.finish()
            self._rests.pop(choice, None)
            first = self._rests.get(self._choices[0])
            return reply.model_copy(update={"passed": first.error}) if first else reply
        raise all_failed(failed)

    async def aclose(self) -> None:
        """There is nothing to close: who opened the models closes them."""

    def _in_order(self) -> Sequence[ModelChoice]:
        """Those that rest come last: they may be all there is."""
        now = self._clock()
        return sorted(self._choices, key=lambda choice: _rests(self._rests, choice, now))

    def _let_rest(self, choice: ModelChoice, error: InternalFailure) -> None:
        before = self._rests.get(choice)
        failures = before.failures + 1 if before else 1
        seconds = _seconds(error, failures)
        logger.warning("%s; the next model is asked, this one not for %.0f s", error, seconds)
        self._rests[choice] = ModelRest(
            until=self._clock() + seconds, failures=failures, error=error.said
        )


def _rests(rests: Mapping[ModelChoice, ModelRest], choice: ModelChoice, now: float) -> bool:
    rest = rests.get(choice)
    return rest is not None and now < rest.until


def _seconds(error: InternalFailure, failures: int) -> float:
    if not isinstance(error, ModelFailed) or not error.transient:
        return _LONG
    if (quota := quota_pause(error)) is not None:
        return max(quota, _SHORT)
    return min(_SHORT * 2.0 ** min(failures - 1, 10), _LONG)


def is_for_another(error: InternalFailure) -> bool:
    """Whether another model may answer: this one is away, has no quota, or lets us not in."""
    if not isinstance(error, ModelFailed):
        return True
    told = error.http_status is not None and error.http_status not in _OF_THE_REQUEST
    return error.transient or told


def all_failed(failed: Sequence[InternalFailure]) -> InternalFailure:
    """What it means that none answered: wait for one, wait for a quota, or nothing helps."""
    known = [error for error in failed if isinstance(error, ModelFailed)]
    if not known or len(failed) == 1:
        return failed[0]
    waits = [error for error in known if is_away(error)]
    waits = waits or [error for error in known if error.transient]
    first = (waits or known)[0]
    wanted = [error.retry_after for error in waits if error.retry_after is not None]
    return ModelFailed(
        together(dict.fromkeys(error.said for error in failed)),
        http_status=first.http_status, retry_after=min(wanted, default=None),
        transient=bool(waits), sent=any(error.sent for error in known),
    )  # fmt: skip
