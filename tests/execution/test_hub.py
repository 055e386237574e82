"""The hub: whoever follows is told, in order and at once, and nobody can fill the memory."""

import logging

import anyio

from gonogo.execution.event_bus import _BUFFER, Hub

LIMIT = 60


def event(seq, session_id="s1"):
    return {"session_id": session_id, "seq": seq}


def taken(follower):
    return [follower.items.popleft() for _ in range(len(follower.items))]


def test_a_follower_is_told_what_happens_in_its_session_and_in_no_other():
    hub = Hub()
    one, other = hub.follow("s1"), hub.follow("s2")
    third = hub.follow("s1")
    hub.tell_event(event(1))
    assert third.items[0] is one.items[0], "it is written down once for both"
    hub.tell("s1", {"token": "Hi"})
    hub.tell_event(event(1, "s2"))
    hub.tell_event(event(9, "nobody follows"))

    assert taken(one) == [event(1), {"token": "Hi"}]
    assert taken(other) == [event(1, "s2")]


def test_who_left_is_told_nothing_more_and_leaves_nothing_behind():
    hub = Hub()
    one, other = hub.follow("s1"), hub.follow("s1")
    hub.leave("s1", one)
    hub.tell_event(event(1))
    hub.leave("s1", other)
    hub.leave("s1", other)
    hub.tell_event(event(2))

    assert taken(one) == []
    assert taken(other) == [event(1)]
    assert hub._followers == {}


def test_a_reader_that_does_not_read_keeps_the_latest_and_sees_the_gap():
    hub = Hub()
    slow = hub.follow("s1")
    for seq in range(1, _BUFFER + 51):
        hub.tell_event(event(seq))
    kept = [body["seq"] for body in taken(slow)]

    assert len(kept) == _BUFFER
    assert kept[0] == 51
    assert kept == list(range(51, _BUFFER + 51))


async def test_who_follows_a_session_that_is_gone_is_told_so_and_nobody_else():
    hub = Hub()
    first, second, other = hub.follow("s1"), hub.follow("s1"), hub.follow("s2")
    hub.tell_event(event(1))
    hub.end("s1")
    hub.end("nobody follows")

    for follower in (first, second):
        with anyio.fail_after(LIMIT):
            await follower.wait()
        assert (follower.is_last, taken(follower)) == (True, [event(1)])
    assert not other.is_last


async def test_waiting_ends_when_something_is_pushed_even_before_the_wait_began():
    hub = Hub()
    follower = hub.follow("s1")
    hub.tell_event(event(1))
    with anyio.fail_after(LIMIT):
        await follower.wait()
    assert taken(follower) == [event(1)]

    seen = []

    async def reads():
        await follower.wait()
        seen.extend(taken(follower))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(reads)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            hub.tell_event(event(2))
    assert seen == [event(2)]


async def test_every_reader_looks_again_when_the_process_ends():
    hub = Hub()
    followers = [hub.follow(session_id) for session_id in ("s1", "s1", "s2")]
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for follower in followers:
                group.start_soon(follower.wait)
            await anyio.wait_all_tasks_blocked()
            hub.wake_all()


def test_watchers_see_every_durable_event_and_one_that_fails_harms_nobody(caplog):
    hub = Hub()
    seen = []
    hub.watch(lambda body: 1 / 0)
    hub.watch(seen.append)
    follower = hub.follow("s1")
    with caplog.at_level(logging.ERROR):
        hub.tell_event(event(1))
    hub.tell("s1", {"token": "live only"})

    assert seen == [event(1)]
    assert taken(follower) == [event(1), {"token": "live only"}]
    assert "a watcher of events failed" in caplog.text


async def test_who_watches_is_told_each_durable_event_of_every_session_and_harms_nobody(caplog):
    hub, seen = Hub(), []

    def breaks(body):
        raise ValueError(body["seq"])

    hub.watch(breaks)
    hub.watch(seen.append)
    follower = hub.follow("s1")
    hub.tell_event(event(1))
    hub.tell("s1", {"token": "Hi"})
    hub.tell_event(event(2, "s2"))

    assert seen == [event(1), event(2, "s2")]
    assert taken(follower) == [event(1), {"token": "Hi"}]
    told = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert told == [("ERROR", "a watcher of events failed")] * 2


async def test_every_reader_looks_again_when_another_process_wrote_or_this_one_ends():
    hub = Hub()
    followers = [hub.follow("s1"), hub.follow("s1"), hub.follow("s2")]
    assert not any(each.is_behind or each.is_last for each in followers)
    hub.wake_all()
    for each in followers:
        with anyio.fail_after(LIMIT):
            await each.wait()
        assert (each.is_behind, each.is_last, taken(each)) == (False, False, [])

    hub.refresh()
    for each in followers:
        with anyio.fail_after(LIMIT):
            await each.wait()
        assert (each.is_behind, each.is_last, taken(each)) == (True, False, [])
