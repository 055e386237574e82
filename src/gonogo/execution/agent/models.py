"""The models that agents ask: opened when they are first needed, and counted."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec import Struct, field

from gonogo.domain.errors import ModelFailed, ModelNotConfigured
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm import (
    ATTEMPTS,
    NO_KEY,
    REPLAY,
    FallbackModel,
    Model,
    ModelChoice,
    ModelRest,
    ModelRole,
    ModelSettings,
    Roles,
    choices_of,
    detect,
    open_model,
    secrets_in,
)
from gonogo.settings import Settings
from gonogo.telemetry import Metrics

ANY_MODEL = ModelChoice()
CAREFUL_WINDOW = 32_000
"""Tokens of a model of which nobody knows its window."""


class CountedModel(Struct, frozen=True):
    """Asks another model, and counts its answers, and how often it has none."""

    model: Model
    metrics: Metrics

    @property
    def name(self) -> str:
        """The other one's."""
        return self.model.name

    @property
    def window(self) -> int | None:
        """The other one's."""
        return self.model.window

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply.
        """
        try:
            reply = await self.model.request(request, on_text)
        except ModelFailed:
            self.metrics.model_failed(self.name)
            raise
        self.metrics.model_answered(reply.model, reply.usage)
        return reply

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.model.aclose()


class ModelPool(Struct, kw_only=True):
    """The models that are asked, each opened when it is first."""

    settings: Settings
    environment: dict[str, str]
    metrics: Metrics
    only: Model | None = None
    """Asked in the place of every other."""
    roles: Roles = {}
    """What the operator's file says of roles."""
    opened: dict[ModelSettings, Model] = field(default_factory=dict[ModelSettings, Model])
    rests: dict[ModelChoice, ModelRest] = field(default_factory=dict[ModelChoice, ModelRest])
    """Those that failed lately and have others behind them."""

    def __call__(self, name: str | None = None, role: ModelRole = "work") -> Model:
        """The model of a name, or else that of a role, with those that stand in for it.

        Raises:
            ModelNotConfigured: there is none of the name, or none is configured; the text lists the
                choices.
        """
        if self.only is not None:
            return CountedModel(self.only, self.metrics)
        choices = self.choices(name, role)
        if len(choices) > 1:
            return FallbackModel(choices, partial(self._open, attempts=ATTEMPTS), self.rests)
        return self._open(choices[0])

    def choices(self, name: str | None, role: ModelRole) -> Sequence[ModelChoice]:
        """Which models are asked, in order: the one that a person named is asked alone."""
        if name is not None:
            return (ModelChoice(name=name, for_session=True),)
        if (self.settings.model or "").startswith(REPLAY):
            # A cassette plays what each role was answered, and nobody else is asked.
            return (ANY_MODEL,)
        return choices_of(self.roles, role)

    def check(self, choice: ModelChoice) -> str:
        """The name of a model that can be asked.

        Raises:
            ModelNotConfigured: there is none of the name, or something of it is missing.
        """
        return self._open(choice).name

    def _open(self, choice: ModelChoice, attempts: int | None = None) -> Model:
        wanted = model_settings(self.settings, choice, self.environment, attempts)
        if wanted not in self.opened:
            self.opened[wanted] = open_model(wanted, self.environment)
        return CountedModel(self.opened[wanted], self.metrics)

    def window(self, name: str | None = None, role: ModelRole = "work") -> int:
        """Tokens that a request to a model and its reply may have together.

        Raises:
            ModelNotConfigured: there is no such model.
        """
        told = self.settings.model_window
        if self.only is not None:
            return told or self.only.window or CAREFUL_WINDOW
        if told and not any(choice.window for choice in self.choices(name, role)):
            return told
        return self(name, role).window or CAREFUL_WINDOW

    async def aclose(self) -> None:
        """Give back the connections of all of them."""
        for model in (*self.opened.values(), *((self.only,) if self.only else ())):
            await model.aclose()


def model_settings(
    settings: Settings,
    choice: ModelChoice = ANY_MODEL,
    environment: Mapping[str, str] = MappingProxyType({}),
    attempts: int | None = None,
) -> ModelSettings:
    """What a model is opened with.

    Args:
        attempts: The most that make sense, where another model is asked next.

    Raises:
        ModelNotConfigured: its key is not where it should be.
    """
    most = settings.model_max_attempts
    return ModelSettings(
        name=choice.name or settings.model,
        base_url=choice.base_url or settings.openai_base_url,
        api_key=_key(settings, choice, environment),
        timeout=settings.model_timeout,
        max_attempts=most if attempts is None else min(most, attempts),
        temperature=settings.temperature, effort=choice.effort, price=choice.price,
        window=choice.window or settings.model_window, record=settings.record,
        secrets=secrets_in(environment, settings.secrets),
    )  # fmt: skip


def _key(settings: Settings, choice: ModelChoice, environment: Mapping[str, str]) -> str | None:
    """The key that a model's server is sent; None is the provider's usual one."""
    if choice.key_env is not None:
        key = environment.get(choice.key_env)
        if not key:
            raise ModelNotConfigured(
                f"{choice.name or 'the model'} needs the variable {choice.key_env}, "
                "which its key_env names, and it is not set"
            )
        return key
    if choice.base_url is not None:
        # The usual keys are for others than this server.
        return NO_KEY
    own = settings.model_api_key
    return own.get_secret_value() if own and _is_its(settings, choice, environment) else None


def _is_its(settings: Settings, choice: ModelChoice, environment: Mapping[str, str]) -> bool:
    """Whether GONOGO_MODEL_API_KEY is for a model: it is for the provider that is configured."""
    configured = settings.model or detect(environment)
    if choice.for_session or choice.name is None or configured is None:
        return True
    return choice.name.partition(":")[0] == configured.partition(":")[0]
