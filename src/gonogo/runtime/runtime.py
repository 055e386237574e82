"""The runtime: the verbs of gonogo over one opened set of rooms."""

import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from gonogo.domain.errors import Busy, Conflict, OutcomeUnknown, PolicyDenied, because
from gonogo.domain.identity import Principal, Role
from gonogo.domain.tool_calls import ToolClass
from gonogo.domain.undo import shown_path
from gonogo.domain.views import AgentView, ToolView
from gonogo.execution.agent import Gated
from gonogo.execution.places import Places
from gonogo.llm import Model, available_models
from gonogo.runtime.approvals import Approvals
from gonogo.runtime.build import Extensions, open_parts
from gonogo.runtime.changes import CHECKPOINT, ROLLBACK, Checkpoints, FileChanges
from gonogo.runtime.foreign_tools import ForeignServers, remember
from gonogo.runtime.links import Links
from gonogo.runtime.maintenance import Driving, Maintenance, take_up
from gonogo.runtime.messages import KeptAnswers, Messages
from gonogo.runtime.people import People
from gonogo.runtime.plans import Plans
from gonogo.runtime.reports import AuditLog, Policies, Reports
from gonogo.runtime.services import Parts, bare_thread, warn_of_own_code
from gonogo.runtime.sessions import Sessions, visible
from gonogo.runtime.streams import Streams
from gonogo.settings import Settings
from gonogo.store import Clock, Membership, Tx, utc_now
from gonogo.store import events as log
from gonogo.store.people import OWNER
from gonogo.store.places import settle_in
from gonogo.store.sessions import workspaces
from gonogo.telemetry import Metrics

_ELSEWHERE = 10.0
_PATIENCE = 9.0
"""Seconds that the database and the state folder may take to answer."""


class Runtime:
    """Everything that a door may ask of gonogo.

    Made by `Runtime.open`, which owns the database, the jobs and the timers until it is left.
    """

    owner = OWNER

    def __init__(self, parts: Parts) -> None:
        """Take opened rooms; use `Runtime.open`."""
        self.parts = parts
        self.addresses: list[str] = []
        """The addresses at which this process listens now."""
        self.sessions = Sessions(parts, parts.settings.default_workspace)
        self.approvals = Approvals(parts)
        self.messages = Messages(parts, self.sessions, self.approvals)
        self.links = Links(parts, self.approvals)
        self.plans = Plans(parts)
        self.checkpoints = Checkpoints(parts)
        self.changes = FileChanges(parts)
        self.streams = Streams(parts)
        self.people = People(parts)
        self.answers = KeptAnswers(parts)
        self.policies = Policies(parts)
        self.reports = Reports(parts)
        self.audit = AuditLog(parts)
        self.servers = ForeignServers(parts)
        self.maintenance = Maintenance(parts)
        for verb in (CHECKPOINT, ROLLBACK):
            parts.asks.verbs[verb] = partial(self.checkpoints.for_owner, verb)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        model: Model | None = None,
        clock: Clock = utc_now,
        idle: bool = False,
        shared_as: Membership | None = None,
        extensions: Extensions | None = None,
    ) -> AsyncGenerator["Runtime"]:
        """Open every room, go on with what was left undone, and run until left.

        Args:
            model: A model to use instead of the configured one.
            idle: Start nothing: no unfinished work, no timers, no new work.
            shared_as: The role of this process, if several share the work on one PostgreSQL.
            extensions: Extensions to use instead of the installed ones.

        Raises:
            Refused: the database is newer than this code, or another process drives it, or a rule
                or profile is not valid, or an installed extension is broken.
            Busy: the database is away.
        """
        environment = dict(os.environ)
        opened = partial(open_parts, settings, environment, model, clock, extensions)
        parts = await anyio.to_thread.run_sync(
            partial(opened, drives=not idle, shared_as=shared_as)
        )
        runtime = cls(parts)
        driving = Driving(
            store=parts.store, dispatcher=parts.dispatcher, hub=parts.hub, metrics=parts.metrics,
            handlers=parts.handlers, on_timer=parts.on_timer, take_up=partial(take_up, parts),
        )  # fmt: skip
        parts.store.deliver = driving.deliver
        try:
            await remember(parts)
            if shared_as is not None:
                await parts.store.write(settle_in, shared_as)
            async with anyio.create_task_group() as group:
                await parts.store.write(_open, parts)
                if idle:
                    await driving.count_questions()
                else:
                    warn_of_own_code(settings.workspace)
                    await _start(group, parts, driving)
                try:
                    yield runtime
                finally:
                    runtime.close_streams()
                    group.cancel_scope.cancel()
                    parts.store.stop_waiting()
        finally:
            with anyio.CancelScope(shield=True):
                await runtime._close()

    @property
    def settings(self) -> Settings:
        """What the operator set."""
        return self.parts.settings

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way in this process; work that waits for a person is not."""
        return self.parts.dispatcher.is_idle

    @property
    def hears_within(self) -> float:
        """Seconds after which to look for what another process may have done, if any may."""
        return math.inf if self.parts.store.shared_as is None else _ELSEWHERE

    @property
    def closing(self) -> anyio.Event:
        """Set when the runtime is about to end: open streams end."""
        return self.parts.closing

    async def check_ready(self) -> None:
        """Check that work can be done: that decisions and results can be stored.

        Raises:
            Busy: the database is away, another process drives it, or the state folder cannot be
                written.
        """
        with anyio.move_on_after(_PATIENCE):
            await self.parts.store.probe()
            probe = self.parts.rollbacks.snapshots.probe
            await anyio.to_thread.run_sync(probe, abandon_on_cancel=True)
            return
        raise Busy(reason=because("the state folder does not answer in time"))

    @property
    def metrics(self) -> Metrics:
        """The metrics of this process."""
        return self.parts.metrics

    def close_streams(self) -> None:
        """End every open stream."""
        self.parts.closing.set()
        self.parts.hub.wake_all()

    async def joined(self) -> None:
        """Return once this process has joined the others, or at once if it works alone."""
        if isinstance(self.parts.dispatcher, Places):
            await self.parts.dispatcher.joined.wait()

    async def drain(self) -> None:
        """Have the other processes go on with the work of this one, if there are several."""
        await self.parts.dispatcher.drain()

    # Tool hosts -------------------------------------------------------------------------------

    async def claim_tool_host(self, principal: Principal, session_id: str, connection: str) -> None:
        """Have a connection carry out a session's tools.

        Raises:
            Conflict: another connection does, or the session's tools run on the server.
        """
        principal.require(Role.OPERATOR)
        session = await self.parts.store.read(visible, principal, session_id)
        if session.tool_host != "client":
            raise Conflict(
                "The server runs this session's tools; to run them in a client, open a session "
                "with tool_host: client"
            )
        await self.parts.hosts.claim(session_id, connection)

    async def release_tool_host(self, connection: str) -> None:
        """Release the sessions of a connection that has ended; its calls wait for their timeout."""
        await self.parts.hosts.release(connection)

    # What there is ----------------------------------------------------------------------------

    def agents(self) -> list[AgentView]:
        """Every agent profile."""
        return [
            AgentView.of(
                profile, may_write=["**"] if profile.may_write is None else profile.may_write
            )
            for profile in self.parts.profiles.values()
        ]

    def tools(self) -> list[ToolView]:
        """Every tool that agents may use."""
        return [
            ToolView.of(tool, parameters=tool.schema().parameters)
            for tool in self.parts.tools.values()
        ]

    def models(self) -> list[dict[str, Any]]:
        """The models that could be used, and the roles of each."""
        models = self.parts.models
        return available_models(models.environment, models.roles)

    # One tool ---------------------------------------------------------------------------------

    async def run_tool(
        self, principal: Principal, name: str, arguments: dict[str, Any], workspace: Path
    ) -> dict[str, Any]:
        """Run one tool through the gate, without a model.

        Returns `{decision, reason, rule}`, and with `allow` also `result` or `error`, and under
        `left` the guarded names that a command left unexpectedly.

        Raises:
            PolicyDenied: the gate denies it.
        """
        principal.require(Role.OPERATOR)
        self.parts.require_alone(because("A single call of a tool"))
        thread = bare_thread(workspace)
        gated = await self.parts.gate.judge(thread, name, arguments)
        found = gated.verdict
        if found.decision == "deny":
            raise PolicyDenied(gated.error or found.reason)
        told: dict[str, Any] = {
            "decision": found.decision, "reason": found.reason, "rule": found.rule,
        }  # fmt: skip
        if found.decision == "ask" or gated.tool_class is ToolClass.CONTROL:
            return {**told, "decision": "ask", "preview": gated.preview}
        await self.parts.store.write(_note_tool, principal, name, gated)
        tool, hands = self.parts.tools[name], self.parts.hands
        watch = await hands.watches.before(thread, "", gated, asked=False)
        try:
            result, error = await hands.carry_out(thread, tool, gated)
        except OutcomeUnknown as doubt:
            return {**told, "error": f"{doubt.kind}: {doubt}"}
        if left := await hands.watches.left(watch):
            told["left"] = [shown_path(name) for name in left]
        return {**told, "error": error} if error is not None else {**told, "result": result}

    # Inside -----------------------------------------------------------------------------------

    async def _close(self) -> None:
        self.close_streams()
        await self.parts.models.aclose()
        if self.parts.tracing is not None:
            await self.parts.tracing.close()
        await anyio.to_thread.run_sync(self.parts.store.close)


async def _start(group: TaskGroup, parts: Parts, driving: Driving) -> None:
    """Start the rooms that work by themselves; the one that starts jobs comes last."""
    for room in (parts.servers, parts.tracing, parts.hosts, driving):
        if room is not None:
            await group.start(room.serve)


def _open(tx: Tx, parts: Parts) -> None:
    log.start_system_chain(tx)
    # Folders outside the roots in which people of this machine had sessions.
    for folder in workspaces(tx):
        parts.gate.programs.know(folder)
    if parts.store.missing:
        log.note(
            tx, log.SYSTEM, actor=OWNER.id,
            action="database.accepted", subject=log.SYSTEM, missing=parts.store.missing,
        )  # fmt: skip


def _note_tool(tx: Tx, principal: Principal, name: str, gated: Gated) -> None:
    log.note(
        tx, log.SYSTEM, actor=principal.id, action="tool.allowed", subject=name,
        digest=gated.digest, arguments=gated.arguments, reason=gated.verdict.reason,
        rule=gated.verdict.rule, source=gated.verdict.source,
    )  # fmt: skip
