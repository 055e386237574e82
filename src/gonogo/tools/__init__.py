"""What agents can do: each tool's arguments, its class, a look before it runs, and its body.

A tool's `prepare` finds what a call will touch and shows it, and changes nothing. Its `run` takes
those same final arguments and refuses to work on files that are no longer as they were approved.
Tools of foreign servers (MCP) are named `mcp__server__tool`; nothing that their servers say of them
is believed.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from gonogo.domain.tool_calls import Access
from gonogo.tools.base import Arguments, Bench, JsonObject, Prepared, Tool, changed_lines
from gonogo.tools.base import difference as file_difference
from gonogo.tools.command import (
    COMMAND_TOOLS,
    OUTPUT_TOOLS,
    READ_OUTPUT,
    excerpt,
    how_to_read,
    line_of,
    text_of,
)
from gonogo.tools.control import (
    CONTROL_TOOLS,
    ENDING_TOOLS,
    EXPLORE,
    EXPLORING_TOOLS,
    READ_SKILL,
    skill_tool,
)
from gonogo.tools.edits import Diagnostics
from gonogo.tools.files import READING_TOOLS, WRITING_TOOLS
from gonogo.tools.mcp.servers import (
    Remembered,
    ServerConfig,
    ServerPool,
    ServerReport,
    Sight,
    load_servers,
)
from gonogo.tools.mcp.tool import Definition, ForeignTool, difference
from gonogo.tools.patch import PATCHING_TOOLS
from gonogo.tools.schemas import SchemaChecks
from gonogo.workspace import InstructionReader


def builtin_tools() -> dict[str, Tool]:
    """Every tool that gonogo brings, by name."""
    skills = skill_tool(InstructionReader())
    tools = (
        *READING_TOOLS, *OUTPUT_TOOLS, skills, *WRITING_TOOLS, *PATCHING_TOOLS, *COMMAND_TOOLS,
        *EXPLORING_TOOLS, *CONTROL_TOOLS,
    )  # fmt: skip
    return {tool.name: tool for tool in tools}


_ours = lru_cache(maxsize=1)(builtin_tools)


def touched(tool: str, arguments: Mapping[str, Any]) -> Access:
    """What a call of a tool that gonogo brings touches, by its arguments alone; of others nothing.

    Raises:
        ToolFailed: a path leaves the workspace by its words, or a patch cannot be read.
        KeyError: an argument is not there.
    """
    ours = _ours().get(tool)
    return ours.touches(arguments) if ours is not None else Access()


def propose_tool(kinds: Mapping[str, str]) -> dict[str, Tool]:
    """`create_plan`, for planners who may use these kinds of subtasks as well.

    Args:
        kinds: What each is for, by its name.
    """
    tool = next(tool for tool in CONTROL_TOOLS if tool.name == "create_plan")
    told = [f" A subtask may have the type `{name}`: {said}" for name, said in kinds.items()]
    return {tool.name: replace(tool, description=tool.description + "".join(told))}


def ending_tools() -> dict[str, Tool]:
    """The tools by which decisions and validations end; no agent has them elsewhere."""
    return {tool.name: tool for tool in ENDING_TOOLS}


__all__ = [
    "EXPLORE",
    "READ_OUTPUT",
    "READ_SKILL",
    "Arguments",
    "Bench",
    "Definition",
    "Diagnostics",
    "ForeignTool",
    "JsonObject",
    "Prepared",
    "Remembered",
    "SchemaChecks",
    "ServerConfig",
    "ServerPool",
    "ServerReport",
    "Sight",
    "Tool",
    "builtin_tools",
    "changed_lines",
    "difference",
    "ending_tools",
    "excerpt",
    "file_difference",
    "how_to_read",
    "line_of",
    "load_servers",
    "propose_tool",
    "skill_tool",
    "text_of",
    "touched",
]
