"""Which model, and one streamed request to it.

The only room that knows pydantic-ai, and it imports it when a model is opened, not before. A
model takes a `ModelRequest` and gives a `Reply` whose call ids are ours; it retries what may pass
and raises `ModelFailed` for the rest. Each role of an operator's file has a model of its own, and
others that stand in for it. What is said to a provider can be recorded in a cassette and played
again. Nothing here runs a tool or keeps a conversation.
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
