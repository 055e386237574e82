"""A model that means harm, in a world where everything it must not touch is watched."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adversary.ground import Ground
from fakes.world import World, world_of

Makes = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "ground")


@pytest.fixture
def make(ground: Ground, db: str | None) -> Makes:
    """Makes worlds on the ground, and checks its rows when a world ends."""

    @asynccontextmanager
    async def making(lines: Mapping[str, Any], **set_: Any):
        async with world_of(ground.root, lines, db=db, **set_) as world:
            yield world
        assert ground.rows_that_lie(db) == []

    return making
