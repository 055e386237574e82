"""Being signed in with a browser outlives the process, and nothing else that it should not."""

from datetime import timedelta
from pathlib import Path

import pytest

from fakes.world import world_of
from gonogo.domain.errors import Unauthorized
from gonogo.domain.identity import Role
from gonogo.runtime.people import LASTS


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
