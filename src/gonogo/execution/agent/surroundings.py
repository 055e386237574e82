"""What a command finds in its workspace, looked up before it is judged.

The programs that its words stand for, and the names that it must not change. A program is looked up
once: what was found is what is judged, shown and run.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from gonogo.domain.tool_calls import Access
from gonogo.policy import programs_of
from gonogo.workspace import Guarded, Guards, Programs

_MOST_SHOWN = 20
"""Folders that a question names one by one."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """Those of one command."""

    guarded: Guarded
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The full paths of the programs that it names, as far as there are such."""
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those among them that are the workspace's own, by their paths in it."""

    def seen_in(self, access: Access, *, boxed: bool) -> Access:
        """What a call touches, with what a person has to see of the surroundings.

        Args:
            boxed: It would run in a box, which has to guard what is not to be changed.
        """
        missed = sorted(self.guarded.missed) if boxed else []
        more = [f"… {len(missed) - _MOST_SHOWN} more"] if len(missed) > _MOST_SHOWN else []
        shown = (*missed[:_MOST_SHOWN], *more)
        own = tuple(dict.fromkeys(self.own.values()))
        return access.model_copy(update={"own_programs": own, "unlooked": shown})

    def preview(self, text: str) -> str:
        """The command as a person is shown it: programs of the workspace are named."""
        own = ", ".join(dict.fromkeys(self.own.values()))
        return f"# programs of the workspace itself: {own}\n{text}" if own else text


def look_around(command: str, workspace: Path, programs: Programs, guards: Guards) -> Surroundings:
    """Find out what a command would meet. Reads the disk.

    Raises:
        ToolFailed: `io_error`, where the workspace cannot be read.
    """
    found: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, only_reads in programs_of(command).items():
        machine = programs.of_machine(name, workspace)
        ours = programs.of_workspace(name, workspace)
        # What only reads is known as such by the manual of the machine's program.
        if ours is not None and not (only_reads and machine is not None):
            own[name] = _within(ours, workspace)
        if (path := ours if name in own else machine) is not None:
            found[name] = path
    return Surroundings(guarded=guards.look(workspace), programs=found, own=own)


def _within(path: str, workspace: Path) -> str:
    """A path as the workspace has it, also where a link from elsewhere leads into that."""
    place = path if path.startswith(f"{workspace}/") else os.path.realpath(path)
    return os.path.relpath(place, workspace)
