"""apply_patch: several files in one change, all of them or none."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.strict_json import content_hash
from gonogo.domain.tool_calls import Access, FileEffect, ToolClass
from gonogo.tools._patch import FilePatch, apply_hunks, parse_patch
from gonogo.tools._text import decoded, difference
from gonogo.tools._tool import Arguments, Bench, JsonObject, Prepared, Tool, in_thread
from gonogo.tools._writing import encoded
from gonogo.workspace import Workspace

MAX_FILES = 200


class ApplyPatch(Arguments):
    """The patch."""

    patch: Annotated[
        str,
        Field(
            min_length=1,
            description="A unified diff (`---`, `+++`, `@@`) of one or several text files.",
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Change:
    """What one file holds before and after; None is no file."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def hashes(self) -> tuple[str | None, str | None]:
        before, after = (
            None if data is None else content_hash(data) for data in (self.before, self.after)
        )
        return before, after

    @property
    def action(self) -> str:
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "changed"


def _changes(workspace: Workspace, patch: str) -> list[_Change]:
    patches = parse_patch(patch)
    if len(patches) > MAX_FILES:
        raise ToolFailed("too_large", f"A patch changes at most {MAX_FILES} files")
    changes = [_change(workspace, file) for file in patches]
    if len({change.path for change in changes}) != len(changes):
        raise ToolFailed("invalid_arguments", "The patch names a file twice")
    return changes


def _change(workspace: Workspace, file: FilePatch) -> _Change:
    path = workspace.normal(file.path)
    if workspace.real_file(file.path) != path:
        raise ToolFailed("symlink_escape", f"{path!r} goes through a link: name the real path")
    workspace.check_writable(path)
    current = workspace.hash(path)
    if file.creates:
        if current is not None:
            raise ToolFailed("file_exists", f"{path!r} exists already")
        return _Change(path, None, encoded(apply_hunks(path, "", file.hunks)))
    if current is None:
        raise ToolFailed("file_not_found", f"{path!r} does not exist")
    before = workspace.read(path, follow=False)
    after = apply_hunks(path, decoded(path, before), file.hunks)
    if not file.deletes:
        return _checked(_Change(path, before, encoded(after)))
    if after:
        raise ToolFailed("not_found_in_file", f"{path!r} holds more than the patch deletes")
    return _Change(path, before, None)


def _checked(change: _Change) -> _Change:
    if change.before == change.after:
        raise ToolFailed("no_change", f"The patch leaves {change.path!r} as it is")
    return change


def _prepare(workspace: Workspace, arguments: ApplyPatch) -> Prepared:
    changes = _changes(workspace, arguments.patch)
    hashes = {change.path: change.hashes for change in changes}
    return Prepared(
        arguments=arguments.final(),
        access=Access(
            writes=tuple(change.path for change in changes if change.after is not None),
            deletes=tuple(change.path for change in changes if change.after is None),
        ),
        base_hashes={path: before for path, (before, _) in hashes.items()},
        effects=tuple(
            FileEffect(path=path, before=before, after=after)
            for path, (before, after) in hashes.items()
        ),
        preview="".join(difference(change.path, change.before, change.after) for change in changes),
    )


def _run(bench: Bench, arguments: ApplyPatch) -> JsonObject:
    with bench.approved():
        _check_bases(bench, arguments)
        changes = _changes(bench.workspace, arguments.patch)
        done: list[_Change] = []
        try:
            for change in changes:
                base = bench.base_hashes.get(change.path, change.hashes[0])
                _put(bench.workspace, change.path, change.after, base)
                done.append(change)
        except ToolFailed:
            _take_back(bench.workspace, done)
            raise
    return {
        "files": [
            {"path": change.path, "action": change.action, "hash": change.hashes[1]}
            for change in changes
        ]
    }


def _check_bases(bench: Bench, arguments: ApplyPatch) -> None:
    for file in parse_patch(arguments.patch):
        path = bench.workspace.normal(file.path)
        base = bench.base(path)
        if base not in ("any", bench.workspace.hash(path)):
            raise ToolFailed(
                "changed_since_approval", f"{path!r} has changed since it was approved"
            )


def _put(workspace: Workspace, path: str, data: bytes | None, base: str | None) -> None:
    if data is None:
        workspace.delete(path, base=base)
    else:
        workspace.write(path, data, base=base)


def _take_back(workspace: Workspace, done: list[_Change]) -> None:
    for change in reversed(done):
        # What somebody changed in between stays as it is.
        with suppress(ToolFailed):
            _put(workspace, change.path, change.before, change.hashes[1])


PATCHING_TOOLS = (
    Tool(
        name="apply_patch",
        description=(
            "Apply a unified diff to one or several files; /dev/null creates or deletes one."
            " Every hunk must fit exactly, else nothing is changed."
        ),
        arguments=ApplyPatch,
        tool_class=ToolClass.IDEMPOTENT,
        prepare=_prepare,
        run=in_thread(_run),
    ),
)
