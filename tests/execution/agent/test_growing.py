"""A conversation that is driven is put into words where it is new; anew, it has the same words.

A walk does to a conversation what happens to one, in any order. After each step the record that
grew is compared with the one that is made of all the rows.
"""

from itertools import count

from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from fakes.rows import NOW, call
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import (
    Compacted,
    Instructions,
    PlanAccount,
    Reply,
    Shortened,
    Steering,
    ToolClass,
    ToolRequest,
    UserText,
)
from gonogo.execution.agent.context import (
    StoredThread,
    grown_record,
    record_of_thread,
)
from gonogo.execution.agent.conversation import names_others

PLANS = [f"plan_{number:024x}" for number in range(3)]
_C = CallStatus
CALLS = {
    "looked": {"tool": "read_file", "tool_class": ToolClass.PURE, "result": {"content": "x" * 900}},
    "wrote": {"tool": "write_file", "tool_class": ToolClass.IDEMPOTENT, "result": {"lines": 3}},
    "read again": {"tool": "read_output", "tool_class": ToolClass.PURE, "result": {"id": "?"}},
    "proposed": {"tool": "create_plan", "tool_class": ToolClass.CONTROL, "result": PLANS[0]},
    "denied": {"status": _C.DENIED, "error": "? is not allowed"},
    "rejected": {"status": _C.REJECTED, "error": f"Not now, see {PLANS[1]}"},
    "cancelled": {"status": _C.CANCELLED, "finished_at": None},
    "in doubt": {"status": _C.UNKNOWN, "finished_at": None},
}


class Walk:
    """A conversation, and what may happen to it."""

    def __init__(self):
        self.said, self.calls, self.accounts = {10: UserText(content="Do it")}, {}, {}
        self._numbers = count(20, 10)
        self._plans = 1

    def add(self, message):
        self.said[next(self._numbers)] = message

    def reply(self, draw):
        made = draw(some.lists(some.sampled_from(sorted(CALLS)), max_size=3))
        new = [self._call(CALLS[kind]) for kind in made]
        asked = tuple(ToolRequest(id=c.id, name=c.tool, arguments=c.arguments) for c in new)
        heard = draw(some.integers(0, sum(isinstance(m, Steering) for m in self.said.values())))
        text = draw(some.sampled_from(["", "I look", f"As {PLANS[0]} says", *self.calls]))
        raw = {"parts": [{"tool_call_id": c.id, "args": f"of {c.id}"} for c in new]}
        cut = draw(some.booleans())
        self.add(Reply(text=text, calls=asked, model="m", raw=raw, heard=heard or None, cut=cut))

    def _call(self, more):
        id_, named = f"call_{len(self.calls):024x}", [*self.calls, "call_" + "f" * 24][0]
        values = {"status": _C.COMPLETED, "finished_at": NOW, "result": None, **more}
        for field in ("result", "error"):
            match values.get(field):
                case str(text):
                    values[field] = text.replace("?", named)
                case {"id": _}:
                    values[field] = {"id": named}
        arguments = {"id": named} if values.get("tool") == "read_output" else {"path": "a"}
        self.calls[id_] = call(
            id_, position=len(self.calls) + 1, arguments=arguments, **values
        )  # fmt: skip
        return self.calls[id_]

    def settle(self, draw):
        """A call whose outcome nobody knew is done again, in its place."""
        for each in [c for c in self.calls.values() if c.status is _C.UNKNOWN][:1]:
            again = self._call({"retry_of": each.id, "result": "twice"})
            self.calls[each.id] = replace(
                each, status=_C.COMPLETED, result=again.result, finished_at=NOW
            )

    def tell(self, draw):
        self.add(UserText(content=draw(some.sampled_from(["Go on", PLANS[2], *self.calls]))))

    def steer(self, draw):
        self.add(Steering(content=draw(some.sampled_from(["Mind it", *self.calls]))))

    def steered_before(self, draw):
        """What somebody said before the last message is seen only now."""
        self.said = dict(
            sorted({**self.said, max(self.said) - 1: Steering(content="Late")}.items())
        )

    def instruct(self, draw):
        self.add(Instructions(content="Use tabs.", files=()))

    def shorten(self, draw):
        shown = {each: draw(some.sampled_from([0, 30])) for each in [*self.calls][-2:]}
        self.add(Shortened(results=shown))

    def compact(self, draw):
        spoken = [m for m in self.said.values() if not isinstance(m, Shortened | Compacted)]
        before = draw(some.integers(0, len(spoken)))
        text, window = f"Facts of {PLANS[0]}", draw(some.sampled_from([None, 5_000]))
        self.add(Compacted(before=before, text=text, kept=(0,)[:before], clip=100, window=window))

    def end_plan(self, draw):
        self.accounts[PLANS[0]] = draw(some.sampled_from(["All is done", f"See {PLANS[0]}"]))
        self.add(PlanAccount(plan_id=PLANS[0]))

    def retell(self, draw):
        """What came of a plan is another thing since a rollback."""
        self.accounts = dict.fromkeys(self.accounts, "Taken back")

    def propose(self, draw):
        self._plans = min(self._plans + 1, len(PLANS))

    @property
    def stored(self):
        said = tuple(self.said.values())
        named = PLANS[: self._plans] if names_others(said, self.calls.values()) else None
        return StoredThread(
            said=said, numbers=tuple(self.said), calls=dict(self.calls), named=named
        )  # fmt: skip


STEPS = sorted(
    name for name in vars(Walk) if not name.startswith("_") and name not in {"add", "stored"}
)


def same(grown, anew):
    assert grown == anew
    assert grown.messages == anew.messages
    assert grown.whole == anew.whole


@given(some.data(), some.sampled_from(["en", "ru"]))
def test_a_conversation_that_grew_is_told_as_one_that_is_made_anew(data, locale):
    walk = Walk()
    found = record_of_thread(walk.stored, walk.accounts, locale)
    # To ask is what happens most of the time.
    happens = some.sampled_from([*STEPS, *["reply"] * len(STEPS)])
    for name in data.draw(some.lists(happens, min_size=1, max_size=12)):
        getattr(walk, name)(data.draw)
        anew = record_of_thread(walk.stored, walk.accounts, locale)
        grown = grown_record(found, walk.stored, walk.accounts, locale)
        if grown is not None:
            same(grown, anew)
        found = grown or anew


def test_of_a_conversation_that_goes_on_only_what_is_new_is_made():
    walk = Walk()
    answers = [("looked", False), ("wrote", True), ("denied", False), ("read again", False)]
    found = record_of_thread(walk.stored, {}, "en")
    for kind, is_cut in answers:
        row = walk._call(CALLS[kind])
        asked = ToolRequest(id=row.id, name=row.tool, arguments=row.arguments)
        walk.add(Reply(text=kind, calls=(asked,), cut=is_cut))
        grown = grown_record(found, walk.stored, {}, "en")
        same(grown, record_of_thread(walk.stored, {}, "en"))
        before = [*found.messages]
        assert all(one is other for one, other in zip(before, grown.messages, strict=False))
        assert len(grown.messages) == len(before) + 2
        found = grown
