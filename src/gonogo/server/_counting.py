"""In which bucket a client message counts: its own words say it.

A decision or a cancel never waits behind messages, however it comes. What cannot be read counts as
a request.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from gonogo.domain.errors import GonogoError
from gonogo.domain.identity import Principal
from gonogo.domain.messages import (
    Cancel,
    ClientMessage,
    HitlDecision,
    PlanDecision,
    SwitchAgent,
    UserMessage,
)
from gonogo.server._limits import Bucket, Rates, TooFast


@contextmanager
def counted(
    rates: Rates, principal: Principal
) -> Generator[Callable[[ClientMessage], ClientMessage]]:
    """Read a message inside, and count it with what this gives.

    Raises:
        TooFast: it was one too many.
    """

    def count(message: ClientMessage) -> ClientMessage:
        _bucket(rates, message).take(principal.id)
        return message

    try:
        yield count
    except TooFast:
        raise
    except GonogoError:
        rates.requests.take(principal.id)
        raise


def _bucket(rates: Rates, message: ClientMessage) -> Bucket:
    match message:
        case UserMessage() | SwitchAgent():
            return rates.messages
        case PlanDecision() | HitlDecision() | Cancel():
            return rates.decisions
        case _:
            return rates.requests
