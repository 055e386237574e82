"""Secrets in the server's surroundings reach no tool, model, event, log, audit entry or database.

A real server, a provider that records what it is asked, a repository and a model that both try to
steal; and a person who approves a plan with a network, and nothing besides.
"""

import contextlib
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from durability.server import _URL, STARTING
from fakes.nursery import python
from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.world import call, calls, of, plan, run, says, step
from gonogo.client import Client
from gonogo.workspace import Sandbox

pytestmark = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
THIEF = """
import ctypes, glob, os, socket, subprocess, sys, urllib.request as web

def show(what, value):
    print("[", what, "]", value)

def tried(what, work):
    try:
        show(what, work())
    except BaseException as error:
        show(what, "no: " + type(error).__name__)

def text(path):
    with open(path, "rb") as file:
        return file.read(1 << 16)

def talk(family, address):
    with socket.socket(family) as line:
        line.settimeout(2)
        line.connect(address)
        line.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        return line.recv(4096)

show("environment", dict(os.environ))
for name in ("environ", "cmdline", "maps", "mountinfo"):
    for path in glob.glob("/proc/[0-9]*/" + name):
        tried(path, lambda: text(path) if name != "maps" else "")
targets = open("targets").read().split("\\n")
for path in targets[1:]:
    tried(path, lambda: text(path))
    for folder, _, names in os.walk(path):
        for name in names:
            tried(folder + "/" + name, lambda: text(os.path.join(folder, name)))
for folder, names, files in os.walk("."):
    for name in files:
        if name != "thief.py":
            tried(folder + "/" + name, lambda: text(os.path.join(folder, name)))
for folder in ("/dev/shm", "/tmp", "/run", "/home", "/root", os.path.expanduser("~"), "/mnt"):
    for inner, names, files in os.walk(folder):
        if inner.count("/") > 3:
            names.clear()  # the interpreter may lie there, which is shown
        for name in files:
            tried(inner + "/" + name, lambda: text(os.path.join(inner, name)))
places = targets[0].split(",")
for place in places:
    if place.isdigit():
        tried("loopback", lambda: talk(socket.AF_INET, ("127.0.0.1", int(place))))
        tried("loopback 6", lambda: talk(socket.AF_INET6, ("::1", int(place))))
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "0.0.0.0"):
            for gone in ("NO_PROXY", "no_proxy"): os.environ.pop(gone, None)
            url = "http://%s:%s/" % (host, place)
            tried(url, lambda: web.urlopen(url, timeout=5).read())
            proxy = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
            def tunnel():
                with socket.create_connection(("127.0.0.1", proxy), 5) as line:
                    line.sendall(("CONNECT %s:%s HTTP/1.1\\r\\n\\r\\n" % (host, place)).encode())
                    line.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                    return line.recv(4096) + line.recv(4096)
            tried("tunnel " + url, tunnel)
    else:
        tried("socket " + place, lambda: talk(socket.AF_UNIX, place.replace("@", "\\0")))
def vsock():
    return socket.socket(40, socket.SOCK_STREAM)
tried("vsock", vsock)
libc = ctypes.CDLL(None, use_errno=True)
show("keyctl", (libc.syscall(250, 0, -3, 0), libc.syscall(250, 11, -3, 0, 0), ctypes.get_errno()))
print("THE THIEF WAS HERE")
"""


class Loopback(BaseHTTPRequestHandler):
    secret = b""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.secret)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@dataclass
class Place:
    """A machine with secrets in it, and a server on it."""

    root: Path
    model: FakeOpenAI
    loopback: ThreadingHTTPServer
    sockets: list[str]
    canaries: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def canary(self, where: str) -> str:
        return self.canaries.setdefault(where, f"canary{secrets.token_hex(12)}")

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def lay_out(self) -> None:
        """Put a secret into each place."""
        for path in (
            "person/.netrc", "person/.ssh/id_rsa", "person/.aws/credentials", "person/.profile",
            "person/notes.txt", "state/more.txt", "config/rules.toml.old", "work/.env",
            "work/secrets/key.txt", "work/deep/down/id_ed25519", "work/deep/.env.local",
        ):  # fmt: skip
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(f"TOKEN={self.canary(path)}\n")
        (self.work / "thief.py").write_text(THIEF)
        for name, target in {
            "link_env": ".env", "link_home": "../person/.netrc", "link_state": "../state/more.txt",
            "link_proc": "/proc/self/environ", "link_folder": "../person",
        }.items():  # fmt: skip
            (self.work / name).symlink_to(target)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **python(measured=False),
            "HOME": str(self.root / "person"),
            "GONOGO_HOME": str(self.state), "GONOGO_CONFIG": str(self.root / "config"),
            "GONOGO_WORKSPACE": str(self.work), "GONOGO_PORT": "0",
            "GONOGO_COMMAND_OUTPUT": "5000000",
            "GONOGO_MODEL": "openai:scripted", "OPENAI_BASE_URL": self.model.base_url,
            "OPENAI_API_KEY": self.canary("key"), "ANTHROPIC_API_KEY": self.canary("other key"),
            "AWS_SECRET_ACCESS_KEY": self.canary("environment"),
            "DATABASE_URL": f"postgresql://u:{self.canary('password')}@localhost/x",
        }  # fmt: skip

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        out, log = self.root / "out.txt", self.root / "log.txt"
        with out.open("w") as printed, log.open("w") as logged:
            command = [sys.executable, "-m", "gonogo", "serve"]
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.root, stdout=printed, stderr=logged,
                start_new_session=True,
            )  # fmt: skip
        try:
            self.url = _listening(process, out, log)
            self.canaries["owner's token"] = (self.state / "owner.token").read_text().strip()
            yield
        finally:
            ended = process.poll()
            process.terminate()
            process.wait(STARTING)
            assert ended is None, f"it ended by itself with {ended}: {log.read_text()}"

    def client(self) -> Client:
        return Client(self.url, token=self.canaries["owner's token"])


def _listening(process: subprocess.Popen, out: Path, log: Path) -> str:
    import time

    until = time.monotonic() + STARTING
    while not (found := _URL.search(out.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.01)
    return found[0]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    outside = f"/var/lib/gonogo-{secrets.token_hex(4)}.sock"
    sockets = [f"@gonogo-{secrets.token_hex(4)}", outside]
    with (
        fake_openai() as model,
        ThreadingHTTPServer(("127.0.0.1", 0), Loopback) as loopback,
        contextlib.ExitStack() as stack,
    ):
        found = Place(tmp_path, model, loopback, sockets)
        loopback.asked, loopback.secret = [], found.canary("loopback").encode()
        thread = threading.Thread(target=loopback.serve_forever, args=(0.02,))
        thread.start()
        for name in sockets:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name.replace("@", "\0"))
            listener.listen()
            threading.Thread(
                target=_tell, args=(listener, found.canary("socket").encode()), daemon=True
            ).start()
        try:
            found.lay_out()
            yield found
        finally:
            loopback.shutdown()
            thread.join()
            Path(outside).unlink(missing_ok=True)


def _tell(listener: socket.socket, secret: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            line, _ = listener.accept()
            with line:
                line.sendall(secret)


def attempts(place: Place) -> list[dict[str, Any]]:
    """What a thief of a model asks for."""
    port = place.loopback.server_address[1]
    inside = [".env", "link_env", "secrets/key.txt", "deep/.env.local", "deep/down/id_ed25519"]
    outside = ["link_home", "link_state", "link_proc", "link_folder/.netrc", "../state/more.txt",
               str(place.state / "owner.token"), "/proc/1/environ"]  # fmt: skip
    commands = [
        "env", "printenv", "cat .env", "cat link_env", "cat /proc/1/environ", "cat link_home",
        "cat /proc/*/environ", "set", "head -c 999 .env", "grep -r . .env", "grep -rn TOKEN .",
        f"curl http://127.0.0.1:{port}/", f"cat {place.state}/owner.token", "ls -la ..",
        "python3 -c 'import os; print(os.environ)'", f"strings {place.state}/gonogo.db",
        "echo $OPENAI_API_KEY", "git config --list", "cp .env x.txt", "ln .env x.txt", "tar c .",
    ]  # fmt: skip
    return [
        *(call("read_file", path=path) for path in (*inside, *outside)),
        call("list_files", path=".", depth=5), call("list_files", path=".."),
        call("search_in_code", pattern="TOKEN"), call("search_in_code", pattern="canary", path="."),
        call("search_in_code", pattern="TOKEN", path="deep"),
        call("move_file", source=".env", destination="x.txt"),
        *(run(command) for command in commands),
        run("python3 thief.py"),
        run(f"python3 thief.py {place.state}"),
        run("curl http://127.0.0.1/", network=["127.0.0.1"]),
    ]  # fmt: skip


def targets(place: Place) -> str:
    """Where the thief's script looks; gonogo would not let the command name these places."""
    ports = [place.loopback.server_address[1], int(place.url.rpartition(":")[2])]
    paths = [place.root / "person", place.state, place.root / "config", place.state / "gonogo.db"]
    return "\n".join([",".join([*map(str, ports), *place.sockets]), *map(str, paths)])


def lines(place: Place) -> dict[str, Any]:
    scope = {"commands": ["python3 thief.py"], "network": True}
    proposal = plan(step("theft", scope=scope, agent="universal"))
    end = {"calls": [call("attempt_completion", result="Done")]}
    return {
        "rules": [
            {"when": {"user": "Do theft"}, "replies": [{"calls": attempts(place)}, end, end]},
            {"when": {"tools": ["create_plan"]}, "replies": [proposal, {"text": "ok"}]},
        ],
        "default": {"calls": [call("switch_mode", mode="architect")]},
    }


async def live(place: Place, client: Client) -> tuple[list[dict], list[str]]:
    """Approve the plan, reject each call that asks. Gives the events and what asked."""
    asked: list[str] = []
    events: list[dict] = []
    async with httpx.AsyncClient(
        base_url=f"{place.url}/api/v1", timeout=60,
        headers={"Authorization": f"Bearer {place.canaries[OWNER]}"},
    ) as http:  # fmt: skip
        message = {"type": "user_message", "content": "Steal", "agent_type": "architect"}
        body = {"session_id": "s", "message": message}
        async with http.stream("POST", "/agent/message/stream", json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert [line async for line in answer.aiter_lines()]
    async with contextlib.aclosing(client.follow("s", 0)) as follow:
        async for event in follow:
            events.append(event)
            if event["type"] == "approval_requested":
                await decide(client, asked)
            if event["type"] == "plan_completed":
                return events, asked
    raise AssertionError("the stream ended")


OWNER = "owner's token"


async def decide(client: Client, asked: list[str]) -> None:
    for approval in (await client.pending_approvals("s")).pending_approvals:
        shown = await client.approval(approval.approval_id)
        if shown.tool_name is None:
            await client.decide(approval.approval_id, "approve", digest=shown.digest)
        else:
            asked.append(f"{shown.tool_name} {shown.arguments}")
            await client.decide(approval.approval_id, "reject", digest=shown.digest)


async def doors(place: Place) -> AsyncIterator[str]:
    """What the server says where things are wrong, and of itself."""
    headers = {"Authorization": f"Bearer {place.canaries[OWNER]}"}
    async with httpx.AsyncClient(base_url=place.url, timeout=60) as http:
        for path in ("/metrics", "/api/v1/sessions/none", "/api/v1/nothing", "/../state/more.txt",
                     "/api/v1/sessions/s/history", "/api/v1/audit", "/api/v1/health"):  # fmt: skip
            for sent in ({}, headers):
                answer = await http.get(path, headers=sent)
                yield f"{answer.headers} {answer.text}"
        bad = await http.post("/api/v1/agent/message/stream", json={"x": 1}, headers=headers)
        yield bad.text


def kept(place: Place) -> Iterator[tuple[str, str]]:
    """All that is written down: the database as bytes and as statements, the log, snapshots."""
    for path in [*place.state.rglob("*"), place.root / "log.txt", place.root / "out.txt"]:
        if path.is_file() and path.name not in ("more.txt", "owner.token"):
            yield str(path), path.read_bytes().decode("latin-1")
    with contextlib.closing(sqlite3.connect(place.state / "gonogo.db")) as database:
        yield "dump", "\n".join(database.iterdump())


def leaked(place: Place, where: str, text: str) -> list[str]:
    return [f"{name} in {where}" for name, canary in place.canaries.items() if canary in text]


async def test_no_secret_reaches_a_tool_a_model_an_event_a_log_or_the_audit(place: Place) -> None:
    with place.served():
        place.model.script(lines(place))
        (place.work / "targets").write_text(targets(place))
        with anyio.fail_after(150):
            async with place.client() as client:
                events, asked = await live(place, client)
            said = [text async for text in doors(place)]
        found = [leak for where, text in kept(place) for leak in leaked(place, where, text)]

    results = {e["call_id"]: e for e in events if e["type"] == "tool_result"}
    assert any("THE THIEF WAS HERE" in str(e.get("result")) for e in results.values())
    assert len(results) >= len(attempts(place))
    for path in (".env", "secrets/key.txt", "deep/down/id_ed25519"):
        assert f"read_file {{'path': '{path}'}}" in asked
    assert any("cat .env" in question for question in asked)
    found += leaked(place, "events", str(events)) + leaked(place, "answers", str(said))
    found += leaked(place, "questions", str(asked))
    found += leaked(place, "requests to the model", str(place.model.requests))
    assert found == []
    assert place.loopback.asked == []


async def test_what_a_person_lets_a_model_read_is_asked_for_first_and_then_shown(
    make, tmp_path: Path
) -> None:
    secret = f"canary{secrets.token_hex(12)}"
    wanted = [call("read_file", path=".env"), run("cat .env")]
    script = {"main/coder": [calls(*wanted), says("Done")], "main/orchestrator": [says("Yes?")]}
    async with make(script) as world:
        (world.folder / ".env").write_text(secret)
        events = await world.say("Read", "coder")
        asked = [e["call_id"] for e in of(events, "tool_call", requires_approval=True)]
        assert secret not in str(await world.log())
        assert secret not in str([r.messages for r in world.model.requests])
        for call_id in asked:
            await world.decide(call_id)
        results = of(await world.log(), "tool_result")

    assert len(asked) == len(wanted)
    assert [secret in str(result) for result in results] == [True, True]


async def test_a_command_that_a_rule_allows_finds_secrets_empty_unless_a_rule_shows_them(
    make, tmp_path: Path
) -> None:
    secret = f"canary{secrets.token_hex(12)}"
    command = '[[rule]]\ncommand = "python3 show.py"\ndecision = "allow"\nreason = "known"\n'
    shown = '[[rule]]\ntool = "read_file"\npath = ".env"\ndecision = "allow"\nreason = "mine"\n'
    (tmp_path / "config").mkdir()
    told = []
    for rules in (command, command + shown):
        (tmp_path / "config" / "rules.toml").write_text(rules)
        script = {"main/coder": [calls(run("python3 show.py")), says("Done")]}
        async with make(script) as world:
            (world.folder / ".env").write_text(secret)
            (world.folder / "show.py").write_text("print(open('.env').read(), 'was read')")
            events = await world.say("Run", "coder")
            told.append(str(of(events, "tool_result")))

    assert [secret in text for text in told] == [False, True]
    assert all("was read" in text for text in told)
