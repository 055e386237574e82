"""Statements: each that the store is made of is one that PostgreSQL understands."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from sqlalchemy import Executable, SelectBase, UpdateBase
from sqlalchemy.dialects import postgresql

import gonogo.store

_VALUE = re.compile(r"%\((\w+)\)s|__\[POSTCOMPILE_\w+\]")


def statements() -> Iterator[tuple[str, Executable]]:
    for module in pkgutil.iter_modules(gonogo.store.__path__, "gonogo.store."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, (SelectBase, UpdateBase)):
                yield f"{module.name}.{name}", value


def as_prepared(statement: Executable) -> str:
    """A statement with a number in the place of each value, so that it needs none."""
    number = count(1)
    text = str(statement.compile(dialect=postgresql.dialect()))
    return _VALUE.sub(lambda _: f"${next(number)}", text).replace("%%", "%")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_each_statement_is_one_that_postgresql_takes(database_url):
    with psycopg.connect(database_url, autocommit=True) as line:
        found = dict(statements())
        for place, (name, statement) in enumerate(found.items()):
            try:
                line.execute(f"PREPARE s{place} AS {as_prepared(statement)}")
            except psycopg.Error as error:
                pytest.fail(f"{name}: {error}")

    assert len(found) > 100
