"""The tools that speak to the runtime itself; they have no body here."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, ConfigDict, Field, WithJsonSchema

from gonogo.domain.base import content_hash
from gonogo.domain.checks import MOST_CHECKS
from gonogo.domain.errors import ToolFailed
from gonogo.domain.instructions import front_matter
from gonogo.domain.plan import MAX_SUBTASKS
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

_STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_CHECK: dict[str, Any] = {
    "type": "object",
    "description": "One of these; `timeout` goes with `command`.",
    "properties": {
        "command": {"type": "string", "description": "Ends with the exit code 0."},
        "timeout": {"type": "number", "description": "Seconds."},
        "file_exists": {"type": "string", "description": "A path."},
        "file_contains": {
            "type": "object",
            "required": ["path", "text"],
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        },
        "unchanged": {**_STRINGS, "description": "Globs of files that it must leave as they are."},
        "ask": {
            "type": "string",
            "description": "A yes-or-no question to a model that sees only what was changed.",
        },
    },
}
_SUBTASK: dict[str, Any] = {
    "type": "object",
    "required": ["description"],
    "properties": {
        "id": {"type": "string", "description": "A short name; letters, digits, `_` and `-`."},
        "description": {"type": "string", "description": "What to do, complete in itself."},
        "agent": {"type": "string", "description": "The agent that does it."},
        "tool": {
            "type": "string",
            "description": "In the place of an agent: one call of this tool, with `inputs` as its"
            " arguments.",
        },
        "inputs": {
            "type": "object",
            "description": "Values for the agent, or the arguments of the tool;"
            " `${subtasks.a.output}` is a result of `a`.",
        },
        "type": {
            "type": "string",
            "description": "`action`: an effect, by an agent or a tool; without either, what a"
            " model alone can say. `decision`: a choice, by an agent, or by a model alone if none"
            " is named; `inputs.options` may limit it."
            " `validation`: a verdict, by an agent or a tool; without either by `inputs` {command,"
            " exit_code} or {file, exists, contains}, or else by a model alone. Or a kind that was"
            " installed.",
        },
        "dependencies": {**_STRINGS, "description": "Ids of the subtasks that come first."},
        "estimated_time": {"type": "string", "description": "Such as `5 min`."},
        "condition": {"type": "string", "description": "Run only if this holds (CEL)."},
        "scope": {
            "type": "object",
            "description": "What it needs; approving the plan grants it.",
            "properties": {
                "tools": {
                    **_STRINGS,
                    "description": "Left out: all of its agent. `[]`: none.",
                },
                "paths": {
                    **_STRINGS,
                    "description": "Globs of files that it may write. Left out: anywhere in the"
                    " workspace. `[]`: none.",
                },
                "commands": {
                    **_STRINGS,
                    "description": "Command prefixes, such as `pytest -q`. None unless said.",
                },
                "network": {
                    "anyOf": [{"type": "boolean"}, _STRINGS],
                    "description": "Hosts that its commands reach over HTTP(S), such as"
                    ' `["packages.example.com", "*.example.org:443"]`; `true` is any public host.'
                    " None unless said.",
                },
            },
        },
        "approval_required": {
            "type": "boolean",
            "description": "A person must let it start.",
        },
        "on_reject": {
            "enum": ["skip", "fail"],
            "description": "What becomes of it if they don't; `skip` unless said.",
        },
        "after_skipped": {
            "enum": ["skip", "run"],
            "description": "What becomes of it if a dependency was skipped by its own condition;"
            " `skip` unless said.",
        },
        "done_when": {
            "type": "array",
            "maxItems": MOST_CHECKS,
            "items": _CHECK,
            "description": "For an `action` of an agent: what the runtime checks when the agent"
            " says that it is done. Approving the plan allows just these commands, on a copy of"
            " the workspace and without network.",
        },
        "must_change": {
            "type": "boolean",
            "description": "Whether it is done only when it has changed a file; unless said, if"
            " `scope.paths` names some.",
        },
        "retry_policy": {"type": "object"},
        "timeout": {"type": "number", "description": "Seconds of work."},
    },
}

_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["comment_id", "answer"],
    "properties": {
        "comment_id": {"type": "string", "description": "The comment's id."},
        "answer": {"type": "string", "description": "What you changed for it, or why nothing."},
    },
}


class CreatePlan(Arguments):
    """A goal, and the subtasks that reach it."""

    goal: Annotated[str, Field(min_length=1, max_length=4_000, description="What is reached.")]
    subtasks: Annotated[
        list[dict[str, Any]],
        Field(min_length=1),
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_SUBTASKS,
                "description": f"At most {MAX_SUBTASKS}; a larger plan is refused.",
                "items": _SUBTASK,
            }
        ),
    ]
    answers: Annotated[
        list[dict[str, Any]] | None,
        Field(description="For a plan that came back with comments: one answer for each of them."),
        WithJsonSchema({"type": "array", "items": _ANSWER}),
    ] = None


class ExecutePlan(Arguments):
    """Which plan; the session's own when it is left out."""

    plan_id: Annotated[str | None, Field(description="The plan's id.")] = None


class SwitchMode(Arguments):
    """Which agent goes on."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    mode: Annotated[
        str,
        Field(
            validation_alias=AliasChoices("mode", "agent", "agent_type", "target_agent"),
            min_length=1,
            max_length=64,
            description="The agent that goes on.",
        ),
    ]
    reason: Annotated[str | None, Field(description="Why.")] = None
    confidence: Annotated[float | str | None, Field(description="How sure you are, 0 to 1.")] = None


class AskFollowupQuestion(Arguments):
    """A question to the person."""

    question: Annotated[str, Field(min_length=1, max_length=8_000, description="The question.")]
    suggestions: Annotated[list[str] | None, Field(description="Possible answers.")] = None


class AttemptCompletion(Arguments):
    """What was reached."""

    result: Annotated[str, Field(description="The result, for the person to read.")]
    success: Annotated[
        bool | None,
        Field(description="False when the task could not be done; `result` says why."),
    ] = None


class GiveDecision(Arguments):
    """The options, the choice, and why."""

    options: Annotated[
        list[str], Field(min_length=1, max_length=50, description="What could be chosen.")
    ]
    choice: Annotated[str, Field(min_length=1, description="One of the options.")]
    reasoning: Annotated[str, Field(min_length=1, description="Why this one.")]


class GiveVerdict(Arguments):
    """Whether it holds, and why."""

    valid: Annotated[bool, Field(description="Whether what was asked for holds.")]
    reasons: Annotated[
        list[str], Field(min_length=1, max_length=50, description="What shows that it does or not.")
    ]


def _prepare(_workspace: Workspace, arguments: Arguments) -> Prepared:
    return Prepared(arguments=arguments.final())


def _control(name: str, description: str, arguments: type[Arguments]) -> Tool:
    return Tool(
        name=name,
        description=description,
        arguments=arguments,
        tool_class=ToolClass.CONTROL,
        touches=touches_nothing,
        prepare=_prepare,
    )


CONTROL_TOOLS = (
    _control(
        "create_plan",
        "Propose a plan: a goal and the subtasks that reach it. A person decides on it before"
        " anything runs.",
        CreatePlan,
    ),
    _control(
        "execute_plan", "Start the plan that was approved, or report how it stands.", ExecutePlan
    ),
    _control("switch_mode", "Hand the conversation to another agent.", SwitchMode),
    _control(
        "ask_followup_question",
        "Ask the person a question that only they can answer, and wait.",
        AskFollowupQuestion,
    ),
    _control("attempt_completion", "End the task and say what was reached.", AttemptCompletion),
)

ENDING_TOOLS = (
    _control("give_decision", "Decide: end this subtask with your choice.", GiveDecision),
    _control("give_verdict", "Judge: end this subtask with your verdict.", GiveVerdict),
)
"""Offered only where a subtask must end by one of them."""


# The tool by which an agent has several questions looked into at once.
#
# What looks into them are conversations of their own, with a model and tools that only read: the
# loop holds them, so there is no body here.

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


async def _run_by_nobody(_bench: Bench, _arguments: Any) -> JsonObject:  # noqa: ANN401 - its own model
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
        run=_run_by_nobody,
    ),
)


# The tool that gives an agent a skill: instructions for a kind of work, read when they fit.
#
# It only reads. What a skill wants written or run is a call like any other, and is judged as one.

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
