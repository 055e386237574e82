"""What goes out to people who are not at a client: deliveries to other programs."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class DeliveryStatus(StrEnum):
    """Where a delivery stands. `failed`: it was tried often enough, and is given up."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message for one hook, written with the change that it tells of."""

    id: str
    session_id: str
    approval_id: str
    hook: str
    event: str
    status: DeliveryStatus
    attempt: int
    """Attempts that were begun."""
    epoch: int
    body: dict[str, Any]
    """What is sent, without what only the sender knows; empty once it has arrived."""
    error: str | None
    """Why the last attempt did not arrive."""
    created_at: datetime
    not_before: datetime
    """When it may be tried; while it is being tried, when that has to be over."""
    finished_at: datetime | None
