"""What a model is to the rest of gonogo, and what one is opened with."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm.roles import Effort, ModelRole, TokenPrice

OnText = Callable[[str], None]
"""Is given each new piece of the text while the model writes it."""


class Model(Protocol):
    """Answers one request at a time; several may run at once."""

    @property
    def name(self) -> str:
        """What people call it: `openai:gpt-5`, `demo`."""
        ...

    @property
    def window(self) -> int | None:
        """Tokens that a request and its reply may have together; None: nobody knows."""
        ...

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply, after the retries that make sense.
            PromptTooLong: the request holds more than the model's window.
        """
        ...

    async def aclose(self) -> None:
        """Give back the connections. Asking again afterwards is an error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What a model is opened with. Nothing here is read from the environment."""

    name: str | None = None
    """`provider:name`, `demo`, or `replay:FILE`; None is detected."""
    base_url: str | None = None
    """An OpenAI-compatible server; only `openai:` names are sent there."""
    api_key: str | None = field(default=None, repr=False)
    """The provider's key; None takes the provider's usual variable."""
    timeout: float = 120.0
    """Seconds that the provider may be silent."""
    total_timeout: float = 1800.0
    """Seconds that one request may take in all, its further attempts counted."""
    max_attempts: int = 5
    """Attempts in all, the first one counted."""
    temperature: float | None = None
    effort: Effort | None = None
    """How much the model thinks before it answers; None is the provider's own."""
    window: int | None = None
    """What is known of the model's window, in tokens; None: the provider's library is asked."""
    price: TokenPrice | None = None
    """What its tokens cost; None is what is known of the model."""
    backoff: float = 0.5
    """Seconds before the second attempt; doubled for each further one, with jitter."""
    max_retry_after: float = 60.0
    """The longest wait, in seconds, that a provider may ask of us before we give up."""
    role: ModelRole | None = None
    """What the model is asked for, where that is recorded or played."""
    record: Path | None = None
    """The cassette that the exchanges with the provider are appended to."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What no cassette may hold, besides the key."""


def new_call_id() -> str:
    """A fresh id for a tool call: `call_` and 24 hex digits."""
    return f"call_{secrets.token_hex(12)}"
