"""One attempt at a task: a session in a temporary clone that nobody attends, then the check.

The policy stands for the person. `all` approves whatever is asked, as `gonogo run --yes=all` does;
what rules deny stays denied. `plans` approves each plan as it is proposed, and rejects the rest. A
question in words is answered with "choose yourself", a few times. Commands run in the sandbox, as
always, and so does the check.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bench.agents.scripted import SCRIPTED, scripted
from bench.agents.tasks import Task, write
from gonogo.domain.errors import Refused
from gonogo.domain.messages import parse_message
from gonogo.domain.records import MAIN
from gonogo.domain.states import ENDED, ApprovalKind, PlanStatus
from gonogo.domain.views import ApprovalView
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.store.calls import open_calls
from gonogo.store.sessions import open_turns
from gonogo.workspace import DEFAULT_PATH, Sandbox, Workspace, run_command

POLICIES = ("all", "plans")
_NOBODY = "Nobody is there to answer. Choose yourself, and go on."
_MOST_ANSWERS = 3
_CHECK_TIME = 120.0
_TAIL = 2_000


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What came of a task."""

    task: str
    kind: str
    success: bool = False
    """The hidden check passes."""
    said_done: bool = False
    """The work ended without an error: no plan, or a completed one."""
    ended: str = "completed"
    """How the session ended: `completed`, the plan's status, `error`, `asks` or `timeout`."""
    requests: int = 0
    failed_requests: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    """By class, as they are counted."""
    cost: float = 0.0
    """US dollars, as far as prices are known."""
    questions: dict[str, int] = field(default_factory=dict[str, int])
    """What a person was asked, by kind; `words` are questions in words."""
    seconds: float = 0.0
    check: str = ""
    """The end of what the check printed, where it failed."""

    @property
    def false_done(self) -> bool:
        """The agent says that it is done, and it is not."""
        return self.said_done and not self.success


async def attempt(
    task: Task, folder: Path, *, model: str | None, policy: str, minutes: float
) -> Attempt:
    """Have an agent do a task, and check what it did.

    Args:
        folder: An empty folder for the repository, the clone and the state.
        model: As `gonogo run --model` takes it, or one of `SCRIPTED`.
        minutes: Time that the session may take.
    """
    made = Attempt(task=task.name, kind=task.kind)
    clone = folder / "clone" / task.name
    task.lay_out(folder / "origin")
    await anyio.run_process(["git", "clone", "-q", str(folder / "origin"), str(clone)])
    own = scripted(task, model) if model in SCRIPTED else None
    settings = Settings(
        home=folder / "state", config=folder / "config", workspace=clone, roots=(),
        model=None if own else model,
    )  # fmt: skip
    began = anyio.current_time()
    async with Runtime.open(settings, model=own) as runtime:
        session = _Session(runtime, made, policy)
        with anyio.move_on_after(minutes * 60) as limit:
            await session.see_through(task.text)
        if limit.cancelled_caught:
            made.ended = "timeout"
        await session.count()
    made.seconds = round(anyio.current_time() - began, 1)
    made.said_done = made.ended == "completed"
    made.success, made.check = await check(task, clone, folder / "checked")
    return made


async def check(task: Task, clone: Path, copy: Path) -> tuple[bool, str]:
    """Run a task's hidden check on a copy of what an agent left; whether it passes, else its words.

    Raises:
        RuntimeError: there is no sandbox here, and what an agent wrote does not run without one.
    """
    sandbox = Sandbox.detect()
    if sandbox is None:
        raise RuntimeError("The checks run what an agent wrote: they need bubblewrap")
    shutil.copytree(clone, copy, symlinks=True)
    write(copy, task.hidden)
    done = await run_command(
        Workspace(copy), task.command, cwd=None, timeout=_CHECK_TIME, sandbox=sandbox,
        search_path=os.environ.get("PATH", DEFAULT_PATH),
    )  # fmt: skip
    passed = done.exit_code == 0 and not done.timed_out
    return passed, "" if passed else done.output[-_TAIL:]


@dataclass(slots=True)
class _Session:
    """A session, and the policy that answers in it."""

    runtime: Runtime
    made: Attempt
    policy: str
    id: str = ""
    answered: set[str] = field(default_factory=set[str])

    async def see_through(self, text: str) -> None:
        """Say the task, and answer until nothing runs and nothing is asked."""
        await self._say({"type": "user_message", "content": text})
        async with self.runtime.streams.follow(self.runtime.owner, self.id, 0) as events:
            async for event in events:
                if event["type"] == "error" and event.get("is_final"):
                    self.made.ended = "error"
                if event["type"] != "approval_requested" and not event.get("is_final"):
                    continue
                if not await self._answer() and await self._is_over():
                    return

    async def _say(self, message: dict[str, Any]) -> None:
        receipt = await self.runtime.messages.accept(
            self.runtime.owner, self.id or None, parse_message(message)
        )
        self.id = receipt.session_id

    async def _answer(self) -> bool:
        """Answer what is asked; whether there was anything."""
        found = await self.runtime.sessions.pending(self.runtime.owner, self.id)
        fresh = [p for p in found.pending_approvals if p.approval_id not in self.answered]
        for question in fresh:
            self.answered.add(question.approval_id)
            self._note(str(question.kind))
            with suppress(Refused):  # It was withdrawn meanwhile.
                await self._say(self._decision(question))
        return bool(fresh)

    def _decision(self, question: ApprovalView) -> dict[str, Any]:
        if question.kind == ApprovalKind.PLAN:
            return {
                "type": "plan_decision", "plan_id": question.plan_id, "decision": "approve",
                "revision": question.revision, "digest": question.digest,
            }  # fmt: skip
        yes = self.policy == "all"
        return {
            "type": "hitl_decision", "approval_id": question.approval_id, "digest": question.digest,
            "decision": "approve" if yes else "reject", "feedback": None if yes else _NOBODY,
        }  # fmt: skip

    async def _is_over(self) -> bool:
        store, owner = self.runtime.parts.store, self.runtime.owner
        plans = (await self.runtime.plans.page(owner, self.id)).plans
        if any(plan.status not in ENDED for plan in plans):
            return False
        asks = await store.read(open_calls, self.id, MAIN)
        if asks and self.made.questions.get("words", 0) < _MOST_ANSWERS:
            self._note("words")
            await self._say({"type": "user_message", "content": _NOBODY})
            return False
        if not asks and await store.read(open_turns, self.id):
            return False
        if asks:
            self.made.ended = "asks"
        elif plans and plans[0].status != PlanStatus.COMPLETED:
            self.made.ended = str(plans[0].status)
        return True

    def _note(self, kind: str) -> None:
        self.made.questions[kind] = self.made.questions.get(kind, 0) + 1

    async def count(self) -> None:
        """Take down what the session took."""
        found = await self.runtime.reports.analytics(self.runtime.owner, self.id)
        for use in found.models:
            fields: Mapping[str, Any] = use.model_dump()
            self.made.requests += fields["requests"]
            self.made.failed_requests += fields["failed"]
            self.made.cost += fields["cost_dollars"]
            for name, count in fields.items():
                if name.endswith("_tokens"):
                    word = name.removesuffix("_tokens")
                    self.made.tokens[word] = self.made.tokens.get(word, 0) + count
