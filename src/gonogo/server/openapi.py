"""What clients are generated from: OpenAPI 3.1, and the JSON Schema of the events.

Bodies are read by our own strict reader, so the routes say here what they take. What is absent on
the wire is never null, and a message or an event always says its type; the models, which know
defaults, say less, so their schemas are made to say it.
"""

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from gonogo import __version__
from gonogo.domain.events import EVENTS, AnyEvent
from gonogo.domain.views import Problem
from gonogo.server.auth import Authenticated
from gonogo.server.bodies import REQUESTS

router = APIRouter(tags=["schema"])
_TEMPLATE = "#/components/schemas/{model}"
_NAMED = ("properties", "$defs")
"""Where a schema has others, by name; nulls are nowhere else in what we have."""
_ANY_EVENT: TypeAdapter[AnyEvent] = EVENTS


def takes(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The part of an operation that says which body it takes."""
    schema = {"$ref": _TEMPLATE.format(model=model.__name__)}
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}
    }


def streams(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of an operation that streams events."""
    schema = {"$ref": _TEMPLATE.format(model="Event")}
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema}}}}


def lists(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of an operation that gives several events at once."""
    events = {"type": "array", "items": {"$ref": _TEMPLATE.format(model="Event")}}
    schema = {"type": "object", "properties": {"events": events}, "required": ["events"]}
    return {200: {"description": description, "content": {"application/json": {"schema": schema}}}}


def add_schema(app: FastAPI) -> None:
    """Have `app` describe itself with what FastAPI cannot see: bodies, events and errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, _: Authenticated) -> JSONResponse:
    """This server's OpenAPI document."""
    app: FastAPI = request.app
    return JSONResponse(app.openapi())


@router.get("/schema/events.json", summary="The JSON Schema of every event", response_model=None)
async def events_schema(_: Authenticated) -> JSONResponse:
    """The JSON Schema of the union of all events."""
    return JSONResponse(_as_sent(_ANY_EVENT.json_schema(mode="serialization")))


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="gonogo",
        version=__version__,
        summary="A durable agent runtime: sessions, plans, approvals, audit, events.",
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _, asked = models_json_schema(
        [(model, "validation") for model in (*REQUESTS, Problem)], ref_template=_TEMPLATE
    )
    schemas.update(asked.get("$defs", {}))
    event = _ANY_EVENT.json_schema(mode="serialization", ref_template=_TEMPLATE)
    schemas.update(event.pop("$defs", {}))
    schemas["Event"] = event
    document["components"]["schemas"] = {name: _as_sent(s) for name, s in schemas.items()}
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path in document["paths"].values():
        for operation in path.values():
            _complete(operation)
    return document


def _as_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """A model's schema without nulls, and with its fixed words required."""
    tidy: dict[str, Any] = {
        name: _as_named(part) if name in _NAMED else part for name, part in schema.items()
    }
    if tidy.get("default", tidy) is None:
        del tidy["default"]
    fixed = [name for name, part in tidy.get("properties", {}).items() if "const" in part]
    if fixed:
        tidy["required"] = [*fixed, *(n for n in tidy.get("required", []) if n not in fixed)]
    branches: list[Any] = tidy.get("anyOf", [])
    left = [branch for branch in branches if branch != {"type": "null"}]
    if len(left) == len(branches):
        return tidy
    del tidy["anyOf"]
    return {**left[0], **tidy} if len(left) == 1 else {**tidy, "anyOf": left}


def _as_named(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: _as_sent(schema) for name, schema in schemas.items()}


def _complete(operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", []):
        parameter["schema"] = _as_sent(parameter["schema"])
    schema = {"$ref": _TEMPLATE.format(model="Problem")}
    answers = operation["responses"]
    answers.pop("422", None)
    answers["default"] = {
        "description": "An error",
        "content": {"application/problem+json": {"schema": schema}},
    }
