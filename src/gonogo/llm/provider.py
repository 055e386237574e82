"""A provider's model behind the `Model` protocol: streamed, with timeouts and retries.

Each attempt is one request; the provider's library does not retry by itself. A stream that ends
without a reason was cut off: nothing of it is used, and the request is sent again. A caller that
waits for a model that is away asks again and again; then each request is only one attempt.
"""

import logging
import math
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import anyio
from msgspec import Struct

from gonogo.domain.errors import GonogoError, ModelFailed
from gonogo.domain.failures import is_away
from gonogo.domain.tool_calls import (
    Instructions,
    Message,
    ModelRequest,
    Reply,
    ToolAnswer,
    ToolRequest,
    ToolSchema,
    Usage,
    UserText,
)
from gonogo.llm.model import (
    Effort,
    ModelSettings,
    OnText,
    TokenPrice,
    clean,
    clean_json,
    model_failed,
    tool_request,
)

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as TheirSettings


# Streamed text: a pair of surrogates that was cut between two pieces is joined again.

_BETWEEN_PARTS = "\n\n"


def joined(parts: list[str]) -> str:
    """The whole text of a reply that has several text parts."""
    return _BETWEEN_PARTS.join(clean(part) for part in parts if part)


class Relay:
    """Passes text on as it comes, but never the same text twice.

    After a retry the model begins again. The new text is skipped while it equals what was already
    shown. If it differs, nothing more is shown, because the whole reply comes anyway.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._shown = ""
        self._fresh: list[str] = []
        self.restart()

    def restart(self) -> None:
        """Begin a new attempt."""
        self._shown += "".join(self._fresh)
        self._fresh = []
        self._said = 0
        self._held = ""
        self._agrees = True
        self._gap = False

    def part(self) -> None:
        """Begin a new text part of the same reply."""
        self.finish()
        self._gap = self._said > 0

    def feed(self, piece: str) -> None:
        """Take the next piece of the text."""
        piece = self._held + piece
        # The other half of the character may be in the next piece.
        split = bool(piece) and "\ud800" <= piece[-1] <= "\udbff"
        self._held = piece[-1] if split else ""
        self._pass_on(clean(piece[:-1] if split else piece))

    def finish(self) -> None:
        """The reply is complete: pass on the rest."""
        held, self._held = self._held, ""
        self._pass_on(clean(held))

    def _pass_on(self, text: str) -> None:
        if not text:
            return
        if self._gap:
            self._gap, text = False, _BETWEEN_PARTS + text
        again = self._shown[self._said : self._said + len(text)]
        self._said += len(text)
        self._agrees = self._agrees and text.startswith(again)
        fresh = text[len(again) :]
        if self._agrees and fresh:
            self._fresh.append(fresh)
            self._on_text(fresh)


# Mapping our messages to pydantic-ai's, and its replies to ours; only this part does that.
#
# A reply is sent back to its own model in its original form (`Reply.raw`), so that parts which only
# the provider understands (signatures, reasoning) are kept. For other models, or if that form does
# not agree with our fields, the reply is rebuilt from the fields. Call ids are ours in both forms.

_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_EXCERPT = 2_000
_MOST_TOKENS = 1_000_000_000
_NOTHING = "(empty)"


class ProviderTraits(Struct, frozen=True, kw_only=True):
    """Special properties of a provider's interface."""

    id_length: int | None = None
    """The length to which call ids are shortened, if the provider requires one."""
    marks_errors: bool = False
    """A tool's result can be marked as an error. Otherwise only its text shows that."""


PLAIN = ProviderTraits()


def parameters(request: ModelRequest) -> "ModelRequestParameters":
    """The system prompt and the tools, with unchanged schemas."""
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


class Converter:
    """Converts conversations to pydantic-ai's messages, for one model; its own replies stay raw.

    A whole conversation is sent each time, and its messages do not change. So the result for a
    message is cached as long as the message exists.
    """

    def __init__(self, model: str, wire: ProviderTraits = PLAIN) -> None:
        self._model, self._wire = model, wire
        self._made: dict[int, tuple[ref[Message], Any]] = {}

    def of(self, messages: Sequence[Message]) -> "list[theirs.ModelMessage]":
        """Convert a conversation."""
        from pydantic_ai.messages import ModelRequest as TheirRequest

        found: list[theirs.ModelMessage] = []
        said: list[Any] = []
        for message in messages:
            if isinstance(message, UserText | Instructions | ToolAnswer):
                said.append(self._once(message, partial(_said, message, self._wire)))
                continue
            if not isinstance(message, Reply):
                continue
            if said:
                found.append(TheirRequest(parts=said))
                said = []
            found.append(self._once(message, partial(_reply, message, self._model, self._wire)))
        if said:
            found.append(TheirRequest(parts=said))
        return found

    def _once(self, message: Message, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        key = id(message)
        if key not in self._made:
            gone = ref(message, lambda _: self._made.pop(key, None))
            self._made[key] = gone, make()
        return self._made[key][1]


def _said(message: UserText | Instructions | ToolAnswer, wire: ProviderTraits) -> Any:  # noqa: ANN401
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    # Some providers refuse a text that has only white space.
    content = clean(message.content) if message.content.strip() else _NOTHING
    if not isinstance(message, ToolAnswer):
        return UserPromptPart(content=content)
    return ToolReturnPart(
        tool_name=_wire_name(message.tool_name),
        content=content,
        tool_call_id=_wire_id(message.call_id, wire.id_length),
        outcome="failed" if message.is_error and wire.marks_errors else "success",
    )


def _reply(reply: Reply, model: str, wire: ProviderTraits) -> "theirs.ModelResponse":
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
    # Providers refuse a history with tool names that do not match their pattern.
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


def from_provider(
    response: "theirs.ModelResponse",
    model: str,
    duration_ms: float,
    price: TokenPrice | None = None,
) -> Reply:
    """A provider's reply as a `Reply`, with a new id of ours for each call.

    Args:
        price: The price to use instead of the known price of the model.
    """
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts: list[Any] = []
    calls: list[ToolRequest] = []
    last = response.parts[-1] if response.parts else None
    ended_early = response.finish_reason in ("length", "content_filter")
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            cut_off = part is last and ended_early
            call = tool_request(part.tool_name, part.args, cut_off=cut_off)
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
        usage=_usage(response, duration_ms, price),
    )


def _under_our_id(part: "theirs.ToolCallPart", call: ToolRequest) -> "theirs.ToolCallPart":
    part = replace(part, tool_call_id=call.id)
    if call.problem is None:
        return part
    # The model gets back what it wrote, but only an excerpt.
    return replace(part, args={"INVALID_JSON": clean(str(part.args or "")[:_EXCERPT])})


def _stored(response: "theirs.ModelResponse") -> Any:  # noqa: ANN401 - JSON
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    try:
        (raw,) = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    except ValueError:
        return None
    return clean_json(raw)


def _usage(response: "theirs.ModelResponse", duration_ms: float, price: TokenPrice | None) -> Usage:
    # A provider may send any numbers; a part must not be larger than its whole.
    said = response.usage
    sent, back = _counted(said.input_tokens), _counted(said.output_tokens)
    used = Usage(
        input_tokens=sent,
        cached_tokens=_counted(said.cache_read_tokens, sent),
        cache_write_tokens=_counted(said.cache_write_tokens, sent),
        output_tokens=back,
        reasoning_tokens=_counted(said.output_reasoning_tokens, back),
        duration_ms=duration_ms,
    )
    cost = _cost(response) if price is None else price.of(used)
    return used.model_copy(update={"cost": cost})


def _counted(tokens: int, most: int = _MOST_TOKENS) -> int:
    return max(0, min(tokens, most))


def _cost(response: "theirs.ModelResponse") -> float | None:
    if response.usage.cost is not None:
        return float(response.usage.cost)
    if not response.model_name or not response.usage.input_tokens:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None


COMPATIBLE = "openai-compatible"
"""pydantic-ai's name for a server that speaks OpenAI's protocol."""
_MARK_ERRORS = frozenset({"anthropic", "bedrock", "google", "google-cloud"})
_KNOWS_KEYS = "openai"
_WINDOWS = {"google": 1_000_000, "google-cloud": 1_000_000, "mistral": 128_000}
"""By provider, the window of a model if nothing more is known about it."""

logger = logging.getLogger(__name__)

_LATELY = 60.0
"""For so many seconds after a request without an answer, further requests make only one attempt."""
MAX_REPLY = 8 * 1024 * 1024
"""The most characters of text, thoughts and arguments in one reply; a longer one is refused."""
MAX_CALLS = 256
"""The most tool calls in one reply."""


class ProviderModel:
    """A model of any provider that pydantic-ai supports."""

    def __init__(
        self, name: str, model: "TheirModel", settings: ModelSettings, hidden: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._model = model
        self._settings = settings
        self._hidden = hidden
        wire = ProviderTraits(
            id_length=model.profile.get("tool_call_id_length"),
            marks_errors=model.system in _MARK_ERRORS,
        )
        self._converter = Converter(name, wire)
        self.window = settings.window or model.context_window or _window_of(model)
        """See `Model.window`."""
        self._entered = False
        self._gave_up: float | None = None
        """When the last request was given up; None if one was answered since."""

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model; see `Model.request`. After an empty answer, ask once more."""
        if not self._entered:
            self._entered = True
            await self._model.__aenter__()
        # Providers refuse a history with empty replies.
        told = [m for m in request.messages if not (isinstance(m, Reply) and m.is_empty)]
        messages = self._converter.of(told)
        asked = parameters(request)
        relay = Relay(on_text)
        key = request.cache_key
        reply = await self._answer(messages, asked, relay, key)
        if not reply.is_empty:
            return reply
        again = await self._answer(messages, asked, relay, key)
        return again.model_copy(update={"usage": reply.usage + again.usage, "asked": 2})

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._entered:
            self._entered = False
            await self._model.__aexit__(None, None, None)

    async def _answer(
        self,
        messages: "list[ModelMessage]",
        asked: "ModelRequestParameters",
        relay: Relay,
        cache_key: str,
    ) -> Reply:
        began = time.perf_counter()
        with anyio.move_on_after(self._settings.total_timeout):
            response = await self._persist(messages, asked, relay, cache_key)
            duration_ms = (time.perf_counter() - began) * 1000
            return from_provider(response, self.name, duration_ms, self._settings.price)
        raise ModelFailed(
            "{model} did not finish in {seconds:g} s",
            model=self.name, seconds=self._settings.total_timeout, transient=True,
        )  # fmt: skip

    async def _persist(
        self,
        messages: "list[ModelMessage]",
        asked: "ModelRequestParameters",
        relay: Relay,
        cache_key: str,
    ) -> "ModelResponse":
        settings = self._request_settings(cache_key)
        attempt, sent = 1, False
        while True:
            relay.restart()
            outcome = await self._attempt(messages, asked, settings, relay)
            if not isinstance(outcome, ModelFailed):
                self._gave_up = None
                return outcome
            outcome.sent = sent = sent or outcome.sent
            pause = self._pause(outcome, attempt)
            if pause is None:
                self._gave_up = time.monotonic() if is_away(outcome) else self._gave_up
                raise outcome
            logger.warning("attempt %d: %s; again in %.1f s", attempt, outcome, pause)
            await anyio.sleep(pause)
            attempt += 1

    async def _attempt(
        self,
        messages: "list[ModelMessage]",
        asked: "ModelRequestParameters",
        settings: "TheirSettings",
        relay: Relay,
    ) -> "ModelResponse | ModelFailed":
        # Providers' libraries raise all kinds of errors. As the cause of a failure, such an error
        # would bring the request, with the key in its headers, into the log.
        try:
            return await self._stream(messages, asked, settings, relay)
        except ModelFailed as failure:
            return failure
        except GonogoError:
            raise
        except Exception as error:
            return model_failed(self.name, error, self._hidden)

    async def _stream(
        self,
        messages: "list[ModelMessage]",
        asked: "ModelRequestParameters",
        settings: "TheirSettings",
        relay: Relay,
    ) -> "ModelResponse":
        from pydantic_ai.direct import model_request_stream

        opening = model_request_stream(
            self._model,
            messages,
            model_settings=settings,
            model_request_parameters=asked,
        )
        async with opening as stream:
            await self._relay(aiter(stream), relay)
            response = stream.get()
        self._check_end(response)
        relay.finish()
        return response

    def _check_end(self, response: "ModelResponse") -> None:
        """Check that the provider says why a reply ended, and that it was not an error.

        Raises:
            ModelFailed: the reply broke off.
        """
        told = (response.provider_details or {}).get("finish_reason")
        if "error" in (response.finish_reason, told) or not (response.finish_reason or told):
            raise ModelFailed(
                "{model} stopped in the middle of its reply", model=self.name, transient=True
            )

    async def _relay(self, events: AsyncIterator[Any], relay: Relay) -> None:
        from pydantic_ai import messages as theirs

        size = calls = 0
        while True:
            with anyio.fail_after(self._settings.timeout):
                event = await anext(events, None)
            match event:
                case None:
                    return
                case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
                    # The first piece of a text comes with its start event, not as a delta.
                    relay.part()
                    relay.feed(text)
                case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
                    relay.feed(text)
                case theirs.PartStartEvent(part=theirs.ToolCallPart()):
                    calls += 1
                case _:
                    pass
            size += _length(event)
            self._check_size(size, calls)

    def _check_size(self, size: int, calls: int) -> None:
        if size > MAX_REPLY:
            raise ModelFailed(
                "{model} wrote more than {most} characters; ask for less at a time, or choose "
                "another model",
                model=self.name, most=MAX_REPLY,
            )  # fmt: skip
        if calls > MAX_CALLS:
            raise ModelFailed(
                "{model} asked for more than {most} tool calls at once; ask for less at a time, "
                "or choose another model",
                model=self.name, most=MAX_CALLS,
            )  # fmt: skip

    def _request_settings(self, cache_key: str) -> "TheirSettings":
        from pydantic_ai.settings import ModelSettings as TheirSettings

        settings = TheirSettings(
            timeout=self._settings.timeout,
            # The same in every attempt, so a provider's log shows that they are one request.
            extra_headers={"X-Client-Request-Id": secrets.token_hex(16)},
            # Marks the tools, the system text and the conversation for providers that need it.
            cache=True,
        )
        client = getattr(self._model, "client", None)
        if getattr(client, "max_retries", None) != 0:
            # A client that retries by itself; this setting makes the library copy the client.
            settings["max_retries"] = 0
        if cache_key and self._model.system == _KNOWS_KEYS:
            # Other servers with this protocol may refuse unknown fields.
            settings = cast("TheirSettings", {**settings, "openai_prompt_cache_key": cache_key})
        if self._settings.temperature is not None:
            settings["temperature"] = self._settings.temperature
        return _with_effort(settings, self._settings.effort, self._model.system)

    def _gave_up_lately(self) -> bool:
        """Whether a request lately got no answer: then one attempt is enough to try again."""
        return self._gave_up is not None and time.monotonic() - self._gave_up < _LATELY

    def _pause(self, failure: ModelFailed, attempt: int) -> float | None:
        most = 1 if self._gave_up_lately() else self._settings.max_attempts
        if not failure.transient or attempt >= most:
            return None
        asked = failure.retry_after or 0.0
        if not math.isfinite(asked) or asked > self._settings.max_retry_after:
            return None
        backoff = self._settings.backoff * 2 ** (attempt - 1)
        jittered = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        return max(asked, min(jittered, self._settings.max_retry_after))


def _length(event: Any) -> int:  # noqa: ANN401 - the library's own, of many kinds
    """How many characters of text, thoughts or arguments an event adds to a reply."""
    if event.event_kind not in ("part_start", "part_delta"):
        return 0
    piece = event.part if event.event_kind == "part_start" else event.delta
    names = ("content", "content_delta", "args", "args_delta")
    added = (getattr(piece, name, None) for name in names)
    return sum(len(each) for each in added if isinstance(each, str))


def _window_of(model: "TheirModel") -> int | None:
    return _WINDOWS.get(model.system)


def _with_effort(settings: "TheirSettings", effort: Effort | None, system: str) -> "TheirSettings":
    """Add to the settings how much the model should think, in the provider's own form."""
    if effort is None:
        return settings
    if system == COMPATIBLE:
        # Only the operator knows what such a server accepts, so it gets the word as written.
        own = {"openai_reasoning_effort": "none" if effort == "off" else effort}
        return cast("TheirSettings", {**settings, **own})
    settings["thinking"] = False if effort == "off" else effort
    return settings
