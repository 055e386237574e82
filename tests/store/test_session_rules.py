"""Rules of a session are numbered once for all, end once, and end with their session."""

import anyio

from fakes.rows import NOW, session
from gonogo.domain.records import SessionRule
from gonogo.store.sessions import (
    active_rules,
    add_rule,
    add_session,
    end_rule,
    end_rules,
    next_rule,
)


def _add(tx, rule_id, session_id="s1"):
    number = next_rule(tx, session_id)
    rule = SessionRule(
        id=rule_id, session_id=session_id, position=number, rule={"decision": "ask"},
        made_by="ann", created_at=NOW, ended_at=None, plan_id=None,
    )  # fmt: skip
    add_rule(tx, rule)
    return number


async def test_a_number_is_never_given_twice_and_a_rule_ends_once(store):
    await store.write(lambda tx: add_session(tx, session("s1")))
    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(store.write, _add, f"r{n}")
    rules = await store.read(active_rules, "s1")
    assert [rule.position for rule in rules] == list(range(1, 11))

    last = rules[-1]
    assert await store.write(end_rule, last.id)
    assert not await store.write(end_rule, last.id)
    assert await store.write(_add, "again") == 11
    assert last.id not in {rule.id for rule in await store.read(active_rules, "s1")}


async def test_the_end_of_a_session_ends_its_rules_and_no_others(store):
    for name in ("s1", "s2"):
        await store.write(lambda tx, name=name: add_session(tx, session(name)))
        await store.write(_add, f"of {name}", name)
    await store.write(end_rules, "s1")
    assert await store.read(active_rules, "s1") == []
    assert len(await store.read(active_rules, "s2")) == 1
