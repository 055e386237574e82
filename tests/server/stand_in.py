"""A tiny runtime for tests of the door alone: one session in a list, events by hand.

What the real runtime decides is set by the test (`refuse`, `script`); what it would store is kept
in plain lists that tests look at.
"""

import json
import math
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import anyio
from pydantic import BaseModel

from gonogo.domain.errors import Conflict, GonogoError, NotFound, Unauthorized
from gonogo.domain.events import ErrorHappened
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import SwitchAgent, UserMessage
from gonogo.domain.plan_views import PlanView
from gonogo.domain.states import PlanStatus
from gonogo.domain.views import (
    AgentView,
    DecisionAnswer,
    History,
    SessionList,
    SessionView,
    TokenView,
)
from gonogo.runtime import Receipt
from gonogo.telemetry import Metrics

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OWNER = Principal(id="owner", name="owner", role=Role.ADMIN)
PEOPLE = {
    "token-a": Principal(id="a", name="Ann", role=Role.OPERATOR),
    "token-b": Principal(id="b", name="Bob", role=Role.OPERATOR),
    "token-root": Principal(id="root", name="Root", role=Role.ADMIN),
    "token-viewer": Principal(id="a", name="Ann", role=Role.VIEWER),
}
ANSWER = [
    {"type": "assistant_message", "token": "При", "content": "При", "is_final": False},
    {"type": "assistant_message", "content": "Привет", "is_final": True, "seq": 0},
]


@dataclass
class StandIn:
    """The part of the runtime that the door's tests need."""

    closing: anyio.Event = field(default_factory=anyio.Event)
    addresses: list[str] = field(default_factory=list)
    owner: Principal = OWNER
    settings: Any = field(
        default_factory=lambda: SimpleNamespace(
            metrics_public=False, rate_requests=50, rate_messages=60
        )
    )
    metrics: Metrics = field(default_factory=Metrics)
    tokens: dict[str, Principal] = field(default_factory=lambda: dict(PEOPLE))
    logins: dict[str, Principal] = field(default_factory=dict)
    sessions_of: dict[str, str] = field(default_factory=lambda: {"s_A": "a", "s_B": "b"})
    log: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    accepted: list[Any] = field(default_factory=list)
    script: list[dict[str, Any]] = field(default_factory=lambda: list(ANSWER))
    refuse: GonogoError | Exception | None = None
    batch: tuple[DecisionAnswer, ...] = ()
    stored: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    held: anyio.Event | None = None
    broken: bool = False
    away: GonogoError | None = None
    looks: int = 0
    hears_within: float = math.inf

    def __post_init__(self) -> None:
        self.grew = anyio.Event()
        self.callbacks: list[Any] = []
        self.sessions = SimpleNamespace(
            get=self._session, page=self._page, open=self._open, history=self._history
        )
        self.messages = SimpleNamespace(accept=self._accept)
        self.streams = SimpleNamespace(answer=self._answer, follow=self._follow)
        self.answers = SimpleNamespace(find=self._find_answer, keep=self._keep_answer)
        verbs = "start pause resume cancel retry_subtask skip_subtask cancel_subtask".split()
        self.plans = SimpleNamespace(get=self._plan, **dict.fromkeys(verbs, self._refuse))
        self.people = SimpleNamespace(
            authenticate=self._authenticate, seconds_left=lambda principal: math.inf,
            log_in=self._log_in, find_login=self._find_login, log_out=self._log_out,
            create_token=self._create_token, subscribe_revocations=self.callbacks.append,
            unsubscribe_revocations=self.callbacks.remove,
        )  # fmt: skip

    async def check_ready(self) -> None:
        self.looks += 1
        if self.away is not None:
            raise self.away

    def revoke(self, token: str) -> None:
        del self.tokens[token]
        for callback in self.callbacks:
            callback()

    async def _authenticate(self, token: str) -> Principal:
        if token not in self.tokens:
            raise Unauthorized("This token is not valid")
        return self.tokens[token]

    async def _log_in(self, principal: Principal, token: str | None = None) -> str:
        self.logins[f"browser-of-{principal.id}"] = principal
        return f"browser-of-{principal.id}"

    async def _find_login(self, secret: str) -> Principal:
        if secret not in self.logins:
            raise Unauthorized("This browser session is over")
        return self.logins[secret]

    async def _log_out(self, secret: str) -> None:
        self.logins.pop(secret, None)

    async def _session(self, principal: Principal, session_id: str) -> SessionView:
        if self.sessions_of.get(session_id) != principal.id and principal.id != "owner":
            raise NotFound("There is no such session")
        if session_id not in self.sessions_of:
            raise NotFound("There is no such session")
        return self._view(session_id)

    async def _page(
        self, principal: Principal, limit: int, offset: int, text: str | None = None, **_: Any
    ) -> SessionList:
        mine = [s for s, owner in self.sessions_of.items() if owner == principal.id]
        shown = [self._view(s) for s in mine[offset : offset + limit]]
        return SessionList(sessions=shown, total=len(mine))

    async def _open(self, principal: Principal, **fields: Any) -> SessionView:
        name = fields.get("session_id") or f"s_{len(self.sessions_of)}"
        if name in self.sessions_of:
            raise Conflict(f"{name} is taken")
        self.sessions_of[name] = principal.id
        return self._view(name)

    async def _history(
        self, principal: Principal, session_id: str, *, by_people: bool = False
    ) -> History:
        if self.broken:
            raise RuntimeError("secret detail")
        await self._session(principal, session_id)
        return History(session_id=session_id, messages=[])

    async def _accept(
        self,
        principal: Principal,
        session_id: str | None,
        message: Any,
        *,
        connection: Any = None,
        once: Any = None,
    ) -> Receipt:
        if self.refuse is not None:
            raise self.refuse
        created = session_id not in self.sessions_of
        if created and not isinstance(message, UserMessage | SwitchAgent):
            raise NotFound("There is no such session")
        session_id = session_id or f"s_{len(self.sessions_of)}"
        self.sessions_of.setdefault(session_id, principal.id)
        if self.held is not None:
            await self.held.wait()
        self.accepted.append((message, connection))
        after = len(self.log[session_id])
        for event in self.script:
            self.happen(session_id, event)
        return Receipt(session_id=session_id, after=after, created=created, answers=self.batch)

    def happen(self, session_id: str, event: dict[str, Any]) -> None:
        """Append an event; one without a `seq` is a delta and is not kept."""
        if "seq" in event:
            seq = len(self.log[session_id]) + 1
            self.log[session_id].append({**event, "seq": seq, "session_id": session_id})
        grew, self.grew = self.grew, anyio.Event()
        grew.set()

    @asynccontextmanager
    async def _answer(self, receipt: Receipt) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async def events() -> AsyncIterator[dict[str, Any]]:
            for delta in [e for e in self.script if "seq" not in e]:
                yield delta
            async for event in self._after(receipt.session_id, receipt.after):
                yield event
                if event.get("is_final"):
                    return

        yield events()

    @asynccontextmanager
    async def _follow(
        self, _: Principal, session_id: str, after: int, *, again: bool = False
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        yield self._after(session_id, after)

    async def _after(self, session_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
        while not self.closing.is_set():
            grew = self.grew
            while len(self.log[session_id]) > after:
                yield self.log[session_id][after]
                after += 1
            await grew.wait()

    async def _find_answer(
        self, principal: Principal, key: str, asked: str
    ) -> dict[str, Any] | None:
        known = self.stored.get((principal.id, key))
        if known is None:
            return None
        if known[0] != asked:
            raise Conflict("This key was used for another request")
        return known[1]

    async def _keep_answer(
        self, principal: Principal, key: str, asked: str, answer: dict[str, Any], about: str
    ) -> None:
        if self.away is not None:
            raise self.away
        self.stored[principal.id, key] = asked, json.loads(json.dumps(answer))

    async def claim_tool_host(self, principal: Principal, session_id: str, connection: str) -> None:
        if session_id in self.hosts:
            raise Conflict("Another connection hosts this session's tools")
        self.hosts[session_id] = connection

    async def release_tool_host(self, connection: str) -> None:
        self.hosts = {s: c for s, c in self.hosts.items() if c != connection}

    async def _plan(self, _: Principal, plan_id: str) -> PlanView:
        return PlanView(
            plan_id=plan_id, session_id="s_A", goal="g", original_task="t",
            status=PlanStatus.COMPLETED, revision=1, digest="sha256:0", is_approved=True,
            subtasks=[], critical_path=[], created_at=NOW,
        )  # fmt: skip

    async def _refuse(self, _: Principal, plan_id: str) -> PlanView:
        raise Conflict(f"{plan_id} is completed")

    async def _create_token(
        self, principal: Principal, name: str, role: Role
    ) -> tuple[TokenView, str]:
        principal.require(Role.ADMIN)
        self.tokens["made"] = Principal(id="made", name=name, role=role)
        return TokenView(token_id="t_9", name=name, role=role.word, created_at=NOW), "made"

    def agents(self) -> list[AgentView]:
        return [AgentView(name="coder", description="", tools=[], may_write=[], source="built in")]

    def _view(self, session_id: str) -> SessionView:
        return SessionView(
            session_id=session_id, workspace="/w", agent="orchestrator",
            last_seq=len(self.log[session_id]), created_at=NOW, updated_at=NOW,
        )  # fmt: skip


def error(text: str) -> dict[str, Any]:
    return ErrorHappened(error=text, content=text, code="conflict").body()


class Said(BaseModel):
    """What a verb gives of which only the path to it is of interest."""

    verb: str


class Verbs:
    """Verbs of one room of the runtime: each writes down what it is asked, and gives that back.

    What else one gives stands in `gives`, by its name; `at_once` are those that are not awaited.
    """

    def __init__(self, room: str, calls: list[Any], gives: Any, at_once: Any = ()) -> None:
        self._room, self._calls, self._gives, self._at_once = room, calls, gives, at_once

    def __getattr__(self, name: str) -> Any:
        verb = f"{self._room}.{name}"

        def at_once(principal: Principal, *args: Any, **more: Any) -> Any:
            self._calls.append((verb, principal.id, args, more))
            return self._gives.get(verb, Said(verb=verb))

        async def awaited(principal: Principal, *args: Any, **more: Any) -> Any:
            return at_once(principal, *args, **more)

        return at_once if name in self._at_once else awaited
