"""The opened parts of a runtime, and the gate, desk and means as the settings say."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from typing import Any

import anyio
from msgspec import Struct, field

from gonogo.domain.errors import Busy, Conflict, ModelNotConfigured, because
from gonogo.domain.failures import Severity
from gonogo.domain.network import PrivateHosts
from gonogo.domain.plan import READ_TOOL
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.reviews import Doings
from gonogo.domain.states import ApprovalKind
from gonogo.domain.tool_calls import Access, Call, ToolClass
from gonogo.execution.agent import (
    NOBODYS,
    Gate,
    Giving,
    Hands,
    Inbox,
    Means,
    ModelPool,
    Profile,
    Thread,
    is_taped,
    nothing_given,
)
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.erasures import Erasures, Sweeps
from gonogo.execution.event_bus import Hub, LiveText
from gonogo.execution.jobs import Dispatcher, Handler, OnTimer
from gonogo.execution.places import Asks
from gonogo.execution.plans import (
    Answering,
    Engine,
    HandCheckpoints,
    Planning,
    PlanRunner,
    Replanning,
)
from gonogo.execution.recovery import Continuation
from gonogo.execution.rollback import Rollbacks
from gonogo.execution.turns import Turns
from gonogo.llm import ROLES, ModelRole, load_roles
from gonogo.policy import Conditions, Reviews, load_reviews, load_rules, verdict
from gonogo.runtime.oidc import Bearers
from gonogo.settings import Settings
from gonogo.store import Membership, Store
from gonogo.store.jobs import claim_tool_host, drop_tool_host, renew_tool_hosts, tool_host_of
from gonogo.telemetry import Metrics, Tracing
from gonogo.tools import Diagnostics, ServerPool, Tool
from gonogo.webhooks import Sender
from gonogo.workspace import (
    DEFAULT_PATH,
    Ceilings,
    InstructionReader,
    Network,
    Programs,
    Sandbox,
    own_code,
)

# Tool hosts: which connection of a client runs a session's tools, if the server does not.
#
# A single process remembers that by itself. If there are several servers, each writes the tool
# hosts of its own clients to the database, where all servers see them, and renews them every two
# seconds; so a server that dies keeps no session.

_LOG = logging.getLogger(__name__)
_EVERY = 2.0


class ToolHosts(Struct, frozen=True):
    """The connections that run tools."""

    store: Store
    ours: dict[str, str] = field(default_factory=dict[str, str])
    """Session → the connection to this process that runs its tools."""

    async def claim(self, session_id: str, connection: str) -> None:
        """Have a connection run a session's tools.

        Raises:
            Conflict: another connection does.
        """
        holder = self.ours.get(session_id, connection)
        if holder != connection or not await self._claim(session_id, connection):
            raise Conflict("Another connection runs this session's tools; close it first")
        self.ours[session_id] = connection

    async def release(self, connection: str) -> None:
        """Release the sessions of a connection that has ended."""
        held = [session for session, holder in self.ours.items() if holder == connection]
        for session_id in held:
            del self.ours[session_id]
        if held and self.store.shared_as is not None:
            # If this fails, nobody renews the entry, so it ends by itself in a few seconds.
            with suppress(Busy):
                await self.store.write(drop_tool_host, connection)

    async def holder(self, session_id: str) -> str | None:
        """The connection that runs a session's tools, on whichever server it is."""
        if self.store.shared_as is None:
            return self.ours.get(session_id)
        return await self.store.read(tool_host_of, session_id)

    async def serve(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Renew our entries regularly, if other servers have to know them."""
        task_status.started()
        while self.store.shared_as is not None:
            await anyio.sleep(_EVERY)
            if self.ours:
                with suppress(Busy):
                    await self.store.write(renew_tool_hosts, dict(self.ours))

    async def _claim(self, session_id: str, connection: str) -> bool:
        if self.store.shared_as is None:
            return True
        return await self.store.write(claim_tool_host, session_id, connection)


# The gate as the settings say, and what commands may use and reach.


def warn_of_own_code(workspace: Path) -> None:
    """Log that commands without a sandbox can change gonogo itself, if they can."""
    if own := own_code(workspace):
        _LOG.warning(
            "gonogo runs from %s, inside the workspace: a command without a sandbox can change it",
            own[0],
        )


def open_gate(
    settings: Settings,
    tools: Mapping[str, Tool],
    profiles: Mapping[str, Profile],
    reviews: Reviews,
    given: Giving = nothing_given,
    servers: ServerPool | None = None,
    path: str | None = None,
) -> Gate:
    """Make the gate of these tools and agents.

    Args:
        path: Our own PATH, in which programs of commands are searched.

    Raises:
        BadRules: the rules have a defect; the text names the file and the line of the first one.
    """
    return Gate(
        tools=tools, profiles=profiles, home=settings.home, given=given,
        servers=servers, programs=open_programs(settings, path),
        reviews=reviews,
        rules=load_rules(settings.admin_rules, settings.rules),
        sandbox=Sandbox.detect() if settings.sandbox else None,
        attended=not settings.unattended, repo_trusted=settings.repo_trusted,
        readers=settings.readers,
    )  # fmt: skip


def open_reader(settings: Settings) -> InstructionReader:
    """The reader of instruction files and skills.

    Raises:
        BadRules: the rules have a defect; the text names the file and the line of the first one.
    """
    rules = load_rules(settings.admin_rules, settings.rules)
    agents = {rule.text.agent or "" for rule in rules.all()} | {""}

    @lru_cache(maxsize=4_096)
    def barred(path: str) -> bool:
        """Whether any rule denies reading a file, or asks, for any agent."""
        calls = (
            Call(
                tool=READ_TOOL, tool_class=ToolClass.PURE, agent=agent, arguments={"path": path},
                access=Access(reads=(path,)),
            )
            for agent in agents
        )  # fmt: skip
        return any(
            verdict(call, rules, Conditions(workspace="/"), None).decision != "allow"
            for call in calls
        )

    return InstructionReader(own=settings.config, on=settings.instructions, barred=barred)


def bare_thread(
    workspace: Path, agent: str = "universal", *, locale: str = "en", remote: bool = False
) -> Thread:
    """A conversation without an owner, in which a single call can be judged.

    Args:
        remote: A client runs its tools, so that nothing is looked up on this disk.
    """
    return Thread(
        session_id="", name="tool", script="", agent=agent, locale=locale,
        workspace=workspace, remote=remote, owner=NOBODYS,
    )  # fmt: skip


def open_programs(settings: Settings, path: str | None) -> Programs:
    """Where programs are searched: in no folder that can be a workspace of agents."""
    return Programs(path=path or DEFAULT_PATH, roots=settings.allowed_roots)


def open_means(settings: Settings, is_ours: Callable[[], bool] | None = None) -> Means:
    """What the settings let tools have; see `Means.is_ours`."""
    return Means(
        command_timeout=settings.command_timeout, command_output=settings.command_output,
        result_tokens=settings.result_tokens, diagnostics=open_diagnostics(settings),
        is_ours=is_ours, hidden=_hidden(settings), is_taped=partial(is_taped, settings),
        ceilings=Ceilings(
            processes=settings.command_processes, memory=settings.command_memory,
            file=settings.command_file_size, disk=settings.command_disk,
            temporary=settings.command_temporary,
        ),
        network=Network(
            hosts=False, private=PrivateHosts.read(settings.network_private_hosts),
            own_ports=frozenset({settings.port}), transfer=settings.network_transfer << 20,
        ),
    )  # fmt: skip


def open_diagnostics(settings: Settings) -> Diagnostics | None:
    """The operator's command that checks written files, if there is one."""
    if settings.diagnostics is None:
        return None
    return Diagnostics(settings.diagnostics, settings.diagnostics_timeout)


def _hidden(settings: Settings) -> tuple[Path, ...]:
    """What commands cannot see, besides the state folder: our other files, and the user's home."""
    files = [
        settings.config,
        settings.admin_rules,
        settings.hooks,
        settings.mcp,
        settings.models,
        Path("~").expanduser(),
    ]
    if settings.db is not None and settings.db.startswith("sqlite"):
        name = settings.db.partition("///")[2].partition("?")[0]
        files += [Path(f"{name}{end}") for end in ("", "-wal", "-shm", "-journal")] if name else []
    found = {file.absolute() for file in files if file is not None}
    return tuple(sorted(found - {Path("/")}))


# What the settings say about questions, and about plans that are sent back.


def replan_rules(settings: Settings) -> ReplanRules:
    """What failures do to plans."""
    wanted = {
        Severity.CRITICAL: settings.replanning_trigger_critical,
        Severity.HIGH: settings.replanning_trigger_high,
        Severity.MEDIUM: settings.replanning_trigger_medium,
    }
    on = settings.auto_replanning
    return ReplanRules(
        severities=frozenset(severity for severity, set_ in wanted.items() if on and set_),
        max_attempts=settings.replanning_max_attempts,
        human_after=settings.replanning_human_after,
        min_interval=timedelta(seconds=settings.replanning_min_interval),
    )


def open_desk(settings: Settings, doings: Doings) -> ApprovalService:
    """The desk, with the rules of review and the lifetimes of questions."""
    seconds = {
        ApprovalKind.TOOL: settings.approval_expiry_tool,
        ApprovalKind.PLAN: settings.approval_expiry_plan,
        ApprovalKind.SUBTASK: settings.approval_expiry_subtask,
        ApprovalKind.INTERVENTION: settings.approval_expiry_intervention,
    }
    if settings.approval_expiry_action == "keep_waiting":
        seconds = {}
    return ApprovalService(
        reviews=load_reviews(settings.admin_rules, settings.rules), doings=doings,
        expiry={k: timedelta(seconds=s) if s is not None else None for k, s in seconds.items()},
        warning=timedelta(seconds=settings.approval_warning),
        rejects_expired=settings.approval_expiry_action == "reject",
        max_pending=settings.max_pending_approvals,
    )  # fmt: skip


class Parts(Struct, frozen=True, kw_only=True):
    """Every room, opened."""

    settings: Settings
    store: Store
    hub: Hub
    live: LiveText
    metrics: Metrics
    desk: ApprovalService
    gate: Gate
    hands: Hands
    engine: Engine
    runner: PlanRunner
    planning: Planning
    replanning: Replanning
    answering: Answering
    asks: Asks
    by_hand: HandCheckpoints
    rollbacks: Rollbacks
    sweeps: Sweeps
    erasures: Erasures
    sender: Sender
    turns: Turns
    inbox: Inbox
    dispatcher: Dispatcher
    models: ModelPool
    profiles: dict[str, Profile]
    tools: Mapping[str, Tool]
    servers: ServerPool | None
    went_on: Continuation
    handlers: Mapping[str, Handler]
    """The function that carries out a job, by kind."""
    on_timer: OnTimer
    closing: anyio.Event
    bearers: Bearers | None
    tracing: Tracing | None
    hosts: ToolHosts

    def require_alone(self, what: str) -> None:
        """Check that this process does all the work, for verbs that no worker can carry out.

        Raises:
            Conflict: workers do the work.
        """
        if self.store.shared_as is not None:
            raise Conflict(
                "{what}: not possible yet where workers do the work; stop all servers and workers "
                "of this database, and start gonogo serve without --no-work",
                what=what,
            )


_STATE = "state.id"


def member_of(
    settings: Settings,
    kind: str,
    pool: str,
    capacity: int = 0,
    labels: Mapping[str, str] | None = None,
) -> Membership:
    """The role of this process, if several share the work on one database.

    Args:
        kind: `server` or `worker`.

    Raises:
        Busy: the state folder cannot be written.
    """
    file = settings.home / _STATE
    try:
        if not file.exists():
            made = file.with_name(f"{_STATE}.{token_hex(4)}")
            made.write_text(f"{gethostname()[:40]}-{token_hex(6)}\n")
            with suppress(FileExistsError):
                os.link(made, file)
            made.unlink()
        home = file.read_text().strip()
    except OSError as error:
        said = because("{file} cannot be written: {strerror}", file=file, strerror=error.strerror)
        raise Busy(reason=said) from error
    return Membership(
        kind=kind, pool=pool, home=home, capacity=capacity, labels=labels or {},
        policy=_digest_of_rules(settings),
    )  # fmt: skip


def _digest_of_rules(settings: Settings) -> str:
    """A digest of the files of rules: processes with the same rules have the same one."""
    digest = sha256()
    for file in (settings.admin_rules, settings.rules):
        text = file.read_bytes() if file is not None and file.is_file() else b""
        digest.update(b"%d " % len(text) + text)
    return digest.hexdigest()[:16]


class RoleReport(Struct, frozen=True, kw_only=True):
    """The models of a role."""

    role: str
    models: Sequence[str]
    """Their names for people: the first model, then those that can replace it."""
    problems: Sequence[str]
    """Why some of them cannot be used."""

    @property
    def works(self) -> bool:
        """Whether any of them can be used."""
        return len(self.problems) < len(self.models)


def look_at_models(settings: Settings, environment: dict[str, str]) -> list[RoleReport]:
    """Which models each role uses, as far as that shows without asking them.

    Without a file that names models by role, all roles use the same one, so one role is reported.

    Raises:
        BadModels: the file has a defect; the text names the file, line and role of the first one.
    """
    roles = load_roles(settings.models_file)
    pool = ModelPool(settings=settings, environment=environment, metrics=Metrics(), roles=roles)
    return [_report(pool, role) for role in (ROLES if roles else ROLES[:1])]


def _report(pool: ModelPool, role: ModelRole) -> RoleReport:
    models, problems = list[str](), list[str]()
    for choice in pool.choices(None, role):
        try:
            name = pool.check(choice)
        except ModelNotConfigured as error:
            name = choice.name or "the configured model"
            problems.append(error.said)
        models.append(f"{name} (effort {choice.effort})" if choice.effort else name)
    return RoleReport(role=role, models=models, problems=problems)
