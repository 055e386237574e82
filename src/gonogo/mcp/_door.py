"""Speaks the protocol: lists the tools of this door, and answers calls of them."""

import json
from functools import partial
from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError

from gonogo import __version__
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, defect_of
from gonogo.mcp._pipe import messages_on
from gonogo.mcp._tools import OFFERS, Answer, Offer

_BY_NAME = {offer.name: offer for offer in OFFERS}
_INSTRUCTIONS = (
    "gonogo runs plans of coding work that a person approves first. Ask for a plan, then look how"
    " it stands. You cannot approve, reject or edit anything here: tell your user what waits."
)


async def serve_agents(client: Client, source: int, sink: int) -> None:
    """Serve the other side of two pipes until it is gone.

    Args:
        client: Speaks to the runtime.
        source: The file descriptor that messages are read from.
        sink: The one that they are written to.
    """
    server: Server[Any] = Server(
        "gonogo",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=_listed,
        on_call_tool=partial(_called, client),
    )
    async with messages_on(source, sink) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _listed(context: Any, params: Any) -> ListToolsResult:  # noqa: ANN401 - the library's
    del context, params
    return ListToolsResult(tools=[_tool(offer) for offer in OFFERS])


def _tool(offer: Offer) -> Tool:
    schema = offer.arguments.model_json_schema()
    return Tool(
        name=offer.name,
        description=offer.description,
        input_schema={"type": "object", **{k: v for k, v in schema.items() if k != "title"}},
        annotations=ToolAnnotations(
            read_only_hint=offer.only_looks, destructive_hint=False, open_world_hint=False
        ),
    )


async def _called(
    client: Client,
    context: Any,  # noqa: ANN401 - the library's
    params: CallToolRequestParams,
) -> CallToolResult:
    del context
    offer = _BY_NAME.get(params.name)
    if offer is None:
        return _error("unknown_tool", f"There is no tool {params.name!r}")
    try:
        given = offer.arguments.model_validate(params.arguments or {})
        return _answer(await offer.run(client, given))
    except ValidationError as error:
        return _error("invalid_arguments", defect_of(error, "arguments"))
    except GonogoError as error:
        return _error(error.code, str(error))


def _answer(told: Answer) -> CallToolResult:
    text = json.dumps(told, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def _error(code: str, said: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=f"{code}: {said}")], is_error=True)
