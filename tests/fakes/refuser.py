"""A person who refuses every change of a plan: `python -m fakes.refuser ROOT COMMITS SIDE`.

Opens the runtime on ROOT and does what comes next, whatever was done before: has a plan made,
approves its first revision, rejects every later one, and has what failed tried again. Ends with 0
when the plan is completed. Right before or after (SIDE) so many commits the process kills itself;
with 0 it does not.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from gonogo.domain.errors import Conflict
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import PlanDecision, parse_message
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.store import Store

SESSION = "refused"
ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
BUILD = {"type": "user_message", "content": "Build", "agent_type": "architect"}
WIDE = {"commands": ["touch pwned"]}


def _step(key: str, *after: str, **more: Any) -> dict[str, Any]:
    named = {"id": key, "description": f"Do {key}", "agent": "coder"}
    return {**named, "dependencies": list(after), **more}


def _plan(*subtasks: dict[str, Any]) -> dict[str, Any]:
    arguments = {"goal": "A goal", "subtasks": list(subtasks)}
    return {"text": "", "calls": [{"name": "create_plan", "arguments": arguments}]}


def lines(root: Path) -> dict[str, list[Any]]:
    """A plan whose `b` fails until somebody has said that it need not, and what is proposed."""
    failed = {"result": "Agent x not found", "success": False}
    fails = {"text": "", "calls": [{"name": "attempt_completion", "arguments": failed}]}
    pwned = {"name": "execute_command", "arguments": {"command": "touch pwned"}}
    evil = _plan(_step("b", "a", scope=WIDE), _step("c", "a", scope=WIDE))

    def b(request: Any) -> dict[str, Any]:
        return {"text": "b"} if (root / "healed").exists() else fails

    return {
        "main/architect": [_plan(_step("a"), _step("b", "a"), _step("late", "b"))] * 3,
        "main/orchestrator": [{"text": "Yes?"}] * 9, "a": [{"text": "a"}], "b": [b],
        "late": [{"text": "late"}], "c": [{"text": "", "calls": [pwned]}, {"text": "c"}],
        **{f"replan-{n}": [evil] for n in range(1, 5)},
    }  # fmt: skip


async def live(root: Path) -> None:
    """Do one thing after the other until the plan is completed."""
    settings = Settings(home=root / "home", config=root / "config", workspace=root / "work")
    async with Runtime.open(settings, model=ScriptedModel(lines(root))) as runtime:
        while not await _next(runtime, root):  # noqa: ASYNC110 - the other process may be dead
            await anyio.sleep(0.01)


async def _next(runtime: Runtime, root: Path) -> bool:
    found = (await runtime.plans.page(ANN)).plans
    if not found:
        with suppress(Conflict):
            await _ask_once(runtime)
        return False
    [plan] = found
    match str(plan.status):
        case "awaiting_approval":
            word = "approve" if plan.revision == 1 else "reject"
            decision = PlanDecision(plan_id=plan.plan_id, decision=word, revision=plan.revision)
            with suppress(Conflict):
                await runtime.approvals.decide(ANN, decision)
        case "partial" | "failed":
            (root / "healed").touch()
            with suppress(Conflict):
                await runtime.plans.retry_subtask(ANN, plan.plan_id, "b")
        case "completed":
            return True
        case _:
            pass
    return False


async def _ask_once(runtime: Runtime) -> None:
    sessions = (await runtime.sessions.page(ANN, 10, 0)).sessions
    if not any(session.session_id == SESSION for session in sessions):
        await runtime.messages.accept(ANN, SESSION, parse_message(BUILD))


def _dies_at(number: int, side: str) -> None:
    """Have this process end at its so-manieth commit."""
    write: Callable[..., Any] = Store.write
    left = [number]

    async def writes(self: Store, *args: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = await write(self, *args, **more)
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    Store.write = writes  # type: ignore[method-assign]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if int(sys.argv[2]):
        _dies_at(int(sys.argv[2]), sys.argv[3])
    anyio.run(live, folder)
