"""Standard input and output for a protocol."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def own_pipes() -> Generator[tuple[int, int]]:
    """Standard input and output for the protocol alone: what else is written goes to the errors."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        os.close(source)
        os.close(sink)
