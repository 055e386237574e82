"""Strangers who open connections and say nothing get in nobody's way, however few descriptors.

A real server that may have 64 of them, and whoever wants to speak to it while others hold all that
they can get.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from fakes.nursery import python
from fakes.sockets import held_port
from fakes.template import lay_out
from gonogo.server.auth import Connections, Room, _turn_away

FILES, CROWD = 64, 70
SECONDS = 60
HEALTH = "/api/v1/health"
HANDSHAKE = (
    "GET /ws/none HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MANY = "GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\nX-Filler: {filler}\r\n\r\n"
BEGUN = {
    "nothing": "",
    "a byte": "G",
    "half a head": "GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\n",
    "no body": "POST /api/v1/sessions HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n",
    "half a handshake": HANDSHAKE[:60],
    "a handshake and no token": HANDSHAKE,
    "a request that is answered": "GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "what is no HTTP": "\x16\x03\x01\x02\r\n\r\n",
}


class Poor:
    """A server with few descriptors."""

    def __init__(self, home: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.home, self.port, self.process = home, port, process
        self.host = f"127.0.0.1:{port}"
        self.log = home.parent / "log"

    @property
    def token(self) -> str:
        return (self.home / "owner.token").read_text().strip()

    def client(self, **options) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://{self.host}", timeout=SECONDS, trust_env=False, **options
        )

    def connection(self, words: str = "") -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        # It may be closed again already, which is what this is about.
        with suppress(OSError):
            opened.sendall(words.format(host=self.host, filler="x" * 4_000).encode())
        return opened

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with held_port() as found:
        yield found


@pytest.fixture(scope="module")
def poor(tmp_path_factory, port) -> Iterator[Poor]:
    root = tmp_path_factory.mktemp("poor")
    lay_out(root / "home")
    environment = {
        **python(), "GONOGO_HOME": str(root / "home"), "GONOGO_CONFIG": str(root / "config"),
        "GONOGO_MODEL": "scripted", "GONOGO_RATE_REQUESTS": "0",
    }  # fmt: skip
    command = f"ulimit -n {FILES}; exec {sys.executable} -m gonogo serve --port {port}"
    with (
        (root / "log").open("wb") as log,
        subprocess.Popen(
            ["sh", "-c", command], env=environment, cwd=root, stdout=log, stderr=log
        ) as process,
    ):
        found = Poor(root / "home", port, process)
        wait_until(lambda: answers(found))
        yield found
        process.terminate()
        assert process.wait(SECONDS) == 0


def wait_until(holds) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def answers(poor: Poor) -> bool:
    try:
        with poor.client() as client:
            return client.get(HEALTH).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def crowd(poor: Poor, words: str) -> Iterator[list[socket.socket]]:
    """Strangers who have all begun in the same way and do not go on."""
    with ExitStack() as stack:
        yield [stack.enter_context(poor.connection(words)) for _ in range(CROWD)]


@pytest.mark.parametrize("begun", BEGUN)
def test_whoever_asks_is_answered_while_strangers_hold_all_they_can_get(poor, begun):
    with crowd(poor, BEGUN[begun]), poor.client() as client:
        for _ in range(10):
            assert client.get(HEALTH).status_code == 200
        with poor.client(headers={"Authorization": f"Bearer {poor.token}"}) as known:
            assert known.get("/api/v1/sessions").status_code == 200
        assert poor.descriptors < FILES
    told = poor.log.read_text()
    assert "Traceback" not in told
    assert len(told) < 5_000


def test_who_takes_no_answers_makes_room_for_others(poor):
    with crowd(poor, MANY * 300), poor.client() as client:
        for _ in range(10):
            assert client.get(HEALTH).status_code == 200


def test_who_comes_again_and_again_keeps_nobody_out(poor):
    for _ in range(5):
        with crowd(poor, "G"):
            assert answers(poor)


def test_where_all_are_at_work_a_new_one_is_told_to_come_again_and_this_machine_gets_in(poor):
    with ExitStack() as stack:
        known = stack.enter_context(poor.client(headers={"Authorization": f"Bearer {poor.token}"}))
        session = known.post("/api/v1/sessions", json={}).json()["session_id"]
        refused = None
        for _ in range(CROWD):
            follower = stack.enter_context(
                known.stream("GET", f"/api/v1/sessions/{session}/events")
            )
            if follower.status_code != 200:
                refused = follower
                break
        assert refused is not None
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        own = httpx.HTTPTransport(uds=str(poor.home / "owner.sock"))
        with httpx.Client(transport=own, base_url="http://localhost", timeout=SECONDS) as local:
            assert local.get(HEALTH).status_code == 200
        assert poor.log.read_text().count("No room for more connections") == 1
    wait_until(lambda: answers(poor))


def test_lines_that_are_over_leave_their_places_to_others(poor):
    head = {"Authorization": f"Bearer {poor.token}"}
    with poor.client(headers=head) as known:
        session = known.post("/api/v1/sessions", json={}).json()["session_id"]
    for _ in range(CROWD):
        url = f"ws://{poor.host}/ws/{session}"
        with connect(url, additional_headers=head, proxy=None, open_timeout=SECONDS) as line:
            line.send("no message")
            assert "error" in line.recv(SECONDS)
    assert answers(poor)


@pytest.mark.parametrize(("files", "least", "most"), [(64, 20, 32), (16, 4, 6), (1024, 700, 768)])
def test_there_is_room_for_as_many_as_leave_descriptors_for_other_work(files, least, most):
    tell = "from gonogo.server.auth import room_for_connections as r; print(r())"
    told = subprocess.run(
        ["sh", "-c", f"ulimit -n {files}; exec {sys.executable} -c '{tell}'"],
        env=python(), capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    assert least <= int(told.stdout) <= most


class Line(asyncio.Transport):
    """A connection; whether it was ended."""

    ended = False

    def abort(self) -> None:
        self.ended = True


def test_the_connection_that_has_waited_for_longest_makes_room():
    held, room, other = Connections(), Room(3), Room(3)
    first, second, third, elsewhere = (Line() for _ in range(4))
    for line in (first, second, third):
        held.admit(line, room)
    held.admit(elsewhere, other)
    held.works(first)
    held.waits(first)

    assert [*room.waiting] == [second, third, first]
    assert held._make_room(room)
    assert [line.ended for line in (first, second, third, elsewhere)] == [False, True, False, False]
    assert (room.held, other.held, [*room.waiting]) == (2, 1, [third, first])
    held.left(second)
    held.waits(second)
    held.works(second)
    assert (room.held, [*room.waiting]) == (2, [third, first])
    held.works(first)
    held.works(third)
    assert not held._make_room(room)
    held.left(first)
    assert (room.held, [*other.waiting]) == (1, [elsewhere])


def test_that_there_is_no_room_is_said_once_in_a_while(caplog):
    held = Connections()
    held._tell("3 connections are at work")
    held._tell("3 connections are at work")

    assert [record.getMessage() for record in caplog.records] == [
        "No room for more connections: 3 connections are at work; some are turned away"
    ]


def test_who_is_turned_away_is_told_to_come_again():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        _turn_away(ours)
        theirs.settimeout(SECONDS)
        assert theirs.recv(1_000) == (
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
            b"Content-Length: 0\r\n\r\n"
        )
        assert theirs.recv(1_000) == b""
