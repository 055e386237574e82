"""Means: what tools run with. The workspace, the box, and how much of the machine and the network.

What an operator lets all tools have, and what one call has of it: a command that nobody saw as it
was written sees no secrets, and reaches only what was approved.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.network import read_network
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.gate import Gate, Gated, Surroundings
from gonogo.policy import Rules, covers
from gonogo.tools import Bench, Diagnostics
from gonogo.workspace import Ceilings, Network, Workspace


class Means(Struct, frozen=True, kw_only=True):
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
    result_tokens: int = 8_000
    """What a model is given of one result."""
    diagnostics: Diagnostics | None = None
    """The operator's command that looks at what was written."""
    is_taped: Callable[[str | None], bool] = lambda _model: False
    """Whether what a session's model is asked is recorded, or was."""
    is_ours: Callable[[], bool] | None = None
    """Whether no other process can have the work of this one; None: none ever can."""

    def bench(self, gate: Gate, thread: Thread, gated: Gated, *, asked: bool) -> Bench:
        """Where one call runs.

        Args:
            asked: A person saw the call as it was written; else a command runs as it was parsed,
                and sees no secrets of the workspace.
        """
        as_git = gated.verdict.git_as
        read_only = gate.writes_nothing(thread, gated.verdict, asked=asked)
        return Bench(
            workspace=Workspace(thread.workspace),
            sandbox=gate.sandbox,
            base_hashes=gated.base_hashes,
            run_as=as_git or (None if asked else gated.verdict.run_as),
            writes_git=as_git is not None,
            hidden=(gate.home, *self.hidden),
            network=self._network(gated, asked=asked),
            read_only=read_only,
            on_copy=read_only and thread.words is not None,
            # Of the commands that nobody saw, only git gets at secrets: it shows nothing of them.
            shown=None if asked or as_git else _shown(gate.rules),
            may_change=everything if asked else partial(covers, gated.verdict.expects),
            ceilings=self.ceilings,
            command_timeout=self.command_timeout,
            output_cap=self.command_output,
            result_tokens=self.result_tokens,
            steady=self.is_taped(thread.model),
            search_path=partial(gate.programs.elsewhere, thread.workspace),
            is_ours=self.is_ours,
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
    """Whether commands that nobody saw get at a secret: only if a rule lets the file be read."""
    named = [rule for rule in rules.of("allow") if rule.unconcerned("read_file", "") is None]
    return lambda path: any(rule.names_path(path) for rule in named)
