"""`scripts/bench-agents`: have a model do the tasks, and print what came of them."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from bench.agents.attempt import POLICIES, Attempt, attempt
from bench.agents.tasks import Task, load_tasks


def main() -> int:
    """Run the tasks; 0 when each was done."""
    tasks = load_tasks()
    parser = argparse.ArgumentParser(prog="scripts/bench-agents", description=__doc__)
    parser.add_argument(
        "--model", help="as gonogo run takes it; `scripted` and `liar` need no provider"
    )
    parser.add_argument("--task", action="append", choices=tasks, help="only this one; repeatable")
    parser.add_argument(
        "--approve", choices=POLICIES, default=POLICIES[0],
        help="what is approved; everything else that is asked is rejected (default: all)",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=15, help="for each task")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    chosen = [tasks[name] for name in given.task or tasks]
    made = [
        one
        for task in chosen
        if (one := _attempted(task, given.model, given.approve, given.minutes)) is not None
    ]
    left_out = [task.name for task in chosen if not task.is_possible]
    print(_as_json(made, left_out, given) if given.json else _as_table(made, left_out))
    return 0 if made and all(each.success for each in made) else 1


def _attempted(task: Task, model: str | None, policy: str, minutes: float) -> Attempt | None:
    if not task.is_possible:
        return None
    folder = Path(tempfile.mkdtemp(prefix="gonogo-bench-"))
    try:
        print(f"{task.name} …", file=sys.stderr)
        work = attempt(task, folder, model=model, policy=policy, minutes=minutes)
        return anyio.run(lambda: work)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_json(made: Sequence[Attempt], left_out: Sequence[str], given: argparse.Namespace) -> str:
    told = {
        "model": given.model,
        "approve": given.approve,
        "left_out": list(left_out),
        "tasks": [{**asdict(each), "false_done": each.false_done} for each in made],
    }
    return json.dumps(told, indent=1, ensure_ascii=False)


def _as_table(made: Sequence[Attempt], left_out: Sequence[str]) -> str:
    classes = sorted({name for each in made for name in each.tokens})
    heads = ["task", "kind", "done", "ended", "false done", "requests", *classes, "cost", "asked"]
    rows = [heads, ["---"] * len(heads), *(_row(each, classes) for each in made)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.append("")
    lines.append(
        f"{sum(each.success for each in made)} of {len(made)} done, "
        f"{sum(each.false_done for each in made)} said so falsely, "
        f"{sum(each.requests for each in made)} requests, "
        f"${sum(each.cost for each in made):.4f}"
    )
    if left_out:
        lines.append(f"Left out, for their program is not installed: {', '.join(left_out)}")
    return "\n".join(lines)


def _row(each: Attempt, classes: Sequence[str]) -> list[str]:
    asked = ", ".join(f"{count} {kind}" for kind, count in each.questions.items()) or "-"
    return [
        each.task, each.kind, "yes" if each.success else "no", each.ended,
        "yes" if each.false_done else "-", str(each.requests),
        *(str(each.tokens.get(name, 0)) for name in classes), f"${each.cost:.4f}", asked,
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
