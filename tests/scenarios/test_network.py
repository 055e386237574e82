"""Commands reach the network that a person approved, with a plan or with a call, and no other."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fakes.world import calls, of, plan, run, says, step
from gonogo.workspace import Sandbox

pytestmark = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
FETCH = """\
import os, sys, urllib.request as web
for name in ("NO_PROXY", "no_proxy"): os.environ.pop(name, None)
for url in sys.argv[1:]:
    try: print(web.urlopen(url, timeout=60).read().decode())
    except OSError as error: print("no way", error)
"""


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"ARRIVED")

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def host() -> Iterator[str]:
    """A server on this machine, as an operator may list one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def forbidden() -> Iterator[socket.socket]:
    """Another port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def fetching(host: str, network: Any, others: str = "") -> dict:
    command = f"python3 fetch.py http://{host}/ {others}".strip()
    scope = {"commands": [command], "network": network}
    return {
        "main/architect": [plan(step("a", scope=scope))],
        "a": [calls(run(command)), says("done")],
        "main/orchestrator": [says("Yes?")],
    }


async def test_a_command_of_an_approved_scope_reaches_its_hosts_and_the_record_says_so(
    make, host, forbidden
) -> None:
    other = f"localhost:{forbidden.getsockname()[1]}"
    lines = fetching(host, [host], others=f"http://{other}/")
    async with make(lines, network_private_hosts=(host, other)) as here:
        (here.folder / "fetch.py").write_text(FETCH)
        await here.decide_plan(await here.propose())
        events = await here.log()
        (result,) = of(events, "tool_result", tool_name="execute_command")
        (noted,) = await here.audit("tool.network")

    why = "it is not among the hosts that were approved"
    told = {"reached": [host], "refused": [{"host": other, "reason": why}]}
    assert result["result"]["output"].startswith("ARRIVED\nno way")
    assert result["result"]["network"] == told
    assert {name: noted.details[name] for name in told} == told
    assert of(events, "tool_call", tool_name="execute_command")[0]["metadata"]["source"] == "grant"


async def test_a_scope_without_hosts_and_any_public_host_do_not_reach_this_machine(
    make, host
) -> None:
    for network in (False, True):
        async with make(fetching(host, network), network_private_hosts=()) as here:
            (here.folder / "fetch.py").write_text(FETCH)
            await here.decide_plan(await here.propose())
            (result,) = of(await here.log(), "tool_result", tool_name="execute_command")

        assert "no way" in result["result"]["output"]
        assert "ARRIVED" not in str(result)
        assert bool(result["result"].get("network", {}).get("refused")) is network


async def test_a_call_that_names_hosts_asks_shows_them_and_reaches_them_once_approved(
    make, host
) -> None:
    lines = {
        "main/coder": [calls(run(f"python3 fetch.py http://{host}/", network=[host])), says("done")]
    }
    async with make(lines, network_private_hosts=(host,)) as here:
        (here.folder / "fetch.py").write_text(FETCH)
        events = await here.say("Go", "coder")
        (asked,) = await here.pending()
        (call_id,) = [e["call_id"] for e in of(events, "tool_call", requires_approval=True)]
        await here.decide(call_id)
        (result,) = of(await here.log(), "tool_result", tool_name="execute_command")

    assert host in str(asked.model_dump())
    assert result["result"]["output"] == "ARRIVED\n"
    assert result["result"]["network"] == {"reached": [host], "refused": []}


async def test_a_command_that_a_person_approves_without_hosts_has_no_network(make, host) -> None:
    lines = {"main/coder": [calls(run(f"python3 fetch.py http://{host}/")), says("done")]}
    async with make(lines, network_private_hosts=(host,)) as here:
        (here.folder / "fetch.py").write_text(FETCH)
        events = await here.say("Go", "coder")
        (call_id,) = [e["call_id"] for e in of(events, "tool_call", requires_approval=True)]
        await here.decide(call_id)
        (result,) = of(await here.log(), "tool_result", tool_name="execute_command")

    assert result["result"]["output"].startswith("no way")
    assert "network" not in result["result"]
