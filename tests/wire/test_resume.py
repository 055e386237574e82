"""A reader that is cut off at random loses nothing and sees nothing twice.

What each of several readers put together, over server-sent events with `Last-Event-ID` and over
WebSocket with `?after=`, is the log as it is read from its beginning and as the database has it.
"""

import json
import random
import threading
from typing import Any

import httpx
import pytest

from durability.evidence import stored_value
from wire.deployment import WAIT, Deployment
from wire.forms import followed
from wire.outcomes import last_seq
from wire.states import Scene

Log = list[dict[str, Any]]


class Reader(threading.Thread):
    """Reads a session's log in pieces of random length until it is told where the end is."""

    def __init__(self, scene: Scene, seed: int, over: str) -> None:
        super().__init__()
        self.scene, self.random, self.over = scene, random.Random(seed), over
        self.log: Log = []
        self.connections = 0
        self.end: int | None = None
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while self.end is None or self.cursor < self.end:
                self.connections += 1
                piece = self.random.randint(1, 6)
                if self.over == "sse":
                    self.read_stream(piece)
                else:
                    self.read_socket(piece)
        except BaseException as error:
            self.problem = error

    @property
    def cursor(self) -> int:
        return self.log[-1]["seq"] if self.log else 0

    def read_stream(self, piece: int) -> None:
        deployment = self.scene.deployment
        headers = {**deployment.headers("A"), "Last-Event-ID": str(self.cursor)}
        path = f"/api/v1/sessions/{self.scene.session_id}/events"
        seq, quiet = None, httpx.Timeout(60, read=0.3)
        try:
            with (
                httpx.Client(base_url=deployment.url, timeout=quiet, trust_env=False) as http,
                http.stream("GET", path, headers=headers) as answer,
            ):
                assert answer.status_code == 200
                for line in answer.iter_lines():
                    if line.startswith("id: "):
                        seq = int(line[4:])
                    if line.startswith("data: ") and seq is not None:
                        self.log.append(json.loads(line[6:]))
                        assert self.cursor == seq
                        seq, piece = None, piece - 1
                    if piece == 0:
                        return
        except httpx.ReadTimeout:
            return

    def read_socket(self, piece: int) -> None:
        query = f"?after={self.cursor}"
        try:
            with self.scene.deployment.socket(self.scene.session_id, query=query) as line:
                while piece:
                    event = json.loads(line.recv(0.3))
                    if "seq" in event:
                        self.log.append(event)
                        piece -= 1
        except TimeoutError:
            return


@pytest.mark.feature(211)
def test_logs_put_together_across_random_disconnects_equal_the_database(
    shared: Deployment,
) -> None:
    scene = Scene(shared, "torn", "S1")
    readers = [Reader(scene, seed, over) for seed, over in enumerate(["sse", "ws"] * 2)]
    for reader in readers:
        reader.start()

    work(scene)
    for reader in readers:
        reader.end = last_seq(scene)
    for reader in readers:
        reader.join(WAIT)

    path = f"/api/v1/sessions/{scene.session_id}/events"
    whole = followed(shared, path, last_seq(scene), {})
    kept = shared.rows(
        "SELECT seq, body FROM events WHERE session_id = :id ORDER BY seq", id=scene.session_id
    )
    texts = {row.digest: row.text for row in shared.rows("SELECT digest, text FROM texts")}
    assert [event["seq"] for event in whole] == list(range(1, len(kept) + 1))
    for row, event in zip(kept, whole, strict=True):
        stored = stored_value(row.body, texts)
        assert stored == {name: event[name] for name in stored}
    for reader in readers:
        assert reader.problem is None
        assert reader.connections > 3
        assert reader.log == whole


def work(scene: Scene) -> None:
    """Something happens: talk, a plan, a question, decisions, another plan."""
    for n in range(5):
        scene.say({"type": "user_message", "content": f"message {n}"})
    scene.plan()
    scene.go()
    scene.decide("approve")
    scene.plan("never asks", "p2")
    scene.say({"type": "plan_decision", "plan_id": scene.names["p2"], "decision": "approve"})
    for n in range(5):
        scene.say({"type": "user_message", "content": f"again {n}"})
    assert len(scene.ledger) == 1


@pytest.mark.feature(211)
@pytest.mark.parametrize("over", ["sse", "ws"])
def test_every_cursor_gives_exactly_what_is_missing(shared: Deployment, over: str) -> None:
    scene = Scene(shared, "cursors", "S3")
    last = last_seq(scene)
    path = f"/api/v1/sessions/{scene.session_id}/events"
    whole = followed(shared, path, last, {})

    for cursor in range(last):
        if over == "sse":
            missing = followed(shared, f"{path}?after={cursor}", last - cursor, {})
        else:
            with shared.socket(scene.session_id, query=f"?after={cursor}") as line:
                missing = [json.loads(line.recv(WAIT)) for _ in range(last - cursor)]
        assert missing == whole[cursor:]
