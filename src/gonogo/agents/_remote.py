"""What a call touches when the files are the client's: read off its arguments alone."""

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from gonogo.domain.errors import ToolFailed
from gonogo.domain.gate import Access
from gonogo.domain.network import read_network

_READS = frozenset({"read_file", "list_files", "search_in_code"})
_WRITES = frozenset({"write_file", "edit_file", "create_directory"})
_PATCHED = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)


def remote_access(tool: str, arguments: Mapping[str, Any]) -> Access:
    """The access of a call that a client will carry out.

    Raises:
        ToolFailed: `path_outside_workspace` for a path that leaves the workspace by its words.
    """
    path = _inside(str(arguments.get("path", ".")))
    if tool in _READS:
        return Access(reads=(path,))
    if tool in _WRITES:
        return Access(writes=(path,))
    if tool == "delete_file":
        return Access(deletes=(path,))
    if tool == "move_file":
        source, target = str(arguments["source"]), str(arguments["destination"])
        return Access(deletes=(_inside(source),), writes=(_inside(target),))
    if tool == "apply_patch":
        named = _PATCHED.findall(str(arguments["patch"]))
        return Access(writes=tuple(sorted({_inside(p) for p in named if p != "/dev/null"})))
    if tool == "execute_command":
        hosts = read_network(arguments.get("network") or False)
        return Access(
            command=str(arguments["command"]), cwd=arguments.get("cwd"),
            network=hosts if isinstance(hosts, tuple) else (),
        )  # fmt: skip
    return Access()


def _inside(path: str) -> str:
    normal = posixpath.normpath(path)
    if normal.startswith(("/", "../")) or normal == "..":
        raise ToolFailed("path_outside_workspace", f"{path!r} is not inside the workspace")
    return normal
