"""The models that agents ask: opened when they are first needed, and counted."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from gonogo.domain.errors import ModelFailed
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm import Model, ModelSettings, open_model, secrets_in
from gonogo.settings import Settings
from gonogo.telemetry import Metrics

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
    opened: dict[str | None, Model] = field(default_factory=dict[str | None, Model])

    def __call__(self, name: str | None = None) -> Model:
        """The model of a name, or the configured one.

        Raises:
            ModelNotConfigured: there is none of the name, or none is configured; the text lists the
                choices.
        """
        if self.only is not None:
            return CountedModel(self.only, self.metrics)
        if name not in self.opened:
            wanted = model_settings(self.settings, name, self.environment)
            self.opened[name] = open_model(wanted, self.environment)
        return CountedModel(self.opened[name], self.metrics)

    def window(self, name: str | None = None) -> int:
        """Tokens that a request to a model and its reply may have together.

        Raises:
            ModelNotConfigured: there is no such model.
        """
        return self.settings.model_window or self(name).window or CAREFUL_WINDOW

    async def aclose(self) -> None:
        """Give back the connections of all of them."""
        for model in (*self.opened.values(), *((self.only,) if self.only else ())):
            await model.aclose()


def model_settings(
    settings: Settings, name: str | None = None, environment: Mapping[str, str] | None = None
) -> ModelSettings:
    """What the settings say of a model, of the configured one where none is named.

    Args:
        environment: What is secret in it never gets into a cassette.
    """
    key = settings.model_api_key
    return ModelSettings(
        name=name or settings.model,
        base_url=settings.openai_base_url,
        api_key=key.get_secret_value() if key else None,
        timeout=settings.model_timeout,
        max_attempts=settings.model_max_attempts,
        temperature=settings.temperature,
        window=settings.model_window,
        record=settings.record,
        secrets=secrets_in(environment or {}, settings.secrets),
    )
