"""The form of log lines, by structlog: readable on a terminal, one JSON object a line elsewhere."""

import logging

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from gonogo.domain.text_safety import visible

_SECRET = frozenset({"api_key", "authorization", "cookie", "password", "secret", "token"})
_CONTENT = frozenset(
    {"arguments", "content", "error", "feedback", "message", "messages", "prompt", "result", "text"}
)


def formatter(*, as_json: bool, content: bool) -> logging.Formatter:
    """A formatter of lines without secrets, and without what was said unless `content`."""
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


def _visible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What libraries and strangers wrote, before the renderer adds its colours."""
    return {
        visible(name, lines=False): visible(str(value), lines=name == "exception")
        for name, value in event.items()
    }


def _without(names: frozenset[str]) -> Processor:
    def leave_out(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {name: value for name, value in event.items() if name not in names}

    return leave_out
