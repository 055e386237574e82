"""What a door remembers of strangers is bounded, and old."""

import pytest

from gonogo.domain.errors import RateLimited, Unauthorized
from gonogo.server import _limits, _logins
from gonogo.server._limits import Failures
from gonogo.server._logins import Logins
from server.stand_in import OWNER


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(failures: Failures, times: int, address: str = "a") -> None:
    for _ in range(times):
        failures.add(address)


def test_a_minute_later_an_address_may_be_wrong_again(clock):
    failures = Failures(clock)
    fail(failures, _limits.ALLOWED)
    with pytest.raises(RateLimited):
        failures.add("a")
    failures.add("b")
    clock.now = _limits.WINDOW + 1

    failures.add("a")


def test_many_addresses_do_not_pile_up(clock):
    failures = Failures(clock)
    for n in range(_limits.ADDRESSES + 100):
        failures.add(str(n))

    assert len(failures._counts) == _limits.ADDRESSES


def test_a_code_is_good_for_ten_minutes(clock):
    logins = Logins(clock)
    code = logins.new_code(OWNER)
    clock.now = _logins.CODE_SECONDS + 1

    with pytest.raises(Unauthorized):
        logins.open(code)


def test_a_session_lives_as_long_as_it_is_used(clock):
    logins = Logins(clock)
    secret = logins.open(logins.new_code(OWNER))
    for _ in range(3):
        clock.now += _logins.SESSION_SECONDS - 1
        assert logins.find(secret) == OWNER
    clock.now += _logins.SESSION_SECONDS + 1

    with pytest.raises(Unauthorized):
        logins.find(secret)


def test_codes_and_sessions_do_not_pile_up_and_are_not_kept_as_given(clock):
    logins = Logins(clock)
    codes = [logins.new_code(OWNER) for _ in range(_logins.KEPT + 5)]

    assert len(logins._codes) == _logins.KEPT
    assert not set(codes) & set(logins._codes)
    with pytest.raises(Unauthorized):
        logins.open(codes[0])
