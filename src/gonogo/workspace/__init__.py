"""Confined file access and boxed commands: the only hands that agents have.

No path leaves the workspace, whatever its letters and whoever swaps folders for links meanwhile.
A file is replaced in one step, and only if it still holds what the change was based on. A command
runs in a box where the machine has one, and nothing of it is left when it is over.
"""

from gonogo.workspace._bound import bound_process
from gonogo.workspace._ceilings import Ceilings
from gonogo.workspace._command import OUTPUT_CAP, CommandOutput, run_command
from gonogo.workspace._content import Base
from gonogo.workspace._globs import compile_glob
from gonogo.workspace._listing import Entry, Listing
from gonogo.workspace._names import elsewhere
from gonogo.workspace._plan import Left, Restore, RestoreItem
from gonogo.workspace._programs import DEFAULT_PATH, Programs
from gonogo.workspace._reach import Network, Reached
from gonogo.workspace._sandbox import Sandbox, nothing
from gonogo.workspace._search import Found, Match, Query
from gonogo.workspace._snapshots import Snapshots
from gonogo.workspace._states import Change, FileState, Folders, Limits, LineCount, Tree
from gonogo.workspace._traffic import Traffic
from gonogo.workspace._workspace import READ_LIMIT, Stat, Workspace
from gonogo.workspace.guards import Guarded, GuardedName, Guards, is_harmless, take_away, topmost

__all__ = [
    "DEFAULT_PATH",
    "OUTPUT_CAP",
    "READ_LIMIT",
    "Base",
    "Ceilings",
    "Change",
    "CommandOutput",
    "Entry",
    "FileState",
    "Folders",
    "Found",
    "Guarded",
    "GuardedName",
    "Guards",
    "Left",
    "Limits",
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
    "Snapshots",
    "Stat",
    "Traffic",
    "Tree",
    "Workspace",
    "bound_process",
    "compile_glob",
    "elsewhere",
    "is_harmless",
    "nothing",
    "run_command",
    "take_away",
    "topmost",
]
