"""Who somebody is, what they may now, how a provider saw them, and what they were answered."""

from datetime import timedelta

from sqlalchemy import select

from fakes.rows import NOW, approval, at, begin, begin_plan
from gonogo.domain.identity import Sight
from gonogo.store import calls, people, rows
from gonogo.store.schema import answers

SECOND = timedelta(seconds=1)
PLAN, QUESTION = f"plan_{'0a' * 16}", f"appr_{'1b' * 16}"
KEPT = select(answers.c.key, answers.c.session_id).order_by(answers.c.key)


def token(token_id: str, who: str, role: int, revoked_at=None, after: int = 0):
    return {
        "id": token_id, "principal_id": who, "name": "t", "role": role, "secret_hash": token_id,
        "created_at": NOW + after * SECOND, "revoked_at": revoked_at,
    }  # fmt: skip


def some(tx) -> None:
    for who, name in (("u1", "Ann"), ("u2", "Bob"), ("u3", "Bob"), ("u4", "Eve"), ("u5", "u1")):
        people.keep_principal(tx, who, name)
    for given in (
        token("t3", "u1", 1), token("t2", "u1", 3), token("t1", "u1", 2, after=-1),
        token("t4", "u2", 1), token("t5", "u3", 2), token("t6", "u4", 3, revoked_at=NOW),
        token("t7", "u5", 1),
    ):  # fmt: skip
        people.add_token(tx, given)


async def test_somebody_is_meant_by_an_id_or_by_a_name_that_only_one_has(store):
    await store.write(some)
    asked = ("u1", "Ann", "Bob", "u2", "u4", "Eve", "nobody", "u5")
    found = [await store.read(people.standing, each) for each in asked]

    ann, bob = ("u1", "Ann", 3), ("u2", "Bob", 1)
    assert [row and tuple(row) for row in found] == [
        ann, ann, None, bob, None, None, None, ("u5", "u1", 1),
    ]  # fmt: skip


async def test_a_principal_is_new_once_and_has_the_name_that_it_was_given_last(store):
    assert await store.write(people.keep_principal, "u1", "Ann")
    assert not await store.write(people.keep_principal, "u1", "Other")
    assert await store.write(people.keep_principal, "u2", "Bob")
    assert await store.read(people.names, ["u2", "u1", "u9", "u1"]) == {"u1": "Ann", "u2": "Bob"}
    await store.write(people.rename_principal, "u1", "Anna")
    assert await store.read(people.names, ["u1", "u2"]) == {"u1": "Anna", "u2": "Bob"}


async def test_tokens_are_listed_oldest_first(store):
    await store.write(some)
    listed = await store.read(people.list_tokens)
    assert [row.id for row in listed] == ["t1", "t2", "t3", "t4", "t5", "t6", "t7"]


async def test_how_a_provider_saw_somebody_last_is_kept(store):
    seen = Sight(issuer="https://id.test", words=("dev", "ops"), at=NOW)
    await store.write(some)
    assert await store.read(people.last_sight, "u1") is None
    await store.write(people.keep_sight, "u1", seen)
    await store.write(people.keep_sight, "nobody", seen)
    assert await store.read(people.last_sight, "u1") == ("Ann", seen)
    assert await store.read(people.last_sight, "u2") is None
    assert await store.read(people.last_sight, "nobody") is None


def answer(key: str, said: dict[str, object]):
    return {"principal_id": "ann", "key": key, "request_digest": "d", "answer": said}


async def test_an_answer_belongs_to_the_session_that_it_or_its_request_names(store):
    def write(tx):
        begin(tx, "s1", "s2")
        begin_plan(tx, plan_id=PLAN)
        calls.add_approval(tx, approval(QUESTION, session_id="s2"))
        for key, said, about in (
            ("a", {"n": 1}, "/sessions"),
            ("b", {"n": 1}, "/sessions/s2/turns"),
            ("c", {"session_id": "s1"}, ""),
            ("d", {"body": '{"session_id":"s2"}'}, ""),
            ("e", {"n": 1}, f"/plans/{PLAN}"),
            ("f", {"id": QUESTION}, ""),
            ("g", {"session_id": "gone"}, ""),
            ("h", {"n": 1}, f"/plans/plan_{'9' * 32}"),
        ):  # fmt: skip
            people.keep_answer(tx, answer(key, said), about)

    await store.write(write)
    kept = await store.read(lambda tx: [tuple(row) for row in rows.rows(tx, KEPT, {})])
    assert kept == [
        ("a", None), ("b", "s2"), ("c", "s1"), ("d", "s2"), ("e", "s1"), ("f", "s2"),
    ]  # fmt: skip


async def test_answers_from_before_a_time_are_forgotten(store):
    for key, after in (("a", 0), ("b", 1), ("c", 2)):
        await store.write(at(NOW + after * SECOND, people.keep_answer), answer(key, {}))

    assert await store.write(people.forget_answers, NOW + SECOND) == 1
    assert await store.read(people.kept_answer, "ann", "a") is None
    assert (await store.read(people.kept_answer, "ann", "b")).answer == {}
    assert await store.write(people.forget_answers, NOW + 3 * SECOND) == 2
