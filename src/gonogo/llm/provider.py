"""A provider's model behind our protocol: streamed, timed, retried.

Each attempt is one request; the provider's library does not retry by itself. A stream that ends
without saying why is a cut one: nothing of it is used, and the request is sent again. Who waits for
a model that is away asks again and again: then each request is one attempt.
"""

import logging
import math
import random
import secrets
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio

from gonogo.domain.errors import GonogoError, ModelFailed
from gonogo.domain.failures import is_away
from gonogo.domain.tool_calls import ModelRequest, Reply, Usage
from gonogo.llm import adapter
from gonogo.llm.failures import model_failed
from gonogo.llm.model import ModelSettings, OnText
from gonogo.llm.text import Relay

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as TheirSettings

_MARK_ERRORS = frozenset({"anthropic", "bedrock", "google", "google-cloud"})

logger = logging.getLogger(__name__)

_LATELY = 60.0
"""Seconds for which a model that did not answer is asked once, and not several times in a row."""
MAX_REPLY = 8 * 1024 * 1024
"""Characters of text and arguments in one reply; what is longer is no reply."""


class ProviderModel:
    """A model of any provider that pydantic-ai speaks with."""

    def __init__(
        self, name: str, model: "TheirModel", settings: ModelSettings, hidden: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._model = model
        self._settings = settings
        self._hidden = hidden
        self._entered = False
        self._gave_up: float | None = None
        """When a request was given up last; None once another one was answered."""

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model; see `Model.request`. An empty answer is asked for once more."""
        if not self._entered:
            self._entered = True
            await self._model.__aenter__()
        # Providers refuse a history with replies that say nothing.
        told = [m for m in request.messages if not (isinstance(m, Reply) and m.is_empty)]
        messages = adapter.to_provider(told, self.name, self._wire())
        asked = adapter.parameters(request)
        relay = Relay(on_text)
        reply = await self._answer(messages, asked, relay)
        if not reply.is_empty:
            return reply
        again = await self._answer(messages, asked, relay)
        return again.model_copy(update={"usage": _sum(reply.usage, again.usage), "asked": 2})

    def _wire(self) -> adapter.Wire:
        return adapter.Wire(
            id_length=self._model.profile.get("tool_call_id_length"),
            marks_errors=self._model.system in _MARK_ERRORS,
        )

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._entered:
            self._entered = False
            await self._model.__aexit__(None, None, None)

    async def _answer(
        self, messages: "list[ModelMessage]", asked: "ModelRequestParameters", relay: Relay
    ) -> Reply:
        began = time.perf_counter()
        with anyio.move_on_after(self._settings.total_timeout):
            response = await self._persist(messages, asked, relay)
            duration_ms = (time.perf_counter() - began) * 1000
            return adapter.from_provider(response, self.name, duration_ms)
        raise ModelFailed(
            f"{self.name} did not finish in {self._settings.total_timeout:g} s", transient=True
        )

    async def _persist(
        self, messages: "list[ModelMessage]", asked: "ModelRequestParameters", relay: Relay
    ) -> "ModelResponse":
        settings = self._request_settings()
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
        # Providers' libraries raise what they like, and a failure that left this room with its
        # cause would carry the request, with the key in its headers, into the log.
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
        """Refuse what is no whole reply, and no beginning of one that the model could go on with.

        Raises:
            ModelFailed: it broke off.
        """
        told = (response.provider_details or {}).get("finish_reason")
        if response.finish_reason == "error" or not (response.finish_reason or told):
            raise ModelFailed(f"{self.name} stopped in the middle of its reply", transient=True)

    async def _relay(self, events: AsyncIterator[Any], relay: Relay) -> None:
        from pydantic_ai import messages as theirs

        size = 0
        while True:
            with anyio.fail_after(self._settings.timeout):
                event = await anext(events, None)
            match event:
                case None:
                    return
                case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
                    # The first piece of a text comes with its start, not as a delta.
                    relay.part()
                    relay.feed(text)
                    size += len(text)
                case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
                    relay.feed(text)
                    size += len(text)
                case theirs.PartDeltaEvent(delta=theirs.ToolCallPartDelta(args_delta=str(text))):
                    size += len(text)
                case _:
                    pass
            if size > MAX_REPLY:
                raise ModelFailed(f"{self.name} wrote more than {MAX_REPLY} characters")

    def _request_settings(self) -> "TheirSettings":
        from pydantic_ai.settings import ModelSettings as TheirSettings

        settings = TheirSettings(
            max_retries=0,
            timeout=self._settings.timeout,
            # The same in every attempt, so that a provider's log tells them for one request.
            extra_headers={"X-Client-Request-Id": secrets.token_hex(16)},
        )
        if self._settings.temperature is not None:
            settings["temperature"] = self._settings.temperature
        return settings

    def _gave_up_lately(self) -> bool:
        """Whether the last request got no answer: then one attempt tells whether that is over."""
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


def _sum(first: Usage, second: Usage) -> Usage:
    costs = [cost for cost in (first.cost, second.cost) if cost is not None]
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cost=sum(costs) if costs else None,
        duration_ms=first.duration_ms + second.duration_ms,
    )
