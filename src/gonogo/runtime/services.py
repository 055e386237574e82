"""The opened parts of a runtime, and the gate as the settings have it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct, field

from gonogo.domain.errors import ModelFailed
from gonogo.domain.failures import Severity
from gonogo.domain.network import PrivateHosts
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.reviews import Doings, Review, deed_of
from gonogo.domain.states import ApprovalKind
from gonogo.domain.tool_calls import Call, ModelRequest, Reply
from gonogo.execution.agent import Gate, Giving, Hands, Means, Profile, Thread, nothing_given
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.checkpoints import Sweeps
from gonogo.execution.erasures import Erasures
from gonogo.execution.event_bus import Hub
from gonogo.execution.inbox import Inbox
from gonogo.execution.jobs import LocalDispatcher
from gonogo.execution.plans import Answering, Engine, Planning, PlanRunner, Replanning
from gonogo.execution.recovery import Continuation
from gonogo.execution.rollback import Rollbacks
from gonogo.execution.turns import Turns
from gonogo.llm import Model, ModelSettings, open_model
from gonogo.policy import Reviews, load_reviews, load_rules
from gonogo.runtime.oidc import Bearers
from gonogo.settings import Settings
from gonogo.store import Store, Tx, go_on
from gonogo.store.sessions import session_of
from gonogo.telemetry import Metrics
from gonogo.tools import ServerPool, Tool
from gonogo.webhooks import Sender
from gonogo.workspace import DEFAULT_PATH, Ceilings, Network, Programs, Sandbox

# The gate as the settings have it, and what commands may take and reach.


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
        path: The PATH that we have, by which programs of commands are found.

    Raises:
        BadRules: naming file and line of the first defect in the rules.
    """
    return Gate(
        tools=tools, profiles=profiles, home=settings.home, given=given,
        servers=servers, programs=open_programs(settings, path),
        reviewed=partial(_review_of, reviews),
        unforeseen=partial(_is_unforeseen, reviews.of_places),
        rules=load_rules(settings.admin_rules, settings.rules),
        sandbox=Sandbox.detect() if settings.sandbox else None,
        attended=not settings.unattended, repo_trusted=settings.repo_trusted,
        readers=settings.readers,
    )  # fmt: skip


def bare_thread(
    workspace: Path, agent: str = "universal", *, locale: str = "en", remote: bool = False
) -> Thread:
    """A conversation of nobody, in which a single call can be judged.

    Args:
        remote: A client runs its tools, so that nothing is looked up on this disk.
    """
    return Thread(
        session_id="", name="tool", script="", agent=agent, locale=locale,
        workspace=workspace, remote=remote, check=lambda tx: None, park=lambda tx: None,
    )  # fmt: skip


def _review_of(reviews: Reviews, call: Call) -> Review | None:
    return reviews.of("tool", (deed_of(call.agent, call.tool, call.access),))


def _is_unforeseen(places: Reviews, call: Call) -> bool:
    # A plan declares how a command begins; what that is told to touch is seen when it is called.
    return call.access.command is not None and _review_of(places, call) is not None


def open_programs(settings: Settings, path: str | None) -> Programs:
    """Where programs are looked for: in no folder that agents may get as their workspace."""
    return Programs(path=path or DEFAULT_PATH, roots=settings.allowed_roots)


def open_means(settings: Settings) -> Means:
    """What tools may have."""
    return Means(
        command_timeout=settings.command_timeout, command_output=settings.command_output,
        hidden=_hidden(settings),
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


def _hidden(settings: Settings) -> tuple[Path, ...]:
    """What commands do not see besides the state folder: our other files, and the user's home."""
    files = [
        settings.config,
        settings.admin_rules,
        settings.hooks,
        settings.mcp,
        Path("~").expanduser(),
    ]
    if settings.db is not None and settings.db.startswith("sqlite"):
        name = settings.db.partition("///")[2].partition("?")[0]
        files += [Path(f"{name}{end}") for end in ("", "-wal", "-shm", "-journal")] if name else []
    found = {file.absolute() for file in files if file is not None}
    return tuple(sorted(found - {Path("/")}))


# What the settings say of questions, and of plans that are sent back.


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
    """The desk, with the rules of review and the times that questions have."""
    seconds = {
        ApprovalKind.TOOL: settings.approval_expiry_tool,
        ApprovalKind.PLAN: settings.approval_expiry_plan,
        ApprovalKind.SUBTASK: settings.approval_expiry_subtask,
        ApprovalKind.INTERVENTION: settings.approval_expiry_intervention,
    }
    if settings.approval_expiry_action == "keep_waiting":
        seconds = {}
    return ApprovalService(
        reviews=load_reviews(settings.admin_rules, settings.rules), doings=doings.of,
        expiry={k: timedelta(seconds=s) if s is not None else None for k, s in seconds.items()},
        warning=timedelta(seconds=settings.approval_warning),
        rejects_expired=settings.approval_expiry_action == "reject",
        max_pending=settings.max_pending_approvals, has_room=_ask_the_rest,
    )  # fmt: skip


def _ask_the_rest(tx: Tx, session_id: str) -> None:
    """A session takes questions again: its plan may have some that there was no room for."""
    session = session_of(tx, session_id)
    if session is not None and session.active_plan_id is not None:
        go_on(tx, "plan", session.active_plan_id)


# A model whose failures are counted.


class CountedModel(Struct, frozen=True):
    """Asks another model, and tells when that one does not answer."""

    model: Model
    failed: Callable[[str], None]

    @property
    def name(self) -> str:
        """The other one's."""
        return self.model.name

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply.
        """
        try:
            return await self.model.request(request, on_text)
        except ModelFailed:
            self.failed(self.name)
            raise

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.model.aclose()


class ModelPool(Struct, kw_only=True):
    """The models that are asked, each opened when it is first."""

    settings: Settings
    environment: dict[str, str]
    failed: Callable[[str], None]
    """Told the name of the model when it does not answer."""
    only: Model | None = None
    """Asked in the place of every other."""
    opened: dict[str | None, Model] = field(default_factory=dict[str | None, Model])

    def __call__(self, name: str | None = None) -> Model:
        """The model of a name, or the configured one.

        Raises:
            ModelNotConfigured: there is none of the name, or none is configured; the text lists the
                choices.
        """
        if self.only is not None:
            return CountedModel(self.only, self.failed)
        if name not in self.opened:
            wanted = model_settings(self.settings, name)
            self.opened[name] = open_model(wanted, self.environment)
        return CountedModel(self.opened[name], self.failed)

    async def aclose(self) -> None:
        """Give back the connections of all of them."""
        for model in (*self.opened.values(), *((self.only,) if self.only else ())):
            await model.aclose()


class Parts(Struct, frozen=True, kw_only=True):
    """Every room, opened."""

    settings: Settings
    store: Store
    hub: Hub
    metrics: Metrics
    desk: ApprovalService
    gate: Gate
    hands: Hands
    engine: Engine
    runner: PlanRunner
    planning: Planning
    replanning: Replanning
    answering: Answering
    rollbacks: Rollbacks
    sweeps: Sweeps
    erasures: Erasures
    sender: Sender
    turns: Turns
    inbox: Inbox
    dispatcher: LocalDispatcher
    models: ModelPool
    profiles: dict[str, Profile]
    tools: Mapping[str, Tool]
    servers: ServerPool | None
    went_on: Continuation
    closing: anyio.Event
    bearers: Bearers | None
    hosts: dict[str, str] = field(default_factory=dict[str, str])
    """Session → the connection that carries out its tools."""


def model_settings(settings: Settings, name: str | None = None) -> ModelSettings:
    """What the settings say of a model, of the configured one where none is named."""
    key = settings.model_api_key
    return ModelSettings(
        name=name or settings.model,
        base_url=settings.openai_base_url,
        api_key=key.get_secret_value() if key else None,
        timeout=settings.model_timeout,
        max_attempts=settings.model_max_attempts,
        temperature=settings.temperature,
    )
