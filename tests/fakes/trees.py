"""What tests read of a snapshot that the product never asks for."""

from gonogo.workspace import FileState, Snapshots, Tree
from gonogo.workspace.snapshots.git import EMPTY_TREE, outlet
from gonogo.workspace.snapshots.objects import _state


def paths_in(snapshots: Snapshots, tree: Tree) -> tuple[str, ...]:
    """The files of a snapshot, in order."""
    return tuple(sorted(snapshots.trees.entries(tree)))


def state_in(snapshots: Snapshots, tree: Tree, path: str) -> FileState | None:
    """One file of a snapshot; None when it has none there."""
    entry = snapshots.trees.entries(tree).get(path)
    with outlet(snapshots._git) as contents:
        return _state(contents, entry)


def files_id(snapshots: Snapshots, tree: Tree) -> str:
    """An id of the files alone, as git makes it: equal when two snapshots hold equal files.

    The snapshot's own id also covers what was ignored, empty folders, and rare modes.
    """
    said = snapshots._git.run("ls-tree", "-z", tree, "--", "files")
    return said.split(b"\t")[0].split(b" ")[2].decode() if said else EMPTY_TREE
