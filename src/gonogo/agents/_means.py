"""What tools run with: the workspace, the box, and how much of the machine and the network."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gonogo.agents._gate import Gate, Gated
from gonogo.agents._thread import Thread
from gonogo.agents.surroundings import Surroundings
from gonogo.domain.network import read_network
from gonogo.policy import Rules, covers
from gonogo.tools import Bench
from gonogo.workspace import Ceilings, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an operator lets tools have."""

    command_timeout: float = 120.0
    """Seconds, for a command that names no time limit."""
    command_output: int = 60_000
    """Bytes of a command's output that are kept."""
    hidden: tuple[Path, ...] = ()
    """What commands do not see besides the state folder."""
    ceilings: Ceilings = field(default_factory=Ceilings)
    """How much of the machine one command may take."""
    network: Network = field(default_factory=lambda: Network(hosts=False))
    """How commands reach what they may."""

    def bench(self, gate: Gate, thread: Thread, gated: Gated, *, asked: bool) -> Bench:
        """Where one call runs.

        Args:
            asked: A person saw the call as it was written; else a command runs as it was parsed,
                and sees no secrets of the workspace.
        """
        as_git = gated.verdict.git_as
        return Bench(
            workspace=gate.open_workspace(thread.workspace),
            sandbox=gate.sandbox,
            base_hashes=gated.base_hashes,
            run_as=as_git or (None if asked else gated.verdict.run_as),
            writes_git=as_git is not None,
            hidden=(gate.home, *self.hidden),
            network=self._network(gated, asked=asked),
            read_only=gate.writes_nothing(thread, gated.verdict, asked=asked),
            # To git alone, which shows nothing of them.
            shown=None if asked or as_git else _shown(gate.rules),
            may_change=everything if asked else partial(covers, gated.verdict.expects),
            ceilings=self.ceilings,
            command_timeout=self.command_timeout,
            output_cap=self.command_output,
            search_path=gate.programs.elsewhere(thread.workspace),
            **_around(gated.around, asked=asked),
        )

    def _network(self, gated: Gated, *, asked: bool) -> Network | None:
        """What was approved: with the call itself, or with the plan."""
        hosts = gated.arguments.get("network") if asked else gated.verdict.network
        return replace(self.network, hosts=read_network(hosts)) if hosts else None


def everything(path: str) -> bool:
    """Any path."""
    del path
    return True


def _around(around: Surroundings | None, *, asked: bool) -> dict[str, Any]:
    if around is None:
        return {}
    found = around.guarded
    return {
        "programs": around.programs, "guards": found, "unlooked": found.missed if asked else (),
    }  # fmt: skip


def _shown(rules: Rules) -> Callable[[str], bool]:
    """Whether commands that nobody looks at see a secret: where a rule lets the file be read."""
    named = [rule for rule in rules.of("allow") if rule.unconcerned("read_file", "") is None]
    return lambda path: any(rule.names_path(path) for rule in named)
