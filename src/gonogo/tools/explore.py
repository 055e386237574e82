"""The tool by which an agent has several questions looked into at once.

What looks into them are conversations of their own, with a model and tools that only read: the loop
holds them, so there is no body here.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.tool_calls import ToolClass
from gonogo.tools.base import Arguments, Bench, JsonObject, Prepared, Tool, touches_nothing
from gonogo.workspace import Workspace

EXPLORE = "explore"
MOST_QUESTIONS = 4
_Question = Annotated[str, Field(min_length=1, max_length=4_000)]


class Explore(Arguments):
    """What is to be found out."""

    questions: Annotated[
        list[_Question],
        Field(
            min_length=1,
            max_length=MOST_QUESTIONS,
            description="Each complete in itself: what to find out, where, and what to give.",
        ),
    ]


def _prepare(_workspace: Workspace, arguments: Explore) -> Prepared:
    return Prepared(arguments=arguments.final())


async def _run(_bench: Bench, _arguments: Any) -> JsonObject:  # noqa: ANN401 - its own model
    raise ToolFailed("not_here", "explore needs a conversation with an agent")


def questions_of(arguments: Mapping[str, Any]) -> list[str]:
    """The questions of a call whose arguments were checked."""
    return [str(question) for question in arguments["questions"]]


EXPLORING_TOOLS = (
    Tool(
        name=EXPLORE,
        description=f"Have up to {MOST_QUESTIONS} questions about the workspace looked into at"
        " once, each by a reader of its own that sees nothing of this conversation. Gives a short"
        " answer to each.",
        arguments=Explore,
        tool_class=ToolClass.PURE,
        here=True,
        touches=touches_nothing,
        prepare=_prepare,
        run=_run,
    ),
)
