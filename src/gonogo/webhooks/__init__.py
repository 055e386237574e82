"""Tells other programs what people are asked and what they answered: signed, until it arrives.

Promises: what is to be told is written with the change itself and survives whatever follows; each
message keeps its id over all attempts, is signed by the Standard Webhooks scheme and goes only to
the address that the operator wrote down, never where an answer points to; a receiver that is slow
or dead holds up nothing but its own messages.
"""

from gonogo.webhooks.hooks import (
    DELIVERY,
    HOOK,
    Announcer,
    BadHooks,
    Hook,
    Sender,
    load_hooks,
    read_secret,
    signature,
)

__all__ = [
    "DELIVERY",
    "HOOK",
    "Announcer",
    "BadHooks",
    "Hook",
    "Sender",
    "load_hooks",
    "read_secret",
    "signature",
]
