"""Which model, and one streamed request to it.

The only room that knows pydantic-ai, and it imports it when a model is opened, not before. A
model takes a `ModelRequest` and gives a `Reply` whose call ids are ours; it retries what may pass
and raises `ModelFailed` for the rest. What is said to a provider can be recorded in a cassette and
played again. Nothing here runs a tool or keeps a conversation.
"""

from gonogo.llm.choice import (
    REPLAY,
    available_models,
    detect,
    open_model,
    provider_variables,
    secrets_in,
)
from gonogo.llm.model import Model, ModelSettings, OnText
from gonogo.llm.scripted import Line, ScriptedModel, demo_model

__all__ = [
    "REPLAY",
    "Line",
    "Model",
    "ModelSettings",
    "OnText",
    "ScriptedModel",
    "available_models",
    "demo_model",
    "detect",
    "open_model",
    "provider_variables",
    "secrets_in",
]
