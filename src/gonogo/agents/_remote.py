"""What a call touches when the files are the client's: read off its arguments alone.

There is no disk to look at, and the client's system is not known. So whatever one of them could
read as a way out is refused, and a patch is read as strictly as our own tool reads it.
"""

from collections.abc import Mapping
from typing import Any

from gonogo.domain.network import read_network
from gonogo.domain.tool_calls import Access
from gonogo.tools import parse_patch
from gonogo.workspace import compile_glob, elsewhere

_READS = frozenset({"read_file", "list_files", "search_in_code"})
_WRITES = frozenset({"write_file", "edit_file", "create_directory"})


def remote_access(tool: str, arguments: Mapping[str, Any]) -> Access:
    """The access of a call that a client will carry out.

    Raises:
        ToolFailed: a path leaves the workspace by its words, or a patch cannot be read.
    """
    path = elsewhere(str(arguments.get("path", ".")))
    if tool in _READS:
        if arguments.get("glob") is not None:
            compile_glob(str(arguments["glob"]))
        return Access(reads=(path,))
    if tool in _WRITES:
        return Access(writes=(path,))
    if tool == "delete_file":
        return Access(deletes=(path,))
    if tool == "move_file":
        source, target = str(arguments["source"]), str(arguments["destination"])
        return Access(deletes=(elsewhere(source),), writes=(elsewhere(target),))
    if tool == "apply_patch":
        return _patched(str(arguments["patch"]))
    if tool == "execute_command":
        cwd = arguments.get("cwd")
        hosts = read_network(arguments.get("network") or False)
        return Access(
            command=str(arguments["command"]),
            cwd=None if cwd is None else elsewhere(str(cwd)),
            network=hosts if isinstance(hosts, tuple) else (),
        )
    return Access()


def _patched(patch: str) -> Access:
    files = [(elsewhere(file.path), file.deletes) for file in parse_patch(patch)]
    return Access(
        writes=tuple(sorted({path for path, deletes in files if not deletes})),
        deletes=tuple(sorted({path for path, deletes in files if deletes})),
    )
