"""Who may speak: tokens, shown without their secret, and what they are worth."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.world import World, world_of
from gonogo.domain.identity import Principal, Role
from gonogo.domain.text_safety import mixed_letters

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


async def entries(world: World, action: str) -> list[Any]:
    found = await world.runtime.audit.entries(world.runtime.owner)
    return [(e.actor, e.subject, e.details) for e in found if e.action == action]


async def test_a_token_is_shown_without_its_secret_and_its_life_is_on_record(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, {}) as world:
        people, owner = world.runtime.people, world.runtime.owner
        view, secret = await people.create_token(owner, "ann", Role.OPERATOR)
        assert view.token_id.startswith("token_")
        assert (secret[:4], len(secret)) == ("gng_", 47)
        assert (view.name, view.role, view.revoked_at) == ("ann", "operator", None)
        assert await people.tokens(owner) == [view]
        created = (view.token_id, {"name": "ann", "role": "operator"})
        assert await entries(world, "token.created") == [("local", *created)]

        await people.revoke_token(owner, view.token_id)
        [gone] = await people.tokens(owner)
        assert gone.revoked_at is not None
        assert gone.model_copy(update={"revoked_at": None}) == view
        assert await entries(world, "token.revoked") == [("local", view.token_id, {})]


async def test_the_token_of_the_state_folder_is_the_owner(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        people = world.runtime.people
        _, secret = await people.create_token(world.runtime.owner, "state-folder", Role.ADMIN)
        found = await people.authenticate(secret)

    assert found == Principal(id="local", name="local", role=Role.ADMIN)


async def test_a_name_of_several_scripts_is_refused_with_what_is_mixed(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        with pytest.raises(Exception, match=r"^A token's name must use one alphabet: ") as refused:
            await world.runtime.people.create_token(world.runtime.owner, "аnn", Role.VIEWER)
    assert str(refused.value).endswith(str(mixed_letters("аnn")))


async def test_how_long_a_credential_lasts_is_told_in_seconds(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        world.runtime.parts.store.clock = lambda: NOW
        left, ann = world.runtime.people.seconds_left, world.ann

        def of(until: datetime) -> Principal:
            return ann.model_copy(update={"until": until})

        assert left(ann) == math.inf
        assert left(of(NOW + timedelta(minutes=2))) == 120
        assert left(of(NOW - timedelta(minutes=2))) == 0
