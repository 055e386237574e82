"""Logins of browsers: few for each principal, and none that is over."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from fakes.rows import at
from gonogo.domain.identity import Login
from gonogo.store import people as logins

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOGIN = Login(
    secret_hash="h", principal_id="user:ann", name="ann", role=2, token_id=None,
    created_at=NOW, expires_at=NOW + HOUR, ends_at=None,
)  # fmt: skip


async def test_old_logins_give_way_and_those_that_are_over_go(store):
    many = [
        replace(LOGIN, secret_hash=f"{n:03}", created_at=NOW + n * timedelta(seconds=1))
        for n in range(logins.KEPT + 2)
    ]
    other = replace(LOGIN, secret_hash="other", principal_id="user:bob")
    for login in (other, *many):
        await store.write(logins.begin, login)

    assert await store.read(at(NOW, logins.find), "001") is None
    assert await store.read(at(NOW, logins.find), "002") == many[2]
    await store.write(logins.renew, "002", NOW + 3 * HOUR)
    await store.write(logins.end, "003")
    assert await store.read(at(NOW, logins.find), "003") is None
    late = replace(LOGIN, secret_hash="late", created_at=NOW + 2 * HOUR, expires_at=NOW + 3 * HOUR)
    await store.write(logins.begin, late)
    for name, is_there in (("002", True), ("004", False), ("other", False)):
        assert (await store.read(at(NOW, logins.find), name) is not None) is is_there
