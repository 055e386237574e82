"""Whether the server is there, whether it can work, and its numbers."""

import math

from fastapi import APIRouter, Request, Response

from gonogo.domain.errors import Busy
from gonogo.domain.views import Health
from gonogo.server.auth import caller_of, door_of
from gonogo.server.requests import answer
from gonogo.telemetry import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.get("/health", response_model=Health)
async def health() -> Response:
    """The process is up. Needs no token."""
    return answer(Health(status="ok"))


@router.get("/ready", response_model=Health)
async def ready(request: Request) -> Response:
    """The server does its work; 503 while it closes, and while its database is away.

    Needs no token.
    """
    door = door_of(request)
    if door.runtime.closing.is_set():
        return answer(Health(status="closing"), 503)
    if not await door.readiness.is_given(door.runtime.check_ready):
        found = answer(Health(status="unavailable"), 503)
        found.headers["Retry-After"] = str(Busy.retry_after)
        return found
    return answer(Health(status="ready"))


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus. Needs a token unless they are public."""
    door = door_of(request)
    if not door.runtime.settings.metrics_public:
        await caller_of(request)
    if door.runtime.hears_within < math.inf:
        await door.runtime.maintenance.measure()
    return Response(door.runtime.metrics.render(), headers={"Content-Type": CONTENT_TYPE})
