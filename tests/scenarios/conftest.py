"""Stories over the real runtime: `async with make({thread: [reply, …]}) as world`."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from fakes.world import World, world_of

Makes = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def make(tmp_path: Path, db: str | None) -> Makes:
    """Makes worlds in the test's own folder, with settings by keyword."""

    def making(lines: Mapping[str, Any], **set_: Any) -> AbstractAsyncContextManager[World]:
        return world_of(tmp_path, lines, db=db, **set_)

    return making
