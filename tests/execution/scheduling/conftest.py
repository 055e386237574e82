"""Workshops for the tests of the engine, over a fresh database of each kind."""

from collections.abc import AsyncIterator

import pytest

from fakes.workshop import Workshop
from gonogo.store import Store


@pytest.fixture
def shop(store: Store) -> Workshop:
    return Workshop(store=store)


@pytest.fixture
async def open_shop(shop: Workshop) -> AsyncIterator[Workshop]:
    async with shop.open():
        yield shop
