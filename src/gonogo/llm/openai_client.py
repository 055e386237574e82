"""openai's client, made to send a request as pydantic-ai has built it.

The library looks at each part of a request by its type, and at each tool by the type of every kind
of tool, in case something has another name on the wire. Nothing in ours has: a walk of 10 ms of
processor time gives back what it was given. What comes as `extra_body` takes the place of the
argument of the same name, as it is.
"""

from typing import Any

from openai import AsyncOpenAI
from openai.resources.chat.completions import AsyncCompletions
from openai.resources.responses import AsyncResponses

_LARGE = ("messages", "input", "tools")
"""The arguments that a conversation and its tools are in."""


class PlainCompletions(AsyncCompletions):
    """Chat Completions that are asked for without the walk."""

    async def create(self, **body: Any) -> Any:  # noqa: ANN401 - as theirs
        """As the library's own; the same bytes are sent."""
        given: Any = super()
        return await given.create(**unwalked(body))


class PlainResponses(AsyncResponses):
    """Responses that are asked for without the walk."""

    async def create(self, **body: Any) -> Any:  # noqa: ANN401 - as theirs
        """As the library's own; the same bytes are sent."""
        given: Any = super()
        return await given.create(**unwalked(body))


def send_as_built(client: AsyncOpenAI) -> None:
    """Have a client send what it is given, and try once, so that no request needs a copy of it."""
    client.max_retries = 0
    # Where the library itself keeps them once they are asked for.
    vars(client.chat)["completions"] = PlainCompletions(client)
    vars(client)["responses"] = PlainResponses(client)


def unwalked(body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a request with the large ones moved to `extra_body`.

    An empty list stays in the place of each, so that it is written where it was.
    """
    large = {name: body[name] for name in _LARGE if isinstance(body.get(name), list)}
    return {
        **body,
        **{name: [] for name in large},
        "extra_body": {**large, **(body.get("extra_body") or {})},
    }
