"""Our messages as pydantic-ai's, and its replies as ours: the only mapping between the two.

A reply's own form (`Reply.raw`) goes back to the model that gave it, so that what only the
provider understands (signatures, reasoning) survives; for any other model, and whenever it does not
agree with our words, the reply is rebuilt from these. Call ids are ours in both forms.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gonogo.domain.tool_calls import (
    Message,
    ModelRequest,
    Reply,
    ToolAnswer,
    ToolRequest,
    ToolSchema,
    Usage,
    UserText,
)
from gonogo.llm.arguments import read_arguments
from gonogo.llm.model import new_call_id
from gonogo.llm.text import clean, clean_json, joined

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.models import ModelRequestParameters

_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_EXCERPT = 2_000
_NOTHING = "(empty)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What a provider's interface has that others have not."""

    id_length: int | None = None
    """What call ids are shortened to, where a provider insists on a length."""
    marks_errors: bool = False
    """A tool's result can be marked as an error. Elsewhere its text alone must tell."""


PLAIN = Wire()


def parameters(request: ModelRequest) -> "ModelRequestParameters":
    """The system prompt and the tools, with each schema as it is."""
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters

    return ModelRequestParameters(
        function_tools=[_definition(tool) for tool in request.tools],
        instruction_parts=[InstructionPart(content=clean(request.system))],
        allow_text_output=True,
    )


def _definition(tool: ToolSchema) -> Any:  # noqa: ANN401 - pydantic_ai.tools.ToolDefinition
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.parameters,
        strict=False,
    )


def to_provider(
    messages: Sequence[Message], model: str, wire: Wire = PLAIN
) -> "list[theirs.ModelMessage]":
    """A conversation as pydantic-ai's messages.

    Args:
        model: The name of the model that they go to; its own replies go back as it gave them.
    """
    from pydantic_ai.messages import ModelRequest as TheirRequest

    found: list[theirs.ModelMessage] = []
    said: list[Any] = []
    for message in messages:
        if isinstance(message, UserText | ToolAnswer):
            said.append(_said(message, wire))
            continue
        if not isinstance(message, Reply):
            continue
        if said:
            found.append(TheirRequest(parts=said))
            said = []
        found.append(_reply(message, model, wire))
    if said:
        found.append(TheirRequest(parts=said))
    return found


def _said(message: UserText | ToolAnswer, wire: Wire) -> Any:  # noqa: ANN401
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    # Some providers refuse a text of nothing but blanks.
    content = clean(message.content) if message.content.strip() else _NOTHING
    if isinstance(message, UserText):
        return UserPromptPart(content=content)
    return ToolReturnPart(
        tool_name=_wire_name(message.tool_name),
        content=content,
        tool_call_id=_wire_id(message.call_id, wire.id_length),
        outcome="failed" if message.is_error and wire.marks_errors else "success",
    )


def _reply(reply: Reply, model: str, wire: Wire) -> "theirs.ModelResponse":
    from pydantic_ai.messages import ModelResponse, ToolCallPart

    response = _as_given(reply) if reply.model == model else None
    response = response or ModelResponse(parts=list(_parts(reply)))
    return replace(
        response,
        parts=[
            _sendable(part, wire.id_length) if isinstance(part, ToolCallPart) else part
            for part in response.parts
        ],
    )


def _sendable(part: "theirs.ToolCallPart", id_length: int | None) -> "theirs.ToolCallPart":
    # Providers refuse a history whose tool names break their pattern.
    return replace(
        part,
        tool_call_id=_wire_id(part.tool_call_id, id_length),
        tool_name=_wire_name(part.tool_name),
    )


def _as_given(reply: Reply) -> "theirs.ModelResponse | None":
    from pydantic import ValidationError
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolCallPart

    if reply.raw is None:
        return None
    try:
        (response,) = ModelMessagesTypeAdapter.validate_python([reply.raw])
    except ValidationError:
        return None
    if not isinstance(response, ModelResponse):
        return None
    given = [part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)]
    return response if given == [call.id for call in reply.calls] else None


def _parts(reply: Reply) -> Iterable[Any]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    if reply.text.strip():
        yield TextPart(content=clean(reply.text))
    for call in reply.calls:
        yield ToolCallPart(
            tool_name=call.name, args=clean_json(call.arguments or {}), tool_call_id=call.id
        )


def _wire_id(call_id: str, length: int | None) -> str:
    return call_id[-length:] if length else call_id


def _wire_name(name: str) -> str:
    return _NAME.sub("_", name)[:64] or "unnamed"


def from_provider(response: "theirs.ModelResponse", model: str, duration_ms: float) -> Reply:
    """A provider's reply in our words, each call under a new id of ours."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts: list[Any] = []
    calls: list[ToolRequest] = []
    last = response.parts[-1] if response.parts else None
    ended_early = response.finish_reason in ("length", "content_filter")
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            call = _call(part, cut_off=part is last and ended_early)
            calls.append(call)
            parts.append(_under_our_id(part, call))
        else:
            parts.append(part)
    text = joined([part.content for part in parts if isinstance(part, TextPart)])
    return Reply(
        text=text or clean(str((response.provider_details or {}).get("refusal") or "")),
        calls=tuple(calls),
        cut=response.finish_reason == "length",
        refused=response.finish_reason == "content_filter",
        model=model,
        raw=_stored(replace(response, parts=parts)),
        usage=_usage(response, duration_ms),
    )


def _call(part: "theirs.ToolCallPart", *, cut_off: bool) -> ToolRequest:
    arguments, problem = read_arguments(part.args, cut_off=cut_off)
    return ToolRequest(
        id=new_call_id(), name=clean(part.tool_name), arguments=arguments, problem=problem
    )


def _under_our_id(part: "theirs.ToolCallPart", call: ToolRequest) -> "theirs.ToolCallPart":
    part = replace(part, tool_call_id=call.id)
    if call.problem is None:
        return part
    # The model is shown what it wrote, but only so much of it.
    return replace(part, args={"INVALID_JSON": clean(str(part.args or "")[:_EXCERPT])})


def _stored(response: "theirs.ModelResponse") -> Any:  # noqa: ANN401 - JSON
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    try:
        (raw,) = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    except ValueError:
        return None
    return clean_json(raw)


def _usage(response: "theirs.ModelResponse", duration_ms: float) -> Usage:
    return Usage(
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost=_cost(response),
        duration_ms=duration_ms,
    )


def _cost(response: "theirs.ModelResponse") -> float | None:
    if response.usage.cost is not None:
        return float(response.usage.cost)
    if not response.model_name or not response.usage.input_tokens:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
