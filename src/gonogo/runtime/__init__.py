"""The composition root: opens every room, hands each what it needs, and offers the verbs.

Doors change things only through the verbs of `Runtime`; the rest is queries and event streams.
"""

import gc

# What the imports make stays: the collector looks through none of it for cycles, then or later.
# That would take a tenth of their time.
_collects = gc.isenabled()
gc.disable()
try:
    from gonogo.runtime.build import Extensions, database_file, look_at_database
    from gonogo.runtime.foreign_tools import look_at_servers
    from gonogo.runtime.links import LinkPage
    from gonogo.runtime.messages import Once
    from gonogo.runtime.oidc import look_for_keys
    from gonogo.runtime.runtime import Runtime
    from gonogo.runtime.services import (
        bare_thread,
        look_at_models,
        member_of,
        open_gate,
        open_reader,
    )
    from gonogo.runtime.streams import Receipt
finally:
    gc.freeze()
    if _collects:
        gc.enable()

__all__ = [
    "Extensions",
    "LinkPage",
    "Once",
    "Receipt",
    "Runtime",
    "bare_thread",
    "database_file",
    "look_at_database",
    "look_at_models",
    "look_at_servers",
    "look_for_keys",
    "member_of",
    "open_gate",
    "open_reader",
]
