"""Text while a model writes it: a reader in another process sees it whole, in order, or not."""

from typing import Any

import anyio
import pytest

from gonogo.execution.event_bus import Hub, LiveText, TextOrder
from gonogo.store.hints import Hint, TextPart
from gonogo.store.transaction import Hold, owning

TURN = {"turn_id": "t1", "agent": "coder"}
WHOLE = "The house is built."


def piece(at: int, to: int, **more: Any) -> TextPart:
    usual: dict[str, Any] = {
        "session_id": "s1", "answer": "a1", "fence": 1, "after": 5, "place": TURN,
    }  # fmt: skip
    return TextPart(**{**usual, "at": at, "text": WHOLE[at:to], **more})


def event(seq: int, kind: str = "assistant_message", **place: str) -> dict[str, Any]:
    return {"seq": seq, "type": kind, **(place or TURN)}


def test_a_part_is_shown_once_and_after_a_hole_nothing_more_until_the_beginning_comes_again():
    order = TextOrder()
    assert order.next_of(piece(0, 4)) == "The "
    assert order.next_of(piece(0, 4)) == ""
    assert order.next_of(piece(9, 12)) == ""
    assert order.next_of(piece(0, 12)) == "house is"
    assert order.next_of(piece(12, 19)) == " built."


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (event(6), ""),
        (event(6, "done", turn_id="t1"), ""),
        (event(6, "owner_changed", agent="x"), ""),
        (event(6, "steered"), "house"),
        (event(6, turn_id="t2"), "house"),
        (event(6, plan_id="p1", subtask_id="left", turn_id="t1"), "house"),
        (event(5), "house"),
    ],
)
def test_nothing_of_a_text_is_shown_after_the_event_that_ended_it(
    told: dict[str, Any], shown: str
) -> None:
    order = TextOrder()
    order.next_of(piece(0, 4))
    order.told(told)
    assert order.next_of(piece(4, 9)) == shown


def test_a_worker_that_was_taken_for_lost_shows_nothing_after_the_one_that_goes_on():
    order = TextOrder()
    assert order.next_of(piece(0, 4, fence=2, answer="new"))
    assert order.next_of(piece(0, 4)) == ""


def test_who_comes_later_is_shown_a_text_only_if_what_was_told_since_did_not_end_it():
    page = [event(6, turn_id="t2"), event(7, plan_id="p1", subtask_id="left")]
    late = TextOrder(since=7)
    assert late.next_of(piece(0, 4)) == "", "what was told before they came is not known"
    late.recall(5, page)
    assert late.next_of(piece(0, 4)) == "The "
    ended = TextOrder(since=7)
    ended.recall(5, [*page[:1], event(7)])
    assert ended.next_of(piece(0, 4)) == ""
    much = TextOrder(since=900)
    much.recall(5, page)
    assert (much.next_of(piece(0, 4)), much.since) == ("", 0)


def test_who_comes_again_is_shown_the_rest_of_a_text_and_later_ones_whole():
    order = TextOrder(since=5, again=True)
    assert order.next_of(piece(0, 4, reached=9)) == "", "they had it"
    assert order.next_of(piece(4, 12, reached=9)) == " is"
    assert order.next_of(piece(12, 19, reached=9)) == " built."
    assert order.next_of(piece(4, 9, answer="goes on")) == "house"
    assert order.next_of(piece(0, 12, answer="goes on", reached=9)) == " is"
    assert order.next_of(piece(4, 9, answer="later", after=6)) == ""
    assert order.next_of(piece(0, 9, answer="later", after=6, reached=4)) == "The house"


class Workers:
    """A store that workers share: what one of them shows goes nowhere else."""

    def __init__(self) -> None:
        self.hints, self.reach, self.shown = self, [True], anyio.create_memory_object_stream(9)

    async def read(self, _fn: object, sessions: list[str]) -> dict[str, int]:
        return dict.fromkeys(sessions, 5)

    async def show(self, pieces: list[TextPart]) -> bool:
        self.shown[0].send_nowait(pieces)
        return self.reach.pop() if self.reach else True


async def test_a_text_that_begins_anew_says_how_far_others_had_it():
    store: Any = Workers()
    live, came = LiveText(store, Hub()), Hint(joined=["s1"])
    hold = Hold(place_id="p", fence=1, is_safe=lambda: True, lost=lambda: None)
    gone = []
    with anyio.fail_after(30), owning(hold):
        async with anyio.create_task_group() as group, live.answer("s1", TURN) as tell:
            group.start_soon(live.serve)
            for hint, told, reaches in ((came, "The ", True), (came, "house", False)):
                store.reach = [reaches]
                live.follow(hint)
                tell(told)
                gone += await store.shown[1].receive()
            gone += await store.shown[1].receive()
            group.cancel_scope.cancel()
    assert [(each.at, each.text, each.reached) for each in gone] == [
        (0, "The ", 0), (0, "The house", 4), (0, "The house", 0)
    ]  # fmt: skip
    for end in store.shown:
        end.close()


def test_a_reader_remembers_a_few_texts_and_places_and_shows_rather_too_little():
    order = TextOrder()
    for number in range(60):
        order.next_of(piece(0, 4, answer=f"text {number}"))
    assert order.next_of(piece(4, 9, answer="text 0")) == ""
    assert order.next_of(piece(4, 9, answer="text 59")) == "house"
    for seq in range(6, 300):
        order.told(event(seq, turn_id=f"turn {seq}"))
    assert order.next_of(piece(0, 4, answer="other")) == ""
    assert order.next_of(piece(0, 4, answer="next", after=299)) == "The "
