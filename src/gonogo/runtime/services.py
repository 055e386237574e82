"""The opened parts of a runtime, which its verbs work with."""

from collections.abc import Callable, Mapping

import anyio
from msgspec import Struct, field

from gonogo.execution.agent import Gate, Hands, Profile
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
from gonogo.runtime.oidc import Bearers
from gonogo.runtime.wiring import CountedModel
from gonogo.settings import Settings
from gonogo.store import Store
from gonogo.telemetry import Metrics
from gonogo.tools import ServerPool, Tool
from gonogo.webhooks import Sender


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
