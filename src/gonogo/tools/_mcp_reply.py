"""What a server answers to a call, as agents are told it: text of a bounded size, and no more."""

import json
from collections.abc import Sequence
from typing import Any

from gonogo.domain.errors import OutcomeUnknown, ToolFailed, because
from gonogo.tools._tool import JsonObject


def told(reply: Any, cap: int) -> JsonObject:  # noqa: ANN401 - mcp_types.CallToolResult
    """The result of a call.

    Args:
        cap: Characters of text that are kept: the first and the last half.

    Raises:
        ToolFailed: `server_error`: the server says that the call failed.
        OutcomeUnknown: it cannot be kept, as it holds numbers that are none.
    """
    text = shortened("\n".join(_text(block) for block in reply.content), cap)
    if reply.is_error:
        raise ToolFailed("server_error", text or "the server says no more")
    result: JsonObject = {"content": text}
    if reply.structured_content is not None:
        return result | _structured(reply.structured_content, cap)
    return result


def shortened(text: str, cap: int) -> str:
    """The first and the last half of a text that is too long, and how much is left out."""
    if len(text) <= cap:
        return text
    half = cap // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _structured(value: Any, cap: int) -> JsonObject:  # noqa: ANN401 - any JSON value
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        why = because("its server's answer cannot be read: {why}", why=str(error))
        raise OutcomeUnknown(why) from error
    if len(written) > cap:
        return {"structured": shortened(written, cap), "structured_truncated": True}
    return {"structured": value}


def _text(block: Any) -> str:  # noqa: ANN401 - mcp_types.ContentBlock
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return (
                f"[{block.type} of type {block.mime_type}, {len(block.data)} characters of base64]"
            )
        case "resource_link":
            return f"[resource {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return f"[resource {block.resource.uri}]\n{text or '(not text)'}"
        case _:
            return f"[{block.type}]"


def first_line(text: str, cap: int) -> str:
    """The beginning of a description, for a list."""
    line = next(iter(_lines(text)), "")
    return line if len(line) <= cap else line[: cap - 1] + "…"


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
