"""What a door remembers of strangers is bounded, and old."""

import pytest

from gonogo.domain.errors import RateLimited, Unauthorized
from gonogo.server import auth
from gonogo.server.auth import Codes, Failures
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
    fail(failures, auth.ALLOWED)
    with pytest.raises(RateLimited):
        failures.add("a")
    failures.add("b")
    clock.now = auth.WINDOW + 1

    failures.add("a")


def test_many_addresses_do_not_pile_up(clock):
    failures = Failures(clock)
    for n in range(auth.ADDRESSES + 100):
        failures.add(str(n))

    assert len(failures._counts) == auth.ADDRESSES


def test_a_code_is_good_once_and_for_ten_minutes(clock):
    codes = Codes(clock)
    early, late = codes.new(OWNER), codes.new(OWNER)
    assert codes.spend(early) == OWNER
    clock.now = auth.CODE_SECONDS + 1

    for code in (early, late):
        with pytest.raises(Unauthorized):
            codes.spend(code)


def test_codes_do_not_pile_up_and_are_not_kept_as_given(clock):
    codes = Codes(clock)
    given = [codes.new(OWNER) for _ in range(auth.KEPT + 5)]

    assert len(codes._entries) == auth.KEPT
    assert not set(given) & set(codes._entries)
    with pytest.raises(Unauthorized):
        codes.spend(given[0])
