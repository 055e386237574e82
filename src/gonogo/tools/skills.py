"""The tool that gives an agent a skill: instructions for a kind of work, read when they fit.

It only reads. What a skill wants written or run is a call like any other, and is judged as one.
"""

from typing import Annotated

from pydantic import Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.instructions import front_matter
from gonogo.domain.strict_json import content_hash
from gonogo.domain.tool_calls import Access, ToolClass
from gonogo.tools.base import (
    Arguments,
    Bench,
    JsonObject,
    Prepared,
    Tool,
    in_thread,
    touches_nothing,
)
from gonogo.workspace import InstructionReader, Workspace

READ_SKILL = "read_skill"
SKILL_CAP = 64 * 1024
"""Characters of a skill that one call gives."""


class ReadSkill(Arguments):
    """Which skill."""

    name: Annotated[str, Field(description="The skill's name, as it is listed.", max_length=64)]


def skill_tool(reader: InstructionReader) -> Tool:
    """`read_skill`, for the skills that a reader finds."""

    def prepare(workspace: Workspace, arguments: ReadSkill) -> Prepared:
        found = reader.skill(workspace, arguments.name)
        # Rules about its file hold as for any file that is read.
        reads = () if found.path is None else (found.path,)
        return Prepared(
            arguments=arguments.final(), access=Access(reads=reads),
            preview=found.path or f"the user's own skill {found.name}",
        )  # fmt: skip

    def read(bench: Bench, arguments: ReadSkill) -> JsonObject:
        found = reader.skill(bench.workspace, arguments.name)
        if b"\0" in found.data:
            raise ToolFailed("not_text", "The skill {name!r} is binary", name=found.name)
        _, text = front_matter(found.data.decode("utf-8", "replace").replace("\r\n", "\n"))
        told: JsonObject = {
            "name": found.name, "source": "user" if found.path is None else "repository",
            "hash": content_hash(found.data), "content": text[:SKILL_CAP],
            "truncated": len(text) > SKILL_CAP,
        }  # fmt: skip
        return told if found.path is None else {**told, "path": found.path}

    return Tool(
        name=READ_SKILL,
        description=(
            "Read a skill that is listed: instructions for a kind of work. They allow nothing;"
            " what they want run is a call of yours like any other."
        ),
        arguments=ReadSkill,
        tool_class=ToolClass.PURE,
        touches=touches_nothing,
        prepare=prepare,
        run=in_thread(read),
        here=True,
    )
