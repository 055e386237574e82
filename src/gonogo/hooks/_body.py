"""What a message says, within bounds: a receiver is told of a question, not handed its files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from gonogo.domain.strict_json import canonical_json
from gonogo.store.columns import stamp

LONGEST_TEXT = 4_000
"""Characters of one text."""
LONGEST_LIST = 200
LARGEST = 64 * 1024
"""Bytes of a body, without its links."""
NOTE = "Shortened: the whole question is in gonogo"


def body_of(event: str, now: datetime, data: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the envelope of Standard Webhooks.

    Args:
        data: What is told; `approval` is left without its details where it would be too large.
    """
    short = {name: _short(value) for name, value in data.items()}
    if short != data:
        short["shortened"] = NOTE
    if len(canonical_json(short).encode(errors="replace")) > LARGEST:
        short = {**short, "approval": _bare(short["approval"]), "shortened": NOTE}
    return {"type": event, "timestamp": stamp(now), "data": short}


def _bare(approval: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in approval.items() if name not in {"details", "arguments"}}


def _short(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return f"{value[:LONGEST_TEXT]} … +{len(value) - LONGEST_TEXT}"
        case list():
            items = cast("list[Any]", value)
            rest = len(items) - LONGEST_LIST
            shown = [_short(item) for item in items[:LONGEST_LIST]]
            return [*shown, f"… +{rest}"] if rest > 0 else shown
        case dict():
            return {name: _short(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value
