"""Whether the server is there, whether it can work, and its numbers."""

from fastapi import APIRouter, Request, Response

from gonogo.domain.pages import Health
from gonogo.server._answers import answer
from gonogo.server._caller import caller_of, door_of
from gonogo.telemetry import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.get("/health", response_model=Health)
async def health() -> Response:
    """The process is up. Needs no token."""
    return answer(Health(status="ok"))


@router.get("/ready", response_model=Health)
async def ready(request: Request) -> Response:
    """The server takes requests; 503 while it closes. Needs no token."""
    if door_of(request).runtime.closing.is_set():
        return answer(Health(status="closing"), 503)
    return answer(Health(status="ready"))


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus. Needs a token unless they are public."""
    door = door_of(request)
    if not door.runtime.settings.metrics_public:
        await caller_of(request)
    return Response(door.runtime.metrics.render(), headers={"Content-Type": CONTENT_TYPE})
