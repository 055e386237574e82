"""What operators see: logs, metrics and traces, as subscribers of events.

Nothing here decides anything, and nothing here is needed for a plan to run. What people and models
say stays out of logs and labels unless the operator asks for it; secrets always do.
"""

import logging
import sys
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from gonogo.domain.text_safety import visible
from gonogo.telemetry.metrics import CONTENT_TYPE, Metrics
from gonogo.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

__all__ = ["CONTENT_TYPE", "Metrics", "Tracing", "setup_logging"]

# One log for our own lines and for those of libraries: every room logs with the standard library
# (`logging.getLogger(__name__)`, facts as `extra=`), and here the lines get their form.


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
    handler = _ToStream(target)
    handler.setFormatter(_Lines(as_json=plain, content=content))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "openai", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class _ToStream(logging.StreamHandler[TextIO]):
    """Writes lines, and ignores those that cannot be written, as on a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging calls it
        """Report bugs in logging calls as usual, but not a log that cannot be written."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _Lines(logging.Formatter):
    """Formats lines by `formatter`, made at the first line: importing structlog takes 0.14 s."""

    def __init__(self, *, as_json: bool, content: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        return self._formatter.format(record)

    @cached_property
    def _formatter(self) -> logging.Formatter:
        return formatter(as_json=self._as_json, content=self._content)


# The form of log lines, by structlog: readable on a terminal, one JSON object a line elsewhere.

_SECRET = frozenset({"api_key", "authorization", "cookie", "password", "secret", "token"})
_CONTENT = frozenset(
    {"arguments", "content", "error", "feedback", "message", "messages", "prompt", "result", "text"}
)


def formatter(*, as_json: bool, content: bool) -> logging.Formatter:
    """A formatter of lines without secrets, and without what was said unless `content`."""
    import structlog

    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without(_SECRET if content else _SECRET | _CONTENT),
    ]
    last: list[Processor] = [
        structlog.processors.format_exc_info,
        _visible,
        structlog.dev.ConsoleRenderer(
            colors=not as_json, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
    if as_json:
        last = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _visible(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
    """Make control characters of libraries and strangers visible, before colours are added."""
    return {
        visible(name, lines=False): visible(str(value), lines=name == "exception")
        for name, value in event.items()
    }


def _without(names: frozenset[str]) -> "Processor":
    def leave_out(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
        return {name: value for name, value in event.items() if name not in names}

    return leave_out
