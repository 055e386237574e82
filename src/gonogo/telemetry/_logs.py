"""One log for our own lines and for those of libraries.

Every room logs with the standard library (`logging.getLogger(__name__)`, facts as `extra=`); this
is where the lines get their form: readable on a terminal, one JSON object a line elsewhere.
"""

import logging
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TextIO

_IDS = ("session_id", "seq", "turn_id", "plan_id", "subtask_id", "agent", "call_id", "tool_name")
_FACTS = ("status", "subtask_status", "approval_id", "kind", "source", "decided_by", "attempt")
_log = logging.getLogger("gonogo.events")


def setup_logging(
    level: str = "INFO",
    *,
    stream: TextIO | None = None,
    as_json: bool | None = None,
    content: bool = False,
) -> None:
    """Send every log line of this process to one place, replacing what was set up before.

    Args:
        stream: Standard error by default.
        as_json: By default, JSON unless the stream is a terminal.
        content: Whether what people and models say may be logged.
    """
    target = stream or sys.stderr
    plain = as_json if as_json is not None else not target.isatty()
    handler = logging.StreamHandler(target)
    handler.setFormatter(_Lines(as_json=plain, content=content))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "openai", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def log_event(event: Mapping[str, Any]) -> None:
    """Log that something happened: its type, ids and states, never what was said."""
    metadata: Mapping[str, Any] = event.get("metadata") or {}
    facts = {name: event[name] for name in _IDS if event.get(name) is not None}
    facts |= {name: metadata[name] for name in _FACTS if metadata.get(name) is not None}
    level = logging.WARNING if event.get("type") == "error" else logging.INFO
    _log.log(level, "%s", event.get("type", "event"), extra=facts)


class _Lines(logging.Formatter):
    """Makes lines as `formatter` does, once there is one to make: importing it costs 0.08 s."""

    def __init__(self, *, as_json: bool, content: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        return self._formatter.format(record)

    @cached_property
    def _formatter(self) -> logging.Formatter:
        from gonogo.telemetry._lines import formatter

        return formatter(as_json=self._as_json, content=self._content)
