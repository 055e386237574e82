"""openai's client, made to send a request as pydantic-ai has built it.

The library looks at each part of a request by its type, and at each tool by the type of every kind
of tool, in case something has another name on the wire. Nothing in ours has: a walk of 2 ms of
processor time gives back what it was given. What comes as `extra_body` takes the place of the
argument of the same name, as it is.

Each piece of an answer is made a value of the library's type by a walk as well, since a server may
send what the type does not allow. What it allows is read by pydantic itself, in a twentieth of the
time.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic import ValidationError

_LARGE = ("messages", "input", "tools")
"""The arguments that a conversation and its tools are in."""


def make_quick(client: AsyncOpenAI) -> None:
    """Spare a client what takes time and changes nothing."""
    send_as_built(client)
    read_quickly(client)


def send_as_built(client: AsyncOpenAI) -> None:
    """Have a client send what it is given, and try once, so that no request needs a copy of it."""
    client.max_retries = 0
    # The library keeps both once they are asked for.
    for resource in (client.chat.completions, client.responses):
        vars(resource)["create"] = partial(_create, resource.create)


async def _create(theirs: Callable[..., Any], **body: Any) -> Any:  # noqa: ANN401 - as theirs
    """Ask for an answer without the walk; the same bytes are sent."""
    return await theirs(**unwalked(body))


def read_quickly(client: AsyncOpenAI) -> None:
    """Have a client read the pieces of an answer quickly, where they are as they should be."""
    theirs: Callable[..., Any] = client._process_response_data  # pyright: ignore[reportPrivateUsage]

    def read(*, data: Any, cast_to: Any, **more: Any) -> Any:  # noqa: ANN401 - as theirs
        if cast_to is ChatCompletionChunk:
            with suppress(ValidationError):
                return ChatCompletionChunk.model_validate(data, strict=True)
        return theirs(data=data, cast_to=cast_to, **more)

    vars(client)["_process_response_data"] = read


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
