"""Who stays with the runtime for hours takes the place of an owner that ends, and gives it up."""

from contextlib import ExitStack

import anyio
import pytest

from fakes.template import lay_out
from fakes.until import until
from gonogo.cli import daemon
from gonogo.cli.daemon import lasting
from gonogo.cli.folder import Folder, hold
from gonogo.settings import Settings


@pytest.fixture
def settings(tmp_path):
    lay_out(tmp_path / "home")
    (tmp_path / "config").mkdir()
    return Settings(
        home=tmp_path / "home", config=tmp_path / "config", workspace=tmp_path, model="demo"
    )


async def owner_until(settings, told, *, task_status):
    """Be the owner until that is enough; gives the session that it has opened."""
    async with lasting(settings) as place:
        assert place.runtime is not None
        task_status.started(await place.client.open_session())
        await told.wait()
        assert not await place.is_needed()


async def test_the_next_takes_the_place_as_soon_as_it_can_and_gives_it_to_a_server(
    settings, monkeypatch, caplog
):
    monkeypatch.setattr(daemon, "_AGAIN", 0.1)
    # The log of a command is that of its process.
    monkeypatch.setattr(daemon, "_log_to", lambda folder: None)
    folder, rules, enough = Folder(settings.home), settings.config / "rules.toml", anyio.Event()
    async with anyio.create_task_group() as group:
        session = await group.start(owner_until, settings, enough)
        async with lasting(settings) as place:
            assert place.runtime is None
            rules.write_text("broken")
            enough.set()
            await until(lambda: "could not be taken" in caplog.text)
            rules.unlink()
            assert await place.client.session(session.session_id) == session
            await until(lambda: place.runtime is not None)
            with folder.serving() as alone:
                assert alone
                await until(lambda: place.runtime is None)
                with ExitStack() as held:
                    await until(lambda: hold(held, folder.owned()))
            await until(lambda: place.runtime is not None)
