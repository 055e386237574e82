"""Times as people write them, and the command itself."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from gonogo.cli.commands.analytics import moment
from gonogo.cli.support import Exit, Stop

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ("12h", NOW - timedelta(hours=12)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_a_time_is_how_long_ago_or_a_date(given, found):
    assert moment(given, NOW) == found


@pytest.mark.parametrize("given", ["yesterday", "0001-01-01T00:00+23:59"])
def test_anything_else_is_said_to_be_no_time(given):
    with pytest.raises(Stop) as caught:
        moment(given, NOW)
    assert caught.value.code is Exit.USAGE


def test_the_command_says_what_there_is_even_if_that_is_nothing(gonogo):
    done = gonogo("analytics", "--since", "2d", "--until", "1h", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"]["ended"] == 0
