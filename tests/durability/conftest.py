"""What the durability tests share: the model's server, and a folder that survives the lives."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from durability import story
from durability.ground import SEED, Ground
from durability.stage import crash_driver
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI, fake_openai


@pytest.fixture(scope="session")
def model_server() -> Iterator[FakeOpenAI]:
    with fake_openai() as server:
        yield server


@pytest.fixture
def ground(tmp_path: Path, model_server: FakeOpenAI, born: Nursery) -> Iterator[Ground]:
    model_server.script(story.rules())
    found = Ground(tmp_path, model_server, born)
    yield found
    found.close()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test, the same in each run with the same seed."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def driver() -> Iterator[subprocess.Popen[str]]:
    with crash_driver() as process:
        yield process
