"""Run the peers and gonogo in turn on the same works, on the same disk, in the same run.

Each peer has a script here and the versions that it is measured in. Its environment is made once,
in the folder that `GONOGO_PEERS` names (by default in the user's cache): nothing of a peer comes
into gonogo's own.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench._decisions import decision_ms
from bench._plans import layered_per_second, makespan_ratio, sequence_ms
from bench._processes import import_s, killed_s, restart_s
from bench._report import say
from bench._rig import median
from bench._waking import woken_per_second

LIMIT = 600.0
HERE = Path(__file__).parent
MISSING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of those that gonogo is compared with."""

    name: str
    script: str
    packages: tuple[str, ...]
    module: str
    """What a program of theirs imports."""
    works: frozenset[str]
    program: tuple[str, str] | None = None
    """An npm package that is nothing but a program for this machine, and where that lies in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWork:
    """One work, as gonogo does it."""

    key: str
    name: str
    unit: str
    least: bool
    """Whether a smaller figure is the better one."""
    ours: Callable[[], float]


ALL = frozenset({"sequence", "layered", "makespan", "decision", "woken", "restart", "import"})
PEERS = (
    Peer(
        name="LangGraph", script="run_langgraph.py", module="langgraph.graph", works=ALL,
        packages=("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"),
    ),
    Peer(
        name="DBOS", script="run_dbos.py", module="dbos", works=ALL, packages=("dbos==3.4.0",)
    ),
    Peer(
        name="OpenAI Agents", script="run_agents.py", module="agents",
        works=frozenset({"sequence", "decision", "woken", "import"}),
        packages=("openai-agents==0.24.0",),
    ),
    Peer(
        name="Restate", script="run_restate.py", module="restate", works=ALL,
        packages=("restate-sdk==1.2.0", "hypercorn==0.18.0", "httpx==0.28.1"),
        program=("@restatedev/restate-server-linux-x64@1.7.12", "bin/restate-server"),
    ),
)  # fmt: skip


def works() -> tuple[PeerWork, ...]:
    """All works, in the order of the table."""
    return (
        PeerWork(
            key="sequence", name="a durable step in sequence", unit="ms", least=True,
            ours=lambda: anyio.run(sequence_ms, 3),
        ),
        PeerWork(
            key="layered", name="1,000 no-op steps in 20 layers", unit="/s", least=False,
            ours=lambda: anyio.run(layered_per_second, 3, 20, 50),
        ),
        PeerWork(
            key="makespan", name="100 × 50 ms in layers ÷ critical path", unit="×", least=True,
            ours=lambda: anyio.run(makespan_ratio, 3),
        ),
        PeerWork(
            key="decision", name="decision → the approved step runs, p50", unit="ms", least=True,
            ours=lambda: median(anyio.run(decision_ms, 1, 20)),
        ),
        PeerWork(
            key="woken", name="parked flows woken", unit="/s", least=False,
            ours=lambda: anyio.run(woken_per_second, 200),
        ),
        PeerWork(
            key="restart", name="kill -9 → restart → the step runs again", unit="s", least=True,
            ours=lambda: restart_s(3),
        ),
        PeerWork(
            key="import", name="import", unit="s", least=True,
            ours=lambda: import_s(3, "gonogo.runtime"),
        ),
    )  # fmt: skip


def environment(peer: Peer) -> Path:
    """The Python that has a peer; it is installed the first time.

    Raises:
        CalledProcessError: pip or npm cannot install it; what it says stands above.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(os.environ.get("GONOGO_PEERS") or Path(cache) / "gonogo" / "peers")
    folder = root / "-".join(each.replace("==", "-") for each in peer.packages)
    python = folder / "bin" / "python"
    if (folder / "whole").exists():
        return python
    say(f"installs {peer.name} into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=LIMIT)
    command = [python, "-m", "pip", "install", "--quiet", *peer.packages]
    subprocess.run(command, check=True, timeout=LIMIT)
    if peer.program is not None:
        _fetch(*peer.program, folder)
    (folder / "whole").touch()
    return python


def _fetch(package: str, program: str, folder: Path) -> None:
    """Put a program of an npm package beside the environment's Python."""
    npm = ["npm", "pack", "--silent", "--pack-destination", folder, package]
    subprocess.run(npm, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    [packed] = folder.glob("*.tgz")
    unpack = ["tar", "-xzf", packed, "-C", folder, f"package/{program}"]
    subprocess.run(unpack, check=True, timeout=LIMIT)
    (folder / "package" / program).rename(folder / "bin" / Path(program).name)
    packed.unlink()


def measured(peer: Peer, python: Path, key: str) -> float | None:
    """What a peer takes for a work; None where it has no such thing.

    Raises:
        CalledProcessError, TimeoutExpired: its script failed; what it says stands above.
    """
    if key not in peer.works:
        return None
    if key == "import":
        return import_s(3, peer.module, python=str(python))
    with TemporaryDirectory() as folder:
        command = [str(python), str(HERE / peer.script), folder, key]
        if key == "restart":
            killed_s(command)
            return median([killed_s(command) for _ in range(3)])
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    return float(done.stdout.split()[-1])


def table() -> Iterator[str]:
    """The rows of the table, as Markdown, each as soon as it is measured."""
    pythons = {peer.name: environment(peer) for peer in PEERS}
    names = " | ".join(peer.name for peer in PEERS)
    yield f"| work | gonogo | {names} | gonogo ÷ the best peer |"
    yield "|---" * (len(PEERS) + 3) + "|"
    for work in works():
        say(work.name)
        # In turn, so that what else the machine does falls on all of them.
        ours = work.ours()
        theirs = {peer.name: measured(peer, pythons[peer.name], work.key) for peer in PEERS}
        yield _row(work, ours, theirs)


def _row(work: PeerWork, ours: float, theirs: Mapping[str, float | None]) -> str:
    known = [value for value in theirs.values() if value is not None]
    best = min(known) if work.least else max(known)
    cells = [MISSING if value is None else f"{value:,.3g}" for value in theirs.values()]
    said = " | ".join([f"{ours:,.3g}", *cells])
    better = "less" if work.least else "more"
    return f"| {work.name}, {work.unit} ({better} is better) | {said} | {ours / best:.2f} |"
