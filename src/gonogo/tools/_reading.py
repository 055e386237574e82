"""The tools that only look: read_file, list_files, search_in_code."""

from typing import Annotated

from pydantic import Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.strict_json import content_hash
from gonogo.domain.tool_calls import Access, ToolClass
from gonogo.tools._tool import Arguments, Bench, JsonObject, Prepared, Tool, in_thread
from gonogo.workspace import Query, Workspace

READ_CAP = 128 * 1024
"""Characters of a file that one call gives."""

LINE = Annotated[int, Field(ge=1, le=100_000_000)]


class ReadFile(Arguments):
    """Which file, and which of its lines."""

    path: Annotated[str, Field(description="The file, relative to the workspace.")]
    start_line: Annotated[LINE | None, Field(description="First line, counted from 1.")] = None
    end_line: Annotated[LINE | None, Field(description="Last line, included.")] = None


class ListFiles(Arguments):
    """Which folder, how deep, how much."""

    path: Annotated[str, Field(description="The folder, relative to the workspace.")] = "."
    depth: Annotated[int, Field(ge=1, le=50, description="Levels; 1 is the folder alone.")] = 2
    limit: Annotated[int, Field(ge=1, le=10_000, description="The most entries.")] = 500


class SearchInCode(Arguments):
    """What to look for, and where."""

    pattern: Annotated[str, Field(description="A regular expression, compared line by line.")]
    path: Annotated[str, Field(description="The folder or file, relative to the workspace.")] = "."
    glob: Annotated[
        str | None, Field(description="Only these files, such as `*.py` or `src/**/*.ts`.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=5_000, description="The most lines.")] = 200
    regex: Annotated[bool, Field(description="False looks for the pattern as plain text.")] = True


def _prepare_read(workspace: Workspace, arguments: ReadFile) -> Prepared:
    path = workspace.real_file(arguments.path)
    status = workspace.stat(path)
    if status is None:
        raise ToolFailed("file_not_found", f"{path!r} does not exist")
    if status.kind != "file":
        raise ToolFailed("not_a_regular_file", f"{path!r} is no regular file")
    return Prepared(
        arguments=arguments.final(path=path), access=Access(reads=(path,)), preview=path
    )


def _read(bench: Bench, arguments: ReadFile) -> JsonObject:
    data = bench.workspace.read(arguments.path, follow=False)
    if b"\0" in data:
        raise ToolFailed("not_text", f"{arguments.path!r} is binary")
    text, lossy = _as_text(data)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    start = arguments.start_line or 1
    wanted = lines[start - 1 : arguments.end_line]
    content = "\n".join(wanted)
    if wanted and (start - 1 + len(wanted) < len(lines) or text.endswith("\n")):
        content += "\n"
    shown = content[:READ_CAP]
    whole = len(shown) == len(content)
    result: JsonObject = {
        "path": arguments.path,
        "content": shown,
        "hash": content_hash(data),
        "start_line": start,
        "end_line": start - 1 + (len(wanted) if whole else shown.count("\n") or 1),
        "total_lines": len(lines),
        "truncated": not whole,
    }
    if lossy:
        result["lossy"] = True
    return result


def _as_text(data: bytes) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def _prepare_list(workspace: Workspace, arguments: ListFiles) -> Prepared:
    path = workspace.real(arguments.path)
    _check_folder(workspace, path)
    return Prepared(
        arguments=arguments.final(path=path), access=Access(reads=(path,)), preview=path
    )


def _check_folder(workspace: Workspace, path: str) -> None:
    with workspace.folder(path):
        return


def _list(bench: Bench, arguments: ListFiles) -> JsonObject:
    found = bench.workspace.list(
        arguments.path, depth=arguments.depth, limit=arguments.limit, follow=False
    )
    entries = [
        {"path": entry.path, "type": entry.kind}
        | ({} if entry.size is None else {"size": entry.size})
        for entry in found.entries
    ]
    return {"path": arguments.path, "entries": entries, "truncated": found.truncated}


def _prepare_search(workspace: Workspace, arguments: SearchInCode) -> Prepared:
    path = workspace.real(arguments.path)
    return Prepared(
        arguments=arguments.final(path=path),
        access=Access(reads=(path,)),
        preview=f"{arguments.pattern!r} in {path}",
    )


def _search(bench: Bench, arguments: SearchInCode) -> JsonObject:
    query = Query(
        pattern=arguments.pattern,
        regex=arguments.regex,
        glob=arguments.glob,
        limit=arguments.limit,
    )
    found = bench.workspace.search(query, path=arguments.path, follow=False)
    matches = [
        {"path": match.path, "line": match.line, "text": match.text} for match in found.matches
    ]
    return {"matches": matches, "truncated": found.truncated}


READING_TOOLS = (
    Tool(
        name="read_file",
        description=(
            "Read a text file, whole or a range of lines. `hash` in the result names this content;"
            " give it as base_hash when you change the file."
        ),
        arguments=ReadFile,
        tool_class=ToolClass.PURE,
        prepare=_prepare_read,
        run=in_thread(_read),
    ),
    Tool(
        name="list_files",
        description="List what is in a folder, sorted. Links are shown and not followed.",
        arguments=ListFiles,
        tool_class=ToolClass.PURE,
        prepare=_prepare_list,
        run=in_thread(_list),
    ),
    Tool(
        name="search_in_code",
        description=(
            "Find the lines that match a regular expression in the text files of a folder."
            " Binary files, files over 4 MiB, secrets and folders of dependencies are left out."
        ),
        arguments=SearchInCode,
        tool_class=ToolClass.PURE,
        prepare=_prepare_search,
        run=in_thread(_search),
    ),
)
