"""What a real subtask takes: a model over HTTP, two requests, one file that is written.

`python -m bench._subtask [N]` prints one run of N subtasks in a row: milliseconds of processor time
for each, of this process and its threads, and of the programs that it starts; and what was read and
written. A version is compared with another one by runs in turn.
"""

import json
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from pydantic import SecretStr
from scripts.talk import calls, plan_of, say

from fakes.openai_server import fake_openai
from gonogo.runtime import Runtime
from gonogo.settings import Settings

SUBTASKS = 20


def _script(keys: list[str]) -> dict[str, Any]:
    """What the model says: to each subtask by its description, and to the planners."""
    subtasks = [
        {
            "id": key, "description": f"Write {key}.txt", "agent": "coder",
            "dependencies": keys[max(0, place - 1) : place],
            "scope": {"paths": [f"{key}.txt"]},
        }
        for place, key in enumerate(keys)
    ]  # fmt: skip
    planners = plan_of(*subtasks)
    # A brief names what came before it, and never what comes after.
    rules = [
        {
            "when": {"user": f"Write {key}.txt"},
            "replies": [
                calls("write_file", path=f"{key}.txt", content=f"{key}\n"), {"text": "Made."}
            ],
        }
        for key in reversed(keys)
    ]  # fmt: skip
    plan = [planners["main/orchestrator"][0], planners["main/architect"][0]]
    return {"rules": [*rules, {"when": {"user": "Build it"}, "replies": plan}]}


def _threads() -> Counter[str]:
    """Milliseconds of processor time of each kind of thread."""
    found = Counter[str]()
    for thread in threading.enumerate():
        if thread.ident is not None:
            clock = time.pthread_getcpuclockid(thread.ident)
            kind = thread.name.rstrip("0123456789").rstrip("_- ")
            found[kind] += round(time.clock_gettime_ns(clock) / 1000)
    return found


@contextmanager
def _counted(store: Any, found: Counter[str]) -> Iterator[None]:
    kept = store.read, store.write

    def counting(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
        def run(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
            found[what] += 1
            name = getattr(work, "func", work)
            found[f"{what}: {getattr(name, '__qualname__', name)}"] += 1
            return fn(work, *given, **named)

        return run

    store.read, store.write = counting(store.read, "reads"), counting(store.write, "writes")
    yield
    store.read, store.write = kept


async def subtask_ms(folder: Path, subtasks: int = SUBTASKS) -> dict[str, float]:
    """One run of a plan of so many subtasks; everything for each of them."""
    keys = [f"step{number:02}" for number in range(subtasks)]
    with fake_openai(_script(keys)) as model:
        workspace = folder / "workspace"
        workspace.mkdir()
        settings = Settings(
            home=folder / "home", config=folder / "config", workspace=workspace,
            model="openai:gpt-5", openai_base_url=model.base_url,
            model_api_key=SecretStr("none"),
        )  # fmt: skip
        async with Runtime.open(settings) as runtime:
            events = await say(runtime, None, type="user_message", content="Build it")
            session, plan = events[-1]["session_id"], events[-1]["plan_id"]
            found = Counter[str]()
            with _counted(runtime.parts.store, found):
                before, own, theirs = _threads(), time.process_time(), _children()
                await say(runtime, session, type="plan_decision", plan_id=plan, decision="approve")
                took = (time.process_time() - own) * 1000, _children() - theirs
                threads = _threads() - before
    _check(workspace, keys)
    told = {name: us / 1000 for name, us in threads.items()}
    total = {"this process": took[0], "programs": took[1], **told, **found}
    return {name: round(value / subtasks, 2) for name, value in total.items()}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def _check(workspace: Path, keys: list[str]) -> None:
    made = sorted(path.name for path in workspace.glob("*.txt"))
    if made != [f"{key}.txt" for key in keys]:
        raise RuntimeError(f"the plan did not complete: {made}")


def main() -> int:
    """Run once, and print what it took."""
    subtasks = int(sys.argv[1]) if sys.argv[1:] else SUBTASKS
    with TemporaryDirectory(prefix="subtask-") as folder:
        print(json.dumps(anyio.run(subtask_ms, Path(folder), subtasks), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
