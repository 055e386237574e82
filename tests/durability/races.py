"""Races of two processes for the same decisions: how they are set up, run and held against rows."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import create_engine, text

from durability.evidence import Evidence, Row
from fakes.nursery import Nursery, python
from fakes.rows import begin
from gonogo.domain.records import Approval
from gonogo.domain.reviews import Review
from gonogo.execution.approvals import ApprovalService, Question, Ruling
from gonogo.policy.reviewers import ReviewRule, Reviews, ReviewText
from gonogo.store import Tx
from gonogo.store import events as log

NAMES = ("ann", "bob")
SESSIONS = 10
BATCH = 500
SECONDS = 120
"""The longest that one batch may take."""


@dataclass(frozen=True)
class Race:
    """What each of the two says of one approval, in order."""

    kind: str
    words: dict[str, tuple[str, ...]]


def _race(ann: str, bob: str, kind: str = "deploy") -> Race:
    return Race(kind, {"ann": tuple(ann.split()), "bob": tuple(bob.split())})


RACES = (
    _race("approve", "reject"), _race("reject", "approve"), _race("approve", "approve"),
    _race("edit", "approve"), _race("reject", "edit"), _race("edit", "edit"),
    _race("approve approve", "reject reject"), _race("approve reject", "reject approve"),
    _race("approve", "approve", "pair"), _race("approve", "reject", "pair"),
)  # fmt: skip
"""A `pair` needs two who approve; anything else needs one."""


class _Settles:
    """A kind whose answers leave a line each in the audit: that is how often it took effect."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        log.note(
            tx, approval.session_id, actor=ruling.by.id, action="race.settled",
            subject=approval.subject, approval_id=approval.id, word=str(ruling.word),
        )  # fmt: skip

    def lapse(self, tx: Tx, approval: Approval) -> None:
        raise AssertionError("nothing expires here")


def desk_of_races() -> ApprovalService:
    rule = ReviewRule(
        name="admin:review:1", text=ReviewText(kind="pair", approvals=2), review=Review(needed=2),
        where="here",
    )  # fmt: skip
    kinds = {"deploy": _Settles(), "pair": _Settles()}
    return ApprovalService(kinds=kinds, reviews=Reviews(rules=(rule,)), max_pending=1_000_000)


def begin_races(tx: Tx) -> None:
    begin(tx, *(f"s{n}" for n in range(SESSIONS)))


def ask(tx: Tx, numbers: Sequence[int]) -> list[str]:
    """Open a question for each race."""
    desk = desk_of_races()
    return [
        desk.open(
            tx,
            Question(
                session_id=f"s{n % SESSIONS}", kind=RACES[n % len(RACES)].kind, subject=f"{n}",
                details={"arguments": {"n": n}}, reason="asks", digest=f"sha256:{n}",
            ),
        ).id
        for n in numbers
    ]  # fmt: skip


class Decider:
    """A `durability.decider`, from when it is open until its end."""

    def __init__(self, born: Nursery, name: str, *where: str) -> None:
        self.name = name
        words = ("durability.decider", where[0], name, *where[1:])
        talk = born.converse(*words, env=python(), cwd=Path.cwd())
        self.process, self._typed, self._said = talk

    def __enter__(self) -> "Decider":
        try:
            assert self.hear() == "open"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.process.kill()
        self._end()

    def _end(self) -> None:
        self._typed.close()
        self.process.wait(SECONDS)
        self._said.close()

    def tell(self, wanted: list[tuple[str, str]]) -> None:
        """Have it decide these."""
        self._typed.write(f"{json.dumps(wanted)}\n")
        self._typed.flush()

    def hear(self) -> Any:
        """What it says next."""
        line = self._said.readline()
        assert line, f"{self.name} ended"
        return json.loads(line)


Said = dict[str, dict[str, list[list[str]]]]
"""By approval and name: `[word, outcome, by]` each."""


def race(deciders: Sequence[Decider], asked: Sequence[tuple[str, Race]], said: Said) -> None:
    """Have both decide the same questions at once."""
    for decider in deciders:
        decider.tell([(key, word) for key, race in asked for word in race.words[decider.name]])
    for decider in deciders:
        for key, *answer in decider.hear():
            said[key][decider.name].append(answer)


@contextmanager
def run_two(born: Nursery, *where: str) -> Iterator[list[Decider]]:
    """Two deciders at the same address."""
    with ExitStack() as stack:
        yield [stack.enter_context(Decider(born, name, *where)) for name in NAMES]


def nothing_said() -> Said:
    return defaultdict(lambda: defaultdict(list))


# What must hold -----------------------------------------------------------------------------------


def unfair(found: Evidence, asked: dict[str, Race], said: Said) -> Iterator[str]:
    """Races that ended otherwise than with one winner whom everybody was told of."""
    rows = {row["id"]: row for row in found.tables["approvals"]}
    noted: dict[str, Counter[str]] = defaultdict(Counter)
    actors: dict[str, set[str]] = defaultdict(set)
    for entry in found.tables["audit"]:
        if key := entry["details"].get("approval_id"):
            noted[key][entry["action"]] += 1
            if entry["action"] == "race.settled":
                actors[key].add(entry["actor"])
    told = Counter(
        event["body"]["metadata"]["approval_id"]
        for events in found.events.values()
        for event in events
        if event["type"] == "approval_resolved"
    )
    votes = _votes(found)
    for key, run in asked.items():
        row = rows[key]
        yield from _one_end(key, row, noted[key], told[key], actors[key])
        pair = run.kind == "pair"
        yield from _answers(key, row, said[key], pair=pair)
        if votes[key] != (2 if pair and row["status"] == "approved" else votes[key] * pair):
            yield f"{key} is {row['status']} with {votes[key]} votes"


def _one_end(key: str, row: Row, noted: Counter[str], told: int, actors: set[str]) -> Iterator[str]:
    if row["status"] not in {"approved", "rejected", "edited"}:
        yield f"{key} is {row['status']}"
    ends = {name: noted[f"{row['kind']}.{name}"] for name in ("approved", "rejected", "edited")}
    if ends != {name: int(name == row["status"]) for name in ends}:
        yield f"{key} is {row['status']}, the audit says {ends}"
    if noted["race.settled"] != 1 or actors != {row["decided_by"]}:
        yield f"{key} took effect {noted['race.settled']} times, by {actors}"
    if told != 1:
        yield f"{key} was told {told} times"


def _answers(key: str, row: Row, said: dict[str, list[list[str]]], *, pair: bool) -> Iterator[str]:
    word = {"approved": "approve", "rejected": "reject", "edited": "edit"}[row["status"]]
    for name, answers in said.items():
        for asked_for, outcome, by in answers:
            mine = name == row["decided_by"] and asked_for == word
            part = pair and asked_for == "approve"
            if outcome == "taken" and not (mine or part):
                yield f"{key}: {name} was told that {asked_for} was taken, {row['decided_by']} won"
            if outcome != "taken" and mine:
                yield f"{key}: {name} won by {asked_for} and was told {outcome}"
            if outcome not in {"taken", "already_decided"}:
                yield f"{key}: {name} was told {outcome}"
            if outcome == "already_decided" and by != row["decided_by"]:
                yield f"{key}: {name} was told that {by} won, it was {row['decided_by']}"


def _votes(found: Evidence) -> Counter[str]:
    engine = create_engine(found.url)
    try:
        with engine.connect() as conn:
            return Counter(row[0] for row in conn.execute(text("select approval_id from votes")))
    finally:
        engine.dispose()
