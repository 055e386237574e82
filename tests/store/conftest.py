"""The database itself, beside the store: what an operator's own tools would see."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A connection of somebody else to the same database."""
    opened = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    yield opened
    opened.dispose()
