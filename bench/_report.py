"""What was measured, beside what design and peers say of it."""

import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "RESULTS.md"
_PARTS = (
    "PostgreSQL", "Growth", "Where the time of a step goes, and the floor",
    "What start and a real subtask are made of, and the floor",
)  # fmt: skip
"""What comes after the main table of RESULTS.md, in this order; each is measured by itself.

The last two are written by hand.
"""
_LIBRARIES = ("anyio", "pydantic", "sqlalchemy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    work: str
    unit: str
    value: float
    target: str | None = None
    """As the design words it, with its sign."""
    peers: str = ""
    commits: float | None = None
    """The time of one piece of this work, in commits of the yardstick."""

    @property
    def is_met(self) -> bool | None:
        """Whether the value keeps the target, if there is one."""
        if self.target is None:
            return None
        sign, limit = self.target.split()
        return self.value <= float(limit) if sign == "≤" else self.value >= float(limit)


def as_json(figures: Sequence[Figure], yardstick: float) -> dict[str, Any]:
    """Everything, for a program."""
    return {
        "yardstick_ms": yardstick,
        "figures": [{**asdict(figure), "met": figure.is_met} for figure in figures],
        "with": _versions(),
    }


def as_table(figures: Sequence[Figure], yardstick: float) -> str:
    """Everything, for a person, as Markdown."""
    rows = [
        "| work | measured | target | met | commits of the yardstick | best peers |",
        "|---|---|---|---|---|---|",
        f"| one INSERT and COMMIT, bare SQLite | {yardstick:.2f} ms | - | - | 1 | - |",
        *(_row(figure) for figure in figures),
    ]
    return "\n".join(rows)


def write(figures: Sequence[Figure], yardstick: float, command: str, now: datetime) -> None:
    """Write RESULTS.md."""
    text = f"""# What gonogo costs

{_made(command, now)}.

Medians. The yardstick is one `INSERT` and `COMMIT` of the bare driver (WAL, `synchronous=FULL`) on
the same disk in the same run: a disk or a machine that is busy moves both, so compare the column of
commits before the column of times. Targets are those of the design for a quiet machine whose
yardstick is 0.09 ms; what peers take was measured there too.

{as_table(figures, yardstick)}

What is measured: the real engine, dispatcher and store on SQLite, every subtask one transaction
with its events; no-op subtasks are a plain function in the place of an agent. Decisions go through
the whole runtime with a scripted model, and end when the approved tool runs. The console is
measured by `scripts/bench-console`, into CONSOLE.md; peers are in PEERS.md, by
`scripts/bench --peers`. One process on PostgreSQL stands below, several are in MACHINES.md.
"""
    _keep({"": text})


def write_postgres(rows: Sequence[str], command: str, load: float, now: datetime) -> None:
    """Write the part of RESULTS.md that has PostgreSQL beside SQLite."""
    table = "\n".join(rows)
    text = f"""
{_made(command, now)}; about {load:.0f} processes wanted to run meanwhile.

Each work was done on both in turn, on the same disk, both with `fsync`. The yardstick of each is
one `INSERT` and `COMMIT` of its bare driver: SQLite within the process (WAL, `synchronous=FULL`),
PostgreSQL by its Unix socket with prepared statements, as `pgbench` does it.

{table}
"""
    _keep({"PostgreSQL": text})


def write_growth(rows: Sequence[str], command: str, load: float, now: datetime) -> None:
    """Write the part of RESULTS.md that says how costs grow."""
    table = "\n".join(rows)
    text = f"""
{_made(command, now)}; about {load:.0f} processes wanted to run meanwhile.

Milliseconds of processor time of the whole process (user and system, the database's included). Each
point is the least of its runs. The last column is the last point ÷ the first: a cost that does not
grow has 1.

| what | at: ms | ratio |
|---|---|---|
{table}
"""
    _keep({"Growth": text})


def _keep(new: dict[str, str]) -> None:
    """Write RESULTS.md with new parts in the place of the old ones of the same heading."""
    first, *others = _FILE.read_text(encoding="utf-8").split("\n## ")
    parts = {"": first} | {
        heading: body for heading, _, body in (o.partition("\n") for o in others)
    }
    parts |= new
    rest = (f"\n## {each}\n{parts[each]}" for each in _PARTS if each in parts)
    _FILE.write_text(parts[""] + "".join(rest), encoding="utf-8")


def write_peers(
    rows: Sequence[str], packages: Sequence[str], yardstick: float, now: datetime
) -> None:
    """Write PEERS.md."""
    table = "\n".join(rows)
    text = f"""# gonogo beside its peers

{_made("scripts/bench --peers", now)};
{", ".join(packages)}.

Each work was done by all in turn, on the same disk. One `INSERT` and `COMMIT` of bare SQLite (WAL,
`synchronous=FULL`) took {yardstick:.2f} ms. Models and tools are stubs; the scripts are in
`bench/peers`. gonogo also writes events, audit entries and checkpoints in the same transaction.

{table}
"""
    (_FILE.parent / "PEERS.md").write_text(text, encoding="utf-8")


def write_console(
    figures: Sequence[Figure], load: float, now: datetime, *, keep: bool = True
) -> str:
    """Write CONSOLE.md, if it is to be kept; gives its table."""
    rows = ["| what | measured | target | met |", "|---|---|---|---|"]
    for figure in figures:
        work, value, target, met = _row(figure).split(" | ")[:4]
        rows.append(f"{work} | {value} | {target} | {met} |")
    table = "\n".join(rows)
    text = f"""# The console in a browser

{_made("scripts/bench-console", now)}.

Medians of five; about {load:.0f} processes wanted to run meanwhile. First load has an empty
cache; what is measured stands in `bench/console.py`.

{table}
"""
    if keep:
        (_FILE.parent / "CONSOLE.md").write_text(text, encoding="utf-8")
    return table


def _made(command: str, now: datetime) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in _versions().items())
    return f"Made by `{command}` on {now:%d %B %Y}, on a shared machine with two cores; {versions}"


def _row(figure: Figure) -> str:
    met = {True: "yes", False: "no", None: "-"}[figure.is_met]
    commits = "-" if figure.commits is None else f"{figure.commits:.1f}"
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.3g}"
    return (
        f"| {figure.work} | {value} {figure.unit} | {figure.target or '-'} | {met} | {commits} "
        f"| {figure.peers or '-'} |"
    )


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    return found | {name: version(name) for name in _LIBRARIES}


def say(text: str) -> None:
    """Tell how far it is, beside what is printed."""
    sys.stderr.write(text + "\n")
