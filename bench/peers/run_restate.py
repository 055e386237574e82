"""Restate: its server from its package, and a service in this process; every result durable.

Run in an environment of its own, see `beside.py`. `python run_restate.py FOLDER WORK`.
"""

import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import median

import httpx
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

SLEEP = 0.05
RAN: dict[str, float] = {}
WAITS: dict[str, str] = {}
NAMES = ("INGRESS__BIND_ADDRESS", "ADMIN__BIND_ADDRESS", "BIND_ADDRESS", "service")
_PDEATHSIG = 1

flows = restate.Service("flows")


async def _no_op() -> bool:
    return True


async def _sleep() -> bool:
    await asyncio.sleep(SLEEP)
    return True


@flows.handler()
async def steps(ctx: restate.Context, count: int) -> float:
    """Steps one after the other; gives the seconds that they took."""
    began = time.perf_counter()
    for number in range(count):
        await ctx.run_typed(f"step {number}", _no_op)
    return time.perf_counter() - began


@flows.handler()
async def layers(ctx: restate.Context, given: list[int]) -> float:
    """Layers of steps that run at once; gives the seconds that they took."""
    sleeps, depth, width = given
    began = time.perf_counter()
    for layer in range(depth):
        act = _sleep if sleeps else _no_op
        await restate.gather(
            *(ctx.run_typed(f"step {layer} {number}", act) for number in range(width))
        )
    return time.perf_counter() - began


@flows.handler()
async def waits(ctx: restate.Context, given: list[str | int]) -> int:
    """Act once for each answer."""
    name, count = str(given[0]), int(given[1])
    for number in range(count):
        key = f"{name}/{number}"
        answer_id, answer = ctx.awakeable()
        WAITS[key] = answer_id
        await answer

        async def act(key: str = key) -> bool:
            RAN[key] = time.perf_counter()
            return True

        await ctx.run_typed(f"act {number}", act)
    return count


async def _forever() -> bool:
    print(time.monotonic(), flush=True)
    await asyncio.sleep(3_600)
    return True


@flows.handler()
async def breaks_off(ctx: restate.Context, _count: int) -> int:
    """One step that is done, and one that never is."""
    await ctx.run_typed("first", _no_op)
    await ctx.run_typed("forever", _forever)
    return 1


class Peer:
    """The server's ways in: `call` waits for the end, `send` does not, `answer` answers."""

    def __init__(self, ingress: str) -> None:
        self._http = httpx.AsyncClient(base_url=ingress, timeout=600)

    async def call(self, name: str, given: object) -> float:
        """Run a handler to its end."""
        return (await self._post(f"/flows/{name}", given)).json()

    async def send(self, name: str, given: object) -> None:
        """Begin a handler."""
        await self._post(f"/flows/{name}/send", given)

    async def answer(self, key: str) -> None:
        """Give the answer that a flow waits for."""
        await self._post(f"/restate/awakeables/{WAITS[key]}/resolve", True)

    async def _post(self, path: str, given: object) -> httpx.Response:
        answer = await self._http.post(path, json=given)
        answer.raise_for_status()
        return answer


def _ports(folder: Path) -> dict[str, int]:
    """Ports that stay the same when this is started again."""
    kept = folder / "ports.json"
    if not kept.exists():
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
        chosen = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        kept.write_text(json.dumps(dict(zip(NAMES, chosen, strict=True))))
    return json.loads(kept.read_text())


def _dies_with_us() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


async def _until(ready: Callable[[], Awaitable[httpx.Response]]) -> None:
    while True:
        with suppress(httpx.TransportError):
            if (await ready()).is_success:
                return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def launched(folder: Path) -> AsyncIterator[Peer]:
    """The server on a state folder, and the service that it calls."""
    ports, fresh = _ports(folder), not (folder / "state").exists()
    given = {f"RESTATE_{each}": f"127.0.0.1:{ports[each]}" for each in NAMES[:3]}
    given |= {
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_NODE_NAME": "peer",
        "RUST_LOG": "error",
        "DO_NOT_TRACK": "1",
        "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
    }
    program = Path(sys.executable).parent / "restate-server"
    with (folder / "server.log").open("ab") as log, subprocess.Popen(
        [program, "--no-logo", "--base-dir", folder / "state"], stdout=log, stderr=log,
        env=os.environ | given, preexec_fn=_dies_with_us,
    ) as server:  # fmt: skip
        config = Config()
        config.bind = [f"127.0.0.1:{ports['service']}"]
        config.errorlog = config.accesslog = None
        over = asyncio.Event()
        service = asyncio.create_task(
            serve(restate.app([flows]), config, shutdown_trigger=over.wait)
        )
        async with httpx.AsyncClient() as http:
            admin = f"http://127.0.0.1:{ports['ADMIN__BIND_ADDRESS']}"
            if fresh:
                await _until(lambda: http.get(f"{admin}/health"))
                uri = {"uri": f"http://127.0.0.1:{ports['service']}"}
                await _until(lambda: http.post(f"{admin}/deployments", json=uri))
            ingress = f"http://127.0.0.1:{ports['INGRESS__BIND_ADDRESS']}"
            await _until(lambda: http.get(f"{ingress}/restate/health"))
        try:
            yield Peer(ingress)
        finally:
            over.set()
            server.kill()
            await service


async def sequence(peer: Peer) -> float:
    """Milliseconds for each of 200 steps."""
    took = [await peer.call("steps", 200) for _ in range(4)]
    return median(took[1:]) * 1000 / 200


async def layered(peer: Peer) -> float:
    """Steps a second, of 20 layers of 50."""
    await peer.call("layers", [0, 2, 50])
    return 1_000 / median([await peer.call("layers", [0, 20, 50]) for _ in range(3)])


async def makespan(peer: Peer) -> float:
    """Ten layers of ten steps of 50 ms, beside their critical path."""
    await peer.call("layers", [1, 2, 10])
    return median([await peer.call("layers", [1, 10, 10]) for _ in range(3)]) / (10 * SLEEP)


async def _one(peer: Peer, key: str) -> float:
    while key not in WAITS:
        await asyncio.sleep(0.001)
    # It has said that it waits; let that become durable.
    await asyncio.sleep(0.2)
    began = time.perf_counter()
    await peer.answer(key)
    while key not in RAN:
        await asyncio.sleep(0.0002)
    return RAN[key] - began


async def decision(peer: Peer) -> float:
    """Milliseconds from an answer until the step that waited for it runs."""
    await peer.send("waits", ["decision", 20])
    return median([await _one(peer, f"decision/{number}") for number in range(20)]) * 1000


async def woken(peer: Peer) -> float:
    """Parked flows whose next step runs, a second."""
    keys = [f"parked-{number}/0" for number in range(200)]
    for key in keys:
        await peer.send("waits", [key.partition("/")[0], 1])
    while not WAITS.keys() >= set(keys):
        await asyncio.sleep(0.05)
    await asyncio.sleep(2)
    began = time.perf_counter()
    await asyncio.gather(*(peer.answer(key) for key in keys))
    while not RAN.keys() >= set(keys):
        await asyncio.sleep(0.0005)
    return len(keys) / (max(RAN.values()) - began)


async def broken_off(peer: Peer) -> float:
    """Run a step that says when it began and never ends; the caller kills and starts this again."""
    await asyncio.sleep(3_600)
    return 0


WORKS = {
    "sequence": sequence, "layered": layered, "makespan": makespan, "decision": decision,
    "woken": woken, "restart": broken_off,
}  # fmt: skip


async def main(folder: Path, work: str) -> float:
    """Do one work."""
    fresh = not (folder / "state").exists()
    async with launched(folder) as peer:
        if work == "restart" and fresh:
            await peer.send("breaks_off", 1)
        return await WORKS[work](peer)


if __name__ == "__main__":
    print(asyncio.run(main(Path(sys.argv[1]), sys.argv[2])), flush=True)
