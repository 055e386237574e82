"""Results of earlier calls, which the record keeps whole: excerpts of them, and `read_output`.

A result is read as rows: its lines, of which the very long ones are folded. So every part of it
has a place, and one row is never large.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

import anyio.to_thread
from pydantic import ConfigDict, Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.tool_calls import ToolClass
from gonogo.tools.base import Arguments, Bench, JsonObject, Prepared, Tool, touches_nothing
from gonogo.workspace import Workspace, matching_lines

READ_OUTPUT = "read_output"
ROW = 500
"""Characters of one row."""
_MOST_FOUND = 200
_LONGEST = 200
"""Characters of the arguments in a line."""
_BYTES_PER_TOKEN = 4


def text_of(result: Any) -> str:  # noqa: ANN401 - JSON
    """A result as text whose lines are those of what it holds."""
    if not isinstance(result, Mapping):
        return _shown(result)
    fields = cast("Mapping[str, Any]", result)
    return "\n".join(
        f"{name}:\n{value}" if _has_lines(value) else f"{name}: {_shown(value)}"
        for name, value in fields.items()
    )


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def _shown(value: Any) -> str:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rows_of(text: str) -> list[str]:
    """The text as rows: a line each, or several for a line that is very long."""
    rows: list[str] = []
    for line in text.split("\n"):
        rows.extend(line[at : at + ROW] for at in range(0, max(len(line), 1), ROW))
    return rows


def beginning(rows: Iterable[str], room: int) -> list[str]:
    """As many of the rows, from the first one on, as fit into so many bytes."""
    kept: list[str] = []
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        kept.append(row)
    return kept


def excerpt(text: str, tokens: int, how: Callable[[int, int], str]) -> str:
    """The beginning and the end of a text, and between them what is left out.

    Args:
        tokens: What the excerpt may have of the text; the note comes on top.
        how: Says how the rows left out can be read, told the first and the last of them.
    """
    rows = rows_of(text)
    head = beginning(rows, tokens * _BYTES_PER_TOKEN * 2 // 3)
    rest = rows[len(head) :]
    tail = beginning(reversed(rest), tokens * _BYTES_PER_TOKEN // 3)[::-1]
    first, last = len(head) + 1, len(rows) - len(tail)
    note = (
        f"[{len(text)} characters in {len(rows)} rows; rows {first} to {last} are left out here. "
        f"{how(first, last)}]"
    )
    return "\n".join([*head, note, *tail])


class ReadOutput(Arguments):
    """Which call, and which rows of its result."""

    model_config = ConfigDict(populate_by_name=True)

    id: Annotated[str, Field(max_length=100, description="The id of the call.")]
    first: Annotated[
        int | None,
        Field(alias="from", ge=1, le=100_000_000, description="First row, counted from 1."),
    ] = None
    last: Annotated[
        int | None, Field(alias="to", ge=1, le=100_000_000, description="Last row, included.")
    ] = None
    pattern: Annotated[
        str | None,
        Field(
            max_length=2_000,
            description="Only rows in which this regular expression is found.",
        ),
    ] = None


def _prepare(_workspace: Workspace, arguments: ReadOutput) -> Prepared:
    return Prepared(arguments=arguments.final())


async def _read(bench: Bench, arguments: ReadOutput) -> JsonObject:
    if bench.output is None:
        raise ToolFailed("not_found", "There is no record of earlier calls here")
    rows = rows_of(text_of(await bench.output(arguments.id)))
    first = arguments.first or 1
    wanted = rows[first - 1 : arguments.last]
    # Less than the model may be given, for JSON makes it longer.
    room = bench.result_tokens * (_BYTES_PER_TOKEN - 1)
    about: JsonObject = {"id": arguments.id, "rows": len(rows)}
    if arguments.pattern is None:
        kept = beginning(wanted, room)
        last = first - 1 + len(kept)
        content = "\n".join(kept)
        more = len(kept) < len(wanted)
        return {**about, "from": first, "to": last, "content": content, "truncated": more}
    found = await anyio.to_thread.run_sync(matching_lines, wanted, arguments.pattern)
    numbered = [f"{first - 1 + n}: {wanted[n - 1]}" for n in found[:_MOST_FOUND]]
    kept = beginning(numbered, room)
    return {**about, "found": len(found), "content": "\n".join(kept),
            "truncated": len(kept) < len(found)}  # fmt: skip


def how_to_read(call_id: str, tool: str) -> Callable[[int, int], str]:
    """How a model reads on in a result of which it was given a part."""
    if tool == READ_OUTPUT:
        return lambda first, last: "Ask for fewer rows."
    return lambda first, last: (
        f'{READ_OUTPUT} with {{"id": "{call_id}", "from": {first}, "to": {last}}} gives them, '
        'with "pattern" those that match.'
    )


def line_of(tool: str, arguments: Mapping[str, Any], call_id: str, size: int) -> str:
    """One line in the place of a result that was given before."""
    words = " ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
    told = " ".join(words.split())[:_LONGEST]
    how = "call it again" if tool == READ_OUTPUT else f'{READ_OUTPUT} with {{"id": "{call_id}"}}'
    return (
        f"[{tool} {told}: {size} characters, given before and left out here. "
        f"To see them again: {how}.]"
    )


OUTPUT_TOOLS: Sequence[Tool] = (
    Tool(
        name=READ_OUTPUT,
        description=(
            "Read the result of an earlier call of this conversation that was too long to be given"
            " whole, or that is left out by now: a range of its rows, or the rows that match a"
            " pattern. To see a file as it is now, use read_file."
        ),
        arguments=ReadOutput,
        tool_class=ToolClass.PURE,
        touches=touches_nothing,
        prepare=_prepare,
        run=_read,
        of_record=True,
    ),
)
