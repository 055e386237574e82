"""The HTTP door: REST, server-sent events and WebSocket over one runtime.

It translates docs/reference/protocol.md into the runtime's verbs and its event stream, and does
nothing else: no state of a session lives here, a client that goes away changes nothing, and every
refusal has the status and the word that the protocol gives it. It promises that

- a stranger gets no answer: each request is authenticated, and its `Host` and `Origin` are
  checked before it is read;
- a body is read strictly, and only up to its limit in bytes and seconds;
- a slow reader costs a bounded amount of memory, and is cut off in the end;
- when the runtime closes, open streams end by themselves.
"""

from gonogo.server.app import (
    LISTENERS,
    NEW_LISTENER,
    Ready,
    create_app,
    describe,
    has_console,
    serve,
)
from gonogo.server.auth import WaitLimits

__all__ = [
    "LISTENERS",
    "NEW_LISTENER",
    "Ready",
    "WaitLimits",
    "create_app",
    "describe",
    "has_console",
    "serve",
]
