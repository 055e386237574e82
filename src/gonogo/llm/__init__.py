"""Which model, and one streamed request to it.

Only this room knows pydantic-ai, and imports it only when a model is opened. A model takes a
`ModelRequest` and returns a `Reply` whose call ids are gonogo's. It retries failures that may pass,
and raises `ModelFailed` for others. Each role in the operator's file has its own model, and
fallbacks for it. Requests to a provider and its answers can be recorded in a cassette and played
again. Nothing here runs a tool or stores a conversation.
"""

from gonogo.llm.choice import (
    ATTEMPTS,
    NO_KEY,
    REPLAY,
    FallbackModel,
    ModelRest,
    available_models,
    detect,
    is_reachable,
    open_model,
    plain_name,
    provider_variables,
    secrets_in,
    speaks_openai,
)
from gonogo.llm.model import (
    ROLES,
    BadModels,
    Model,
    ModelChoice,
    ModelRole,
    ModelSettings,
    OnText,
    Roles,
    choices_of,
    load_roles,
)
from gonogo.llm.scripted import DEMO, DemoModel, Line, ScriptedModel, demo_model

__all__ = [
    "ATTEMPTS",
    "DEMO",
    "NO_KEY",
    "REPLAY",
    "ROLES",
    "BadModels",
    "DemoModel",
    "FallbackModel",
    "Line",
    "Model",
    "ModelChoice",
    "ModelRest",
    "ModelRole",
    "ModelSettings",
    "OnText",
    "Roles",
    "ScriptedModel",
    "available_models",
    "choices_of",
    "demo_model",
    "detect",
    "is_reachable",
    "load_roles",
    "open_model",
    "plain_name",
    "provider_variables",
    "secrets_in",
    "speaks_openai",
]
