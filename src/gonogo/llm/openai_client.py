"""openai's client, made to send a request as pydantic-ai has built it.

The library looks at each part of a request by its type, and at each tool by the type of every kind
of tool, in case something has another name on the wire. Nothing in ours has: a walk of 2.5 ms of
processor time gives back what it was given. So its functions are used with another one in the place
of the walk, under the name that they know it by.

Each piece of an answer is made a value of the library's type by a walk as well, since a server may
send what the type does not allow. What it allows is read by pydantic itself, in a twentieth of the
time.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

from openai import AsyncOpenAI
from openai._utils import is_given
from openai.types.chat import ChatCompletionChunk
from pydantic import ValidationError


def make_quick(client: AsyncOpenAI) -> None:
    """Spare a client what takes time and changes nothing."""
    send_as_built(client)
    read_quickly(client)


def send_as_built(client: AsyncOpenAI) -> None:
    """Have a client send what it is given, and try once, so that no request needs a copy of it."""
    client.max_retries = 0
    # The library keeps both once they are asked for.
    for resource in (client.chat.completions, client.responses):
        vars(resource)["create"] = MethodType(unwalked(type(resource).create), resource)


def unwalked(create: Any) -> FunctionType:  # noqa: ANN401 - a function of theirs, or a wrapped one
    """The same function without the walk through what it sends; the same bytes are sent."""
    theirs: FunctionType = inspect.unwrap(create)
    own = FunctionType(
        theirs.__code__, {**theirs.__globals__, "async_maybe_transform": as_given},
        theirs.__name__, theirs.__defaults__, theirs.__closure__,
    )  # fmt: skip
    own.__kwdefaults__ = theirs.__kwdefaults__
    return own


async def as_given(body: Mapping[str, Any], *_: object) -> dict[str, Any]:
    """The body of a request, without what was not given."""
    return {name: value for name, value in body.items() if is_given(value)}


def read_quickly(client: AsyncOpenAI) -> None:
    """Have a client read the pieces of an answer quickly, where they are as they should be."""
    theirs: Callable[..., Any] = client._process_response_data  # pyright: ignore[reportPrivateUsage]

    def read(*, data: Any, cast_to: Any, **more: Any) -> Any:  # noqa: ANN401 - as theirs
        if cast_to is ChatCompletionChunk:
            with suppress(ValidationError):
                return ChatCompletionChunk.model_validate(data, strict=True)
        return theirs(data=data, cast_to=cast_to, **more)

    vars(client)["_process_response_data"] = read
