"""Confined file access and boxed commands: agents act on a machine only through this room.

No path leaves the workspace, however it is written, even if others swap folders for links
meanwhile. A file is replaced in one step, and only if it still has the content that the change was
based on. A command runs in a box if the machine has one; no process of it is left when it is over.
"""

from gonogo.workspace.files.safe_open import Base, elsewhere
from gonogo.workspace.files.search import (
    FolderEntry,
    Listing,
    Match,
    Query,
    SearchResult,
    compile_glob,
    matching_lines,
)
from gonogo.workspace.files.workspace import READ_LIMIT, InstructionReader, Stat, Traffic, Workspace
from gonogo.workspace.sandbox.bubblewrap import Sandbox, nothing, own_code
from gonogo.workspace.sandbox.command import OUTPUT_CAP, Ceilings, CommandOutput, run_command
from gonogo.workspace.sandbox.guards import (
    Guarded,
    GuardedName,
    Guards,
    is_harmless,
    take_away,
    topmost,
)
from gonogo.workspace.sandbox.network import Network, Reached
from gonogo.workspace.sandbox.process import DEFAULT_PATH, Programs, bound_process, find_program
from gonogo.workspace.snapshots.restore import Left, Restore, RestoreItem
from gonogo.workspace.snapshots.snapshot import Snapshots
from gonogo.workspace.snapshots.states import (
    Change,
    FileState,
    Folders,
    Hunks,
    LineCount,
    SnapshotLimits,
    Tree,
)

__all__ = [
    "DEFAULT_PATH",
    "OUTPUT_CAP",
    "READ_LIMIT",
    "Base",
    "Ceilings",
    "Change",
    "CommandOutput",
    "FileState",
    "FolderEntry",
    "Folders",
    "Guarded",
    "GuardedName",
    "Guards",
    "Hunks",
    "InstructionReader",
    "Left",
    "LineCount",
    "Listing",
    "Match",
    "Network",
    "Programs",
    "Query",
    "Reached",
    "Restore",
    "RestoreItem",
    "Sandbox",
    "SearchResult",
    "SnapshotLimits",
    "Snapshots",
    "Stat",
    "Traffic",
    "Tree",
    "Workspace",
    "bound_process",
    "compile_glob",
    "elsewhere",
    "find_program",
    "is_harmless",
    "matching_lines",
    "nothing",
    "own_code",
    "run_command",
    "take_away",
    "topmost",
]
