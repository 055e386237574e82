"""The typed client of the public protocol, over TCP or a Unix socket.

It speaks only what docs/reference/protocol.md says, gives back the values of `gonogo.domain`, and
raises its errors. What it promises beyond that: a stream that breaks is taken up where it broke,
without a gap and without an event twice, and a message is sent once however often its connection
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
