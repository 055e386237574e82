"""The composition root: opens every room, hands each what it needs, and offers the verbs.

Doors change things only through the verbs of `Runtime`; the rest is queries and event streams. The
clock lives here; below, `now` is an argument.
"""

from gonogo.runtime._extensions import Extensions
from gonogo.runtime._gate import bare_thread, open_gate
from gonogo.runtime._links import LinkPage
from gonogo.runtime._oidc import look_for_keys
from gonogo.runtime._receipt import Once, Receipt
from gonogo.runtime._runtime import Runtime
from gonogo.runtime._servers import look_at_servers

__all__ = [
    "Extensions",
    "LinkPage",
    "Once",
    "Receipt",
    "Runtime",
    "bare_thread",
    "look_at_servers",
    "look_for_keys",
    "open_gate",
]
