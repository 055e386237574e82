"""What a measured process does: `python -m bench._child ROLE HOME [WORD]`.

Moments are told as seconds of the machine's monotonic clock, which all processes share.
"""

import gc
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from bench._world import asking, world
from gonogo.domain.tool_calls import ModelRequest
from gonogo.llm import ScriptedModel

_IDLE = 3.0


async def approve(home: Path, approval_id: str) -> None:
    """Answer a question as soon as the runtime is open."""
    async with world(home, asking(1)) as made:
        await made.approve(approval_id)
        _tell(time.monotonic())


async def work(home: Path, word: str) -> None:
    """Go on with what is there, or begin; tell when the model is asked, and wait for the end."""
    async with world(home, ScriptedModel({"main/coder": [_asked, _asked]})) as made:
        if word == "begin":
            await made.say("take long")
        await anyio.sleep_forever()


def _asked(request: ModelRequest) -> Mapping[str, Any]:
    _tell(time.monotonic())
    return {"text": "late", "delay": 3600}


async def idle(home: Path, word: str) -> None:
    """Tell the memory of this process, and the part of a core that it takes while idle."""
    async with world(home, asking(1)):
        await anyio.sleep(0.5)
        gc.collect()
        before = time.process_time()
        await anyio.sleep(_IDLE)
        _tell(_resident(), (time.process_time() - before) / _IDLE)


def _resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def _tell(*numbers: float) -> None:
    print(*numbers, flush=True)


if __name__ == "__main__":
    gc.set_threshold(20_000, 20, 10)  # As the command does.
    ROLES = {"approve": approve, "work": work, "idle": idle}
    anyio.run(ROLES[sys.argv[1]], Path(sys.argv[2]), sys.argv[3])
