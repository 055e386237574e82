"""Tool calls as editors show them: what kind, which files, what changes in them."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from acp import schema
from acp.helpers import text_block, tool_content, tool_diff_content

from gonogo.domain.text_safety import visible

Content = (
    schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent
)
TOLD = frozenset(
    {"create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"}
)
"""Tools of which other events tell."""
_KINDS: Mapping[str, schema.ToolKind] = {
    "read_file": "read",
    "list_files": "search",
    "search_in_code": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "apply_patch": "edit",
    "create_directory": "edit",
    "move_file": "move",
    "delete_file": "delete",
    "execute_command": "execute",
    "give_decision": "think",
    "give_verdict": "think",
}
_PATHS = ("path", "source", "destination")
_SUBJECTS = ("path", "source", "pattern", "url", "name")
_LONGEST_TITLE, _LONGEST_OUTPUT = 200, 20_000
_FILE = re.compile(r"^--- (?P<old>[^\t\n]+)[^\n]*\n\+\+\+ (?P<new>[^\t\n]+)[^\n]*$", re.MULTILINE)
_NOTHING = "/dev/null"


def kind_of(tool: str) -> schema.ToolKind:
    """What kind of thing a tool does."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: Mapping[str, Any], subtask_id: str | None = None) -> str:
    """A call in one line."""
    where = f"[{subtask_id}] " if subtask_id else ""
    command = arguments.get("command")
    if tool == "execute_command" and isinstance(command, str):
        return where + f"`{one_line(command)}`"
    subject = next((arguments[n] for n in _SUBJECTS if isinstance(arguments.get(n), str)), "")
    return where + f"{tool} {one_line(subject)}".rstrip()


def one_line(text: str, longest: int = _LONGEST_TITLE) -> str:
    """A stranger's text in one line, with what could deceive escaped."""
    line = " ".join(text.split())
    return visible(line if len(line) <= longest else line[: longest - 1] + "…", lines=False)


def locations_of(
    tool: str, arguments: Mapping[str, Any], root: str
) -> list[schema.ToolCallLocation]:
    """The files that a call is about, as absolute paths."""
    paths = [arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)]
    if tool == "apply_patch":
        paths = [path for path, _, _ in fragments(str(arguments.get("patch", "")))]
    line = arguments.get("start_line")
    return [
        schema.ToolCallLocation(
            path=absolute(root, path), line=line if isinstance(line, int) else None
        )
        for path in dict.fromkeys(paths)
    ]


def absolute(root: str, path: str) -> str:
    """A path of a workspace as the editor names it."""
    return posixpath.normpath(posixpath.join(root, path))


def changes_of(tool: str, arguments: Mapping[str, Any], root: str) -> list[Content]:
    """What a call would change, as far as its arguments alone tell."""
    if tool == "apply_patch":
        return differences(str(arguments.get("patch", "")), root)
    if tool != "edit_file":
        return []
    path, old, new = (str(arguments.get(name, "")) for name in ("path", "old", "new"))
    return [tool_diff_content(absolute(root, path), new, old)]


def created(arguments: Mapping[str, Any], result: object, root: str) -> list[Content]:
    """A file that a call has made."""
    if not (isinstance(result, dict) and cast("dict[str, Any]", result).get("created") is True):
        return []
    path, content = arguments.get("path"), arguments.get("content")
    if not (isinstance(path, str) and isinstance(content, str)):
        return []
    return [tool_diff_content(absolute(root, path), content)]


def differences(patch: str, root: str) -> list[Content]:
    """A unified diff, piece by piece."""
    return [
        tool_diff_content(absolute(root, path), new, old) for path, old, new in fragments(patch)
    ]


def fragments(patch: str) -> Iterator[tuple[str, str | None, str]]:
    """The path, the old and the new lines of each hunk; no old ones where the file is new."""
    files = list(_FILE.finditer(patch))
    ends = [*(found.start() for found in files[1:]), len(patch)]
    for found, end in zip(files, ends, strict=False):
        old, new = found["old"].strip(), found["new"].strip()
        path = re.sub(r"^[ab]/", "", old if new == _NOTHING else new)
        for hunk in re.split(r"^@@.*$", patch[found.end() : end], flags=re.MULTILINE)[1:]:
            lines = hunk.strip("\n").split("\n")
            before = _side(lines, "-")
            yield path, None if old == _NOTHING else before, _side(lines, "+")


def _side(lines: list[str], sign: str) -> str:
    kept = [line[1:] for line in lines if line[:1] in (" ", sign, "") and line[:1] != "\\"]
    return "".join(f"{line}\n" for line in kept)


def text_content(text: str) -> schema.ContentToolCallContent:
    """A text in the place of a call's content."""
    if len(text) > _LONGEST_OUTPUT:
        text = "…\n" + text[-_LONGEST_OUTPUT:]
    return tool_content(text_block(text))


def output_of(tool: str, result: object) -> list[Content]:
    """What a call gave, where its content is worth reading."""
    if tool != "execute_command" or not isinstance(result, dict):
        return []
    fields = cast("dict[str, Any]", result)
    output = visible(str(fields.get("output", ""))).rstrip()
    code = fields.get("exit_code")
    ended = f"exit code {code}" if code is not None else ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", output)), default=0))
    shown = f"{fence}\n{output}\n{fence}\n{ended}" if output else ended
    return [text_content(shown.strip())] if shown.strip() else []
