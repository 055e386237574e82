"""The tools that only look: read_file, list_files, search_in_code."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct
from pydantic import Field

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.domain.tool_calls import A_FOLDER, Access, FileEffect, ToolClass
from gonogo.tools.base import (
    Arguments,
    Bench,
    JsonObject,
    Prepared,
    Tool,
    check_read,
    decoded,
    difference,
    in_thread,
    path_of,
    with_ends,
)
from gonogo.tools.edits import broken, differing, edited, ended_as, is_stray, told
from gonogo.workspace import Query, Workspace, compile_glob, elsewhere

READ_CAP = 128 * 1024
"""Characters of a file that one call gives at most."""
_CHARACTERS_PER_TOKEN = 3
"""Of code, and with what JSON adds."""

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


def _reads(arguments: Mapping[str, Any]) -> Access:
    if arguments.get("glob") is not None:
        compile_glob(str(arguments["glob"]))
    return Access(reads=(path_of(arguments),))


def _writes(arguments: Mapping[str, Any]) -> Access:
    return Access(writes=(path_of(arguments),))


def _moves(arguments: Mapping[str, Any]) -> Access:
    source, target = str(arguments["source"]), str(arguments["destination"])
    return Access(deletes=(elsewhere(source),), writes=(elsewhere(target),))


def _deletes(arguments: Mapping[str, Any]) -> Access:
    return Access(deletes=(path_of(arguments),))


def _prepare_read(workspace: Workspace, arguments: ReadFile) -> Prepared:
    path = workspace.real_file(arguments.path)
    status = workspace.stat(path)
    if status is None:
        raise ToolFailed("file_not_found", "{path!r} does not exist", path=path)
    if status.kind != "file":
        raise ToolFailed("not_a_regular_file", "{path!r} is not a regular file", path=path)
    return Prepared(
        arguments=arguments.final(path=path), access=Access(reads=(path,)), preview=path
    )


def _read(bench: Bench, arguments: ReadFile) -> JsonObject:
    data = bench.workspace.read(arguments.path, follow=False)
    if b"\0" in data:
        raise ToolFailed("not_text", "{path!r} is binary", path=arguments.path)
    text, lossy = _as_text(data)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    start = arguments.start_line or 1
    wanted = lines[start - 1 : arguments.end_line]
    content = "\n".join(wanted)
    if wanted and (start - 1 + len(wanted) < len(lines) or text.endswith("\n")):
        content += "\n"
    shown = _beginning(content, bench.result_tokens * _CHARACTERS_PER_TOKEN)
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
    if not whole:
        result["size"] = len(data)
    if lossy:
        result["lossy"] = True
    return result


def _beginning(content: str, most: int) -> str:
    """Whole lines of a text, as many as fit; of a very long first line as much as may be."""
    if len(content) <= most:
        return content[:READ_CAP]
    end = content.rfind("\n", 0, min(most, READ_CAP)) + 1
    return content[: end or READ_CAP]


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
            "Read a text file, whole or a range of lines. Of a large one you get a part, with its"
            " `size` in bytes and `total_lines`: read on with start_line. `hash` in the result"
            " names this content; give it as base_hash when you change the file."
        ),
        arguments=ReadFile,
        tool_class=ToolClass.PURE,
        touches=_reads,
        prepare=_prepare_read,
        run=in_thread(_read),
    ),
    Tool(
        name="list_files",
        description="List what is in a folder, sorted. Links are shown and not followed.",
        arguments=ListFiles,
        tool_class=ToolClass.PURE,
        touches=_reads,
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
        touches=_reads,
        prepare=_prepare_search,
        run=in_thread(_search),
    ),
)


# The tools that change one file: write, edit, move, delete, and the one that makes a folder.

_HASH = Annotated[
    str | None,
    Field(description="The hash that read_file gave; the change is refused if the file differs."),
]


class WriteFile(Arguments):
    """Which file, and all that it shall hold."""

    path: Annotated[str, Field(description="The file, relative to the workspace.")]
    content: Annotated[str, Field(description="The whole new content.")]
    base_hash: _HASH = None


class EditFile(Arguments):
    """Which text of a file becomes which."""

    path: Annotated[str, Field(description="The file, relative to the workspace.")]
    old: Annotated[str, Field(min_length=1, description="The exact text to replace.")]
    new: Annotated[str, Field(description="The text to put there.")]
    base_hash: _HASH = None
    replace_all: Annotated[
        bool, Field(description="Replace every occurrence; else `old` must occur once.")
    ] = False


class CreateDirectory(Arguments):
    """Which folder."""

    path: Annotated[str, Field(description="The folder, relative to the workspace.")]


class MoveFile(Arguments):
    """From where to where."""

    source: Annotated[str, Field(description="The file, relative to the workspace.")]
    destination: Annotated[str, Field(description="Its new path; nothing may be there.")]


class DeleteFile(Arguments):
    """Which file."""

    path: Annotated[str, Field(description="The file, relative to the workspace.")]


def peek(workspace: Workspace, path: str, current: str | None) -> bytes | None:
    """The content for a preview; None when there is no file.

    A file that is too large to be read counts as binary, which a preview sums up.

    Raises:
        ToolFailed: `changed_since_read` when it is not what hashed to `current` any more.
    """
    if current is None:
        return None
    try:
        data = workspace.read(path, follow=False)
    except ToolFailed as failure:
        if failure.kind != "too_large":
            raise
        return b"\0"
    check_read(path, content_hash(data), current)
    return data


def encoded(text: str) -> bytes:
    """Text as the bytes of a file.

    Raises:
        ToolFailed: `invalid_arguments` for half of a surrogate pair, which is no text.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(
            "invalid_arguments", "The text contains a lone surrogate, half of a character"
        ) from error


def _changing(
    workspace: Workspace, path: str, *, follow_last: bool = True
) -> tuple[str, str | None]:
    real = workspace.real_file(path, follow_last=follow_last)
    workspace.check_writable(real)
    return real, workspace.hash(real)


def _prepare_write(workspace: Workspace, arguments: WriteFile) -> Prepared:
    path, current = _changing(workspace, arguments.path)
    check_read(path, current, arguments.base_hash)
    data = encoded(arguments.content)
    return Prepared(
        arguments=arguments.final(path=path),
        access=Access(writes=(path,)),
        base_hashes={path: current},
        effects=(FileEffect(path=path, before=current, after=content_hash(data)),),
        preview=difference(path, peek(workspace, path, current), data),
    )


def _write(bench: Bench, arguments: WriteFile) -> JsonObject:
    data = encoded(arguments.content)
    base = bench.base(arguments.path, arguments.base_hash)
    with bench.approved():
        before = bench.workspace.hash(arguments.path)
        bench.workspace.write(arguments.path, data, base=base)
    done = {
        "path": arguments.path,
        "hash": content_hash(data),
        "bytes": len(data),
        "created": before is None,
    }
    return done | broken(arguments.path, None, data)


class _EditedFile(Struct, frozen=True, kw_only=True):
    """What an edit makes of a file."""

    before: bytes
    after: bytes
    count: int = 1
    loosely: tuple[tuple[int, int], ...] = ()
    """First and last line of what stood there but for white space."""


def _edited(workspace: Workspace, arguments: EditFile, path: str) -> _EditedFile:
    before = workspace.read(path, follow=False)
    text, old, new = decoded(path, before), arguments.old, arguments.new
    if old == new:
        raise ToolFailed("no_change", "`old` and `new` are the same: nothing would change")
    first = text.find(old)
    if first >= 0 and (arguments.replace_all or text.find(old, first + 1) < 0):
        if not arguments.replace_all and is_stray(text, first, old):
            raise ToolFailed(
                "not_unique",
                "{path!r} contains `old` in the middle of a word, and as a line with other white "
                "space: give more lines",
                path=path,
            )
        after = encoded(text.replace(old, ended_as(text, new)))
        return _EditedFile(before=before, after=after, count=text.count(old))
    if first >= 0:
        raise ToolFailed(
            "not_unique",
            "{path!r} contains `old` more than once: give more lines, or replace_all",
            path=path,
        )
    if not arguments.replace_all and (found := edited(text, old, new)):
        after, place = found
        if after == text:
            raise ToolFailed("no_change", "{path!r} already contains `new` there", path=path)
        return _EditedFile(before=before, after=encoded(after), loosely=(place,))
    near = told(path, with_ends(text), with_ends(old))
    raise ToolFailed(
        "not_found_in_file", "{path!r} does not contain `old`{near}", path=path, near=near
    )


def _prepare_edit(workspace: Workspace, arguments: EditFile) -> Prepared:
    path, current = _changing(workspace, arguments.path)
    check_read(path, current, arguments.base_hash)
    edit = _edited(workspace, arguments, path)
    base = content_hash(edit.before)
    return Prepared(
        arguments=arguments.final(path=path),
        access=Access(writes=(path,)),
        base_hashes={path: base},
        effects=(FileEffect(path=path, before=base, after=content_hash(edit.after)),),
        preview=difference(path, edit.before, edit.after),
    )


def _edit(bench: Bench, arguments: EditFile) -> JsonObject:
    base = bench.base(arguments.path, arguments.base_hash)
    with bench.approved():
        current = bench.workspace.hash(arguments.path)
        if base not in ("any", current):
            raise ToolFailed(
                "changed_since_approval",
                "{path!r} has changed since it was approved",
                path=arguments.path,
            )
        edit = _edited(bench.workspace, arguments, arguments.path)
        expected = content_hash(edit.before) if base == "any" else base
        bench.workspace.write(arguments.path, edit.after, base=expected)
    done = {"path": arguments.path, "hash": content_hash(edit.after), "replacements": edit.count}
    faults = broken(arguments.path, edit.before, edit.after)
    return done | differing(edit.loosely) | faults


def _prepare_mkdir(workspace: Workspace, arguments: CreateDirectory) -> Prepared:
    path = workspace.real(arguments.path)
    workspace.check_writable(path)
    status = workspace.stat(path)
    if status is not None and status.kind != "folder":
        raise ToolFailed("not_a_regular_file", "{path!r} exists and is not a folder", path=path)
    return Prepared(
        arguments=arguments.final(path=path),
        access=Access(writes=(path,)),
        effects=(FileEffect(path=path, before=A_FOLDER if status else None, after=A_FOLDER),),
        preview=f"new folder {path}",
    )


def _mkdir(bench: Bench, arguments: CreateDirectory) -> JsonObject:
    return {"path": arguments.path, "created": bench.workspace.mkdir(arguments.path)}


def _there(workspace: Workspace, path: str) -> tuple[str, str]:
    real, current = _changing(workspace, path, follow_last=False)
    if current is None:
        raise ToolFailed("file_not_found", "{path!r} does not exist", path=path)
    return real, current


def _prepare_move(workspace: Workspace, arguments: MoveFile) -> Prepared:
    source, current = _there(workspace, arguments.source)
    destination, there = _changing(workspace, arguments.destination, follow_last=False)
    if there is not None:
        raise ToolFailed("file_exists", "{path!r} already exists", path=destination)
    return Prepared(
        arguments=arguments.final(source=source, destination=destination),
        access=Access(reads=(source,), writes=(destination,), deletes=(source,)),
        base_hashes={source: current, destination: None},
        effects=(
            FileEffect(path=source, before=current, after=None),
            FileEffect(path=destination, before=None, after=current),
        ),
        preview=f"{source} -> {destination}",
    )


def _move(bench: Bench, arguments: MoveFile) -> JsonObject:
    with bench.approved():
        bench.workspace.move(
            arguments.source, arguments.destination, base=bench.base(arguments.source)
        )
    return {"source": arguments.source, "destination": arguments.destination, "moved": True}


def _prepare_delete(workspace: Workspace, arguments: DeleteFile) -> Prepared:
    path, current = _there(workspace, arguments.path)
    return Prepared(
        arguments=arguments.final(path=path),
        access=Access(deletes=(path,)),
        base_hashes={path: current},
        effects=(FileEffect(path=path, before=current, after=None),),
        preview=difference(path, peek(workspace, path, current), None),
    )


def _delete(bench: Bench, arguments: DeleteFile) -> JsonObject:
    with bench.approved():
        bench.workspace.delete(arguments.path, base=bench.base(arguments.path))
    return {"path": arguments.path, "deleted": True}


WRITING_TOOLS = (
    Tool(
        name="write_file",
        description="Create a file, or replace all that it holds. Missing folders are created.",
        arguments=WriteFile,
        tool_class=ToolClass.IDEMPOTENT,
        touches=_writes,
        prepare=_prepare_write,
        run=in_thread(_write),
    ),
    Tool(
        name="edit_file",
        description=(
            "Replace an exact text in a file. `old` must occur exactly once, unless replace_all is"
            " true. Whole lines that differ in white space alone are found, too, and `new` gets"
            " the file's indentation; the result says so."
        ),
        arguments=EditFile,
        tool_class=ToolClass.IDEMPOTENT,
        touches=_writes,
        prepare=_prepare_edit,
        run=in_thread(_edit),
    ),
    Tool(
        name="create_directory",
        description="Create a folder and its missing parents.",
        arguments=CreateDirectory,
        tool_class=ToolClass.IDEMPOTENT,
        touches=_writes,
        prepare=_prepare_mkdir,
        run=in_thread(_mkdir),
    ),
    Tool(
        name="move_file",
        description="Move or rename one file. Nothing is replaced.",
        arguments=MoveFile,
        tool_class=ToolClass.OTHER,
        touches=_moves,
        prepare=_prepare_move,
        run=in_thread(_move),
    ),
    Tool(
        name="delete_file",
        description="Delete one file.",
        arguments=DeleteFile,
        tool_class=ToolClass.IRREVERSIBLE,
        touches=_deletes,
        prepare=_prepare_delete,
        run=in_thread(_delete),
    ),
)
