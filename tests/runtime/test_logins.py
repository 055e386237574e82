"""Being signed in with a browser outlives the process, and nothing else that it should not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.world import world_of
from gonogo.domain.errors import Unauthorized
from gonogo.domain.identity import Role, secret_hash
from gonogo.store import people as rows
from gonogo.store.people import LASTS

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


async def test_a_login_lasts_as_long_as_it_is_used_and_over_a_restart(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        secret = await world.runtime.people.log_in(world.runtime.owner)
        gone = await world.runtime.people.log_in(world.runtime.owner)
        await world.runtime.people.log_out(gone)
    async with world_of(tmp_path, {}) as world:
        for _ in range(3):
            world.clock.ahead += LASTS - timedelta(minutes=1)
            assert await world.runtime.people.find_login(secret) == world.runtime.owner
        assert secret not in (tmp_path / "home" / "gonogo.db").read_bytes().decode("latin1")
        world.clock.ahead += LASTS + timedelta(minutes=1)
        for over in (secret, gone, "\ud800"):
            with pytest.raises(Unauthorized):
                await world.runtime.people.find_login(over)


async def test_a_login_ends_with_the_token_that_was_shown(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        runtime = world.runtime
        view, token = await runtime.people.create_token(runtime.owner, "ann", Role.OPERATOR)
        ann = await runtime.people.authenticate(token)
        secret = await runtime.people.log_in(ann, token)
        assert await runtime.people.find_login(secret) == ann
        await runtime.people.revoke_token(runtime.owner, view.token_id)
        with pytest.raises(Unauthorized):
            await runtime.people.find_login(secret)


async def test_a_login_is_written_down_again_once_an_hour_of_it_is_gone(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        people, store, day = world.runtime.people, world.runtime.parts.store, timedelta(days=1)
        store.clock = lambda: NOW
        until = NOW + timedelta(hours=30)
        who = world.ann.model_copy(update={"until": until})
        secret = await people.log_in(who)

        async def kept() -> Any:
            return await store.read(rows.find, secret_hash(secret))

        login = await kept()
        assert (login.principal_id, login.name, login.role) == ("user:ann", "ann", Role.OPERATOR)
        assert (login.created_at, login.expires_at, login.ends_at) == (NOW, NOW + day, until)
        assert (login.token_id, len(secret)) == (None, 43)
        hour = timedelta(hours=1)
        store.clock = lambda: NOW + hour
        assert await people.find_login(secret) == who
        assert (await kept()).expires_at == NOW + day, "not more than an hour is gone"
        store.clock = lambda: NOW + hour + timedelta(seconds=1)
        await people.find_login(secret)
        assert (await kept()).expires_at == NOW + hour + timedelta(seconds=1) + day
        store.clock = lambda: NOW + timedelta(hours=10)
        await people.find_login(secret)
        assert (await kept()).expires_at == until, "it ends with the credential"
        store.clock = lambda: until
        with pytest.raises(Unauthorized):
            await people.find_login(secret)
