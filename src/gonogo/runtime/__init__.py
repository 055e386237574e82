"""The composition root: opens every room, gives each what it needs, and offers the verbs.

Doors change things only through the verbs of `Runtime`; all else is queries and event streams.
"""

import gc

# Objects that the imports make stay for ever, so the garbage collector skips them, now and later.
# Otherwise it would take a tenth of the import time.
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
