"""The schema goes up under processes that share the work, as far as their code can go on."""

import inspect
import re
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from sqlalchemy import Engine, text

from gonogo.domain.errors import Busy, Conflict
from gonogo.store import Membership, Store, steps
from gonogo.store.migrate import EXPANDED_FROM, HEAD, migrate_beside, version_of
from store.older import make
from store.test_schema import differences, engine_of

pytestmark = [pytest.mark.parametrize("kind", ["postgresql"]), pytest.mark.feature(235)]

OTHERS = {"gonogo 7 on host 0a1b": EXPANDED_FROM, "gonogo 8 on host 2c3d": EXPANDED_FROM}
_TAKES_AWAY = re.compile(
    r"drop_|rename|alter_column|add_column\(.*nullable=False(?!.*server_default)"
)
_LOCKS = text("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'gonogo %'")
_WAITS = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


@pytest.fixture
def engine(empty_url: str, kind: str) -> Engine:
    make(empty_url)
    return engine_of(empty_url)


def test_no_step_takes_away_what_code_needs_that_may_still_run(kind: str) -> None:
    source, last = inspect.getsource(steps), inspect.getsource(steps.STEPS[EXPANDED_FROM])
    since = source.partition(last)[2]

    assert EXPANDED_FROM <= HEAD
    assert all(f"def {step.__name__}(" in since for step in _since(EXPANDED_FROM))
    assert not _TAKES_AWAY.search(since), "count EXPANDED_FROM up"


def test_the_steps_stand_in_their_order_and_the_last_one_makes_the_newest_schema(kind: str) -> None:
    lines = [inspect.getsourcelines(step)[1] for step in steps.STEPS.values()]

    assert lines == sorted(lines)
    assert list(steps.STEPS) == [f"{n:04}" for n in range(4, int(HEAD) + 1)]


def _since(version: str) -> list[Callable[..., None]]:
    return [step for made, step in steps.STEPS.items() if made > version]


def test_it_goes_up_under_those_whose_code_can_go_on(engine: Engine, kind: str) -> None:
    migrate_beside(engine, lambda: OTHERS, 5)
    assert version_of(engine) == HEAD
    assert differences(engine) == []
    engine.dispose()


@pytest.mark.parametrize("schema", ["0003", "", "ff8e1d2c3b4a"])
def test_it_stays_for_one_whose_code_could_not(engine: Engine, kind: str, schema: str) -> None:
    older = {**OTHERS, "gonogo 9 on host 4e5f": schema}
    with pytest.raises(Conflict, match=r"still use: gonogo 9 on host\. Stop them"):
        migrate_beside(engine, lambda: older, 5)
    assert version_of(engine) == "0003"
    engine.dispose()


def test_it_waits_for_a_moment_without_readers_and_is_as_before_if_none_comes(
    engine: Engine, kind: str
) -> None:
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM sessions"))
        with pytest.raises(Busy):
            migrate_beside(engine, lambda: OTHERS, 0.1)
        assert version_of(engine) == "0003"
        going_up = threading.Thread(target=migrate_beside, args=(engine, lambda: OTHERS, 20))
        going_up.start()
        with engine.connect() as looker:
            until_true(lambda: looker.execute(_WAITS).scalar())
    going_up.join(20)
    assert version_of(engine) == HEAD
    engine.dispose()


def test_those_who_share_the_work_are_known_with_the_schema_of_their_code(
    empty_url: str, kind: str
) -> None:
    member = Membership(kind="worker", pool="default", home="home")
    with closing(Store(empty_url, drives=True, shared_as=member)) as first:
        with closing(Store(empty_url, drives=True, shared_as=member)):
            assert list(first._backend.lock.sharers().values()) == [HEAD, HEAD]
        # PostgreSQL lets go of what a connection held a moment after that was closed.
        until_true(lambda: len(first._backend.lock.sharers()) == 1)
    with closing(Store(empty_url, drives=True)) as alone:
        until_true(lambda: alone._backend.lock.sharers() == {})


def test_one_that_joins_when_the_schema_has_gone_up_meanwhile_is_refused(
    empty_url: str, kind: str
) -> None:
    Store(empty_url).close()
    engine = engine_of(empty_url)
    beside = engine.execution_options(isolation_level="AUTOCOMMIT")
    refused = list[str]()

    def join() -> None:
        member = Membership(kind="worker", pool="default", home="home")
        try:
            Store(empty_url, drives=True, shared_as=member, patience=60).close()
        except Conflict as error:
            refused.append(str(error))

    with closing(Store(empty_url, drives=True)), beside.connect() as looker:
        joining = threading.Thread(target=join)
        joining.start()
        until_true(lambda: looker.execute(_LOCKS).scalar_one() > 1)
        with engine.begin() as later:
            later.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    joining.join(60)
    assert refused == [
        f"The database has the schema 9999, newer than {HEAD}: upgrade gonogo to use it"
    ]
    engine.dispose()


def until_true(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)
