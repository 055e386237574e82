"""The typed client of the public protocol, over TCP or a Unix socket.

It speaks only what docs/reference/protocol.md says, gives back the values of `gonogo.domain`, and
raises its errors. It also promises that a broken stream continues where it broke, without a gap
and without a repeated event, and that a message is carried out once, however often its connection
breaks. How to use it is in docs/how-to/python-client.md.
"""

from gonogo.client.client import Client
from gonogo.client.transport import (
    EventBody,
    NoAnswer,
    Unintelligible,
    Unreachable,
    error_of,
    over_socket,
    read_event,
)

__all__ = [
    "Client",
    "EventBody",
    "NoAnswer",
    "Unintelligible",
    "Unreachable",
    "error_of",
    "over_socket",
    "read_event",
]
