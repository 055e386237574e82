"""What a command asks the runtime of its own process is answered as every client is answered."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from fakes.world import calls, plan, says, step, world_of, write
from gonogo.cli.daemon import WithinProcess
from gonogo.domain.identity import Role
from gonogo.server import create_app

LINES = {
    "main/architect": [plan(step("one"))],
    "one": [calls(write("one.txt")), says("one is there")],
}
PAGES = [
    {}, {"limit": "1"}, {"limit": "0"}, {"limit": "501"}, {"limit": "500", "offset": "1"},
    {"limit": "x"}, {"limit": "٣"}, {"limit": "1" * 5_000}, {"offset": str(2**31)},
    {"offset": "-1"},
]  # fmt: skip
QUESTIONS: list[tuple[str, dict[str, str]]] = [
    *(("/plans", page) for page in PAGES),
    *(("/sessions", page) for page in PAGES),
    ("/plans", {"status": "running"}), ("/plans", {"status": "awaiting_approval"}),
    ("/plans", {"status": "?"}), ("/plans", {"session_id": "nobody"}),
    ("/plans", {"session_id": "a b"}), ("/sessions", {"q": "s"}), ("/sessions", {"after": "?"}),
    ("/approvals", {}), ("/approvals", {"status": "pending"}), ("/approvals", {"status": "?"}),
    ("/approvals", {"mine": "true"}), ("/approvals", {"mine": "1"}), ("/approvals", {"limit": "1"}),
    ("/approvals", {"before": "nobody"}), ("/approvals", {"session_id": "nobody"}),
    ("/approvals", {"kind": "plan"}), ("/audit/verify", {}), ("/audit/verify", {"anchor": "?"}),
    ("/audit/verify", {"session_id": "nobody"}), ("/health", {}), ("/plans/none", {}),
]  # fmt: skip
LISTS = """
import sys
from gonogo.cli import main
try:
    main()
finally:
    print(*(sys.modules.keys() & {"fastapi", "uvicorn", "sqlalchemy"}))
"""


async def asked(way: httpx.AsyncBaseTransport, token: str) -> list[Any]:
    found: list[Any] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=way, base_url="http://localhost") as client:
        for path, words in QUESTIONS:
            answer = await client.get(f"/api/v1{path}", params=words, headers=headers)
            body = answer.json()
            for passing in ("checked_at", "uptime", "trace_id"):
                body.pop(passing, None)
            found.append((path, words, answer.status_code, answer.headers["content-type"], body))
    return found


async def test_the_answers_are_those_of_a_server_also_to_wrong_questions(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        for role in (Role.ADMIN, Role.VIEWER):
            _, token = await world.runtime.people.create_token(world.runtime.owner, "a", role)
            within = WithinProcess(world.runtime)
            served = httpx.ASGITransport(create_app(world.runtime))
            assert await asked(within, token) == await asked(served, token)
        answers = await asked(WithinProcess(world.runtime), "wrong")
        assert {status for *_, status, _, _ in answers} == {200, 401, 429}


async def test_lists_and_checks_need_no_web_framework(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        _, token = await world.runtime.people.create_token(world.runtime.owner, "a", Role.ADMIN)
        way = WithinProcess(world.runtime)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=way, base_url="http://localhost") as client:
            for path in ("/plans", "/sessions", "/approvals", "/audit/verify"):
                answer = await client.get(f"/api/v1{path}", headers=headers)
                assert (answer.status_code, way._app) == (200, None)


def test_a_command_that_asks_imports_no_web_framework(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTS, "plans", "list"], capture_output=True, text=True, check=False,
        env={
            "PYTHONPATH": ":".join(path for path in sys.path if path), "GONOGO_BACKGROUND": "false",
            "GONOGO_HOME": str(tmp_path), "GONOGO_CONFIG": str(tmp_path / "none"),
        },
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "sqlalchemy")
