"""`deploy`: the same processes, started by hand from the same settings, do the work."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import yaml

from durability import story
from durability.ground import Ground
from durability.person import Person
from durability.server import Server, Wire
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI
from fakes.postgres import Server as Postgres

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {n: each for n, each in SERVICES.items() if each.get("command", [""])[0] == "gonogo"}
HERE = ("GONOGO_DB", "GONOGO_HOME", "GONOGO_CONFIG", "GONOGO_WORKSPACE", "GONOGO_HOST",
        "GONOGO_PORT")  # fmt: skip
"""Settings whose values are those of a container; here they are those of the test."""
WORKS = re.compile(r"process \d+")


@pytest.fixture
def ground(
    tmp_path: Path, model_server: FakeOpenAI, born: Nursery, postgres: Postgres
) -> Iterator[Ground]:
    model_server.script(story.rules())
    found = Ground(tmp_path, model_server, born)
    name = postgres.make()
    found.environment["GONOGO_DB"] = postgres.url(name)
    yield found
    found.close()
    postgres.drop(name)


async def test_the_processes_of_the_compose_file_do_the_work_together(ground: Ground) -> None:
    started: dict[str, Server] = {}
    for name in ("migrate", "server-1", "server-2", "worker-1", "worker-2"):
        service = OURS[name]
        given = service["environment"]
        assert set(HERE) <= given.keys()
        url = re.sub(r"\$\{\w+:-(.*)\}", r"\1", given["GONOGO_PUBLIC_URL"])
        ground.environment["GONOGO_PUBLIC_URL"] = url
        process = ground.server(*service["command"][1:])
        started[name] = process
        if name == "migrate":
            assert process.process.wait(60) == 0, process.log.read_text()
        elif "serve" in service["command"]:
            process.wait()
        else:
            process.wait(WORKS)
    async with started["server-1"].client() as client, started["server-2"].http() as http:
        await Person(Wire(client, http), ground.told, ground.workspace).see_through()
        # `docker compose up` once more runs it beside those that work.
        again = await anyio.to_thread.run_sync(ground.server, *OURS["migrate"]["command"][1:])
        assert await anyio.to_thread.run_sync(again.process.wait, 60) == 0, again.log.read_text()
    assert ground.problems() == []
    assert story.contents(ground.workspace) == story.AFTERWARDS


def test_all_of_them_share_settings_state_and_workspaces_and_the_proxy_knows_each_server() -> None:
    shared = [(each["environment"], each["volumes"], each["env_file"]) for each in OURS.values()]
    assert all(each == shared[0] for each in shared)
    servers = [name for name, each in OURS.items() if "serve" in each["command"]]
    port = shared[0][0]["GONOGO_PORT"]
    command = SERVICES["proxy"]["command"]
    assert [word for word in command if word.endswith(f":{port}")] == [
        f"{name}:{port}" for name in servers
    ]
    # Boxes that are killed leave processes, which the first process of a container is to take.
    assert all(each["init"] for each in OURS.values())
    waits = [each["depends_on"] for name, each in OURS.items() if name != "migrate"]
    assert all(each["migrate"]["condition"] == "service_completed_successfully" for each in waits)


def test_the_units_of_systemd_start_what_the_compose_file_starts() -> None:
    commands = {tuple(each["command"]) for each in OURS.values()}
    starts = [
        tuple(shlex.split(line.partition("=")[2]))
        for unit in (DEPLOY / "systemd").iterdir()
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    assert sorted(starts) == sorted(commands)
