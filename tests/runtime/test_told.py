"""What the server answers to wrong requests, word for word, as a person reads it in each language.

`GONOGO_WRITE_GOLDEN=1` writes it again after a change that is meant.
"""

import json
from pathlib import Path

import httpx

from fakes.golden import kept
from fakes.world import plan, step, world_of
from gonogo.client import error_of
from gonogo.domain.identity import Role
from gonogo.i18n import LOCALES, told
from gonogo.server import create_app

GOLDEN = Path(__file__).parent / "golden"
WRONG = """
GET sessions/none
POST sessions {"session_id": "{session}"}
POST sessions {"workspace": "/none/missing"}
POST sessions {"colour": 1}
POST sessions [1]
POST sessions {"title": "a", "title": "b"}
GET sessions/{session}/events?after=x
GET sessions/{session}/events?after=99999
POST agent/message/stream {"session_id": "{session}", "message": {"type": "wish"}}
GET plans/none
GET plans/{plan}/revisions/7
POST plans/{plan}/pause
POST plans/{plan}/resume
POST plans/{plan}/revise
POST plans/{plan}/replan {"reason": "why"}
POST plans/{plan}/comments {"content": " "}
POST plans/{plan}/subtasks/none/retry
POST plans/{plan}/rollback {}
GET approvals/none
POST approvals/{approval}/decision {"decision": "edit"}
POST approvals/{approval}/decision {"decision": "approve", "for_session": true}
POST approvals/{approval}/links {"name": "nobody"}
POST policy/check {"tool": "execute_command", "arguments": {"command": "ls"}, "agent": "cook"}
POST tools/accept {"name": "mcp__docs__search"}
GET plans/{plan}/diff?from=1&to=8
GET approvals?before=x
POST auth/session {"code": "x"}
DELETE sessions/none
DELETE grants/none
DELETE tokens/none
POST tokens {"name": "a b", "role": "viewer"}
GET audit?before=x
GET analytics?since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z
"""


async def test_what_is_refused_says_what_to_do_in_both_languages(tmp_path: Path) -> None:
    async with world_of(tmp_path, {"main/architect": [plan(step("a"))]}) as world:
        plan_id = await world.propose()
        (asked,) = await world.pending()
        names = {"{session}": world.session, "{plan}": plan_id, "{approval}": asked.approval_id}
        _, secret = await world.runtime.people.create_token(world.runtime.owner, "root", Role.ADMIN)
        said: dict[str, list[str]] = {locale: [] for locale in LOCALES}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(world.runtime)),
            base_url="http://localhost/api/v1/", headers={"Authorization": f"Bearer {secret}"},
        ) as root:  # fmt: skip
            for line in WRONG.strip().splitlines():
                method, path, body = [*line.split(" ", 2), ""][:3]
                for name, value in names.items():
                    path = path.replace(name, value)
                    body = body.replace(name, value)
                answer = await root.request(
                    method, path, content=body,
                    headers={"Content-Type": "application/json"} if body else {},
                )  # fmt: skip
                assert 400 <= answer.status_code < 500, line
                body = json.loads(answer.content)
                problem, see = error_of(body), f" ({body['see']})" if "see" in body else ""
                for locale in LOCALES:
                    text = told(problem.said, locale)
                    for name, value in names.items():
                        text = text.replace(value, name)
                    said[locale].append(f"{line}\n  {answer.status_code} {text}{see}\n")

    for locale, lines in said.items():
        found = "\n".join(lines)
        assert found == kept(GOLDEN / f"refusals.{locale}.txt", found)
