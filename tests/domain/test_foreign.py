"""Foreign tools have names that cannot be mistaken, and count only as they were accepted."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from gonogo.domain.tool_calls import (
    Sighting,
    ToolHistory,
    foreign_name,
    server_of,
    server_problem,
    tool_problem,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def seen(position, letter, *, accepted=False, **said):
    """A sighting on the day of its position."""
    return Sighting(
        name="mcp__docs__search", position=position, digest=letter,
        definition={"name": "search", "description": letter, "parameters": {}, **said},
        seen_at=START + position * DAY, accepted_at=START if accepted else None,
        accepted_by="ann" if accepted else None,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["docs", "a", "my-docs", "my_docs", "0", "a" * 31])
def test_a_server_has_a_plain_name(name):
    assert server_problem(name) is None
    assert server_of(foreign_name(name, "_x__y")) == name


@pytest.mark.parametrize(
    "name", ["", "Docs", "a__b", "a_", "_a", "-a", "a.b", "ä", "a" * 32, "a\n"]
)
def test_a_server_has_no_name_that_could_be_read_in_two_ways(name):
    assert server_problem(name) == (
        "a server's name has small letters, digits, - and single _, up to 31, no _ at its ends"
    )


LETTERS = "a tool's name has small letters, digits, - and _, and nothing else"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [("search", None), ("Search", LETTERS), ("a b", LETTERS), ("", LETTERS), ("a" * 53, None),
     ("a" * 54, "mcp__docs__ and the tool's name are longer than 64 together"),
     ("a\u0430", LETTERS)],
)  # fmt: skip
def test_a_tool_whose_name_does_not_fit_is_told_why(tool, problem):
    assert tool_problem("docs", tool) == problem
    assert foreign_name("docs", tool) == f"mcp__docs__{tool}"


@pytest.mark.parametrize("name", ["read_file", "mcp__", "mcp__docs", "mcp__docs__", "mcp____x"])
def test_what_names_no_server_and_tool_is_not_foreign(name):
    assert not server_of(name)


def test_what_was_allowed_counts_for_the_tool_as_it_was_then():
    standing = ToolHistory([seen(1, "a", accepted=True), seen(2, "b"), seen(3, "c")])
    assert not standing.accepted
    assert not standing.covers(START + 1 * DAY)
    assert not standing.covers(START + 2 * DAY)
    assert standing.covers(START + 3 * DAY)
    assert not standing.covers(START), "it was allowed before anybody had seen it"
    assert standing.changed == ("description",)


def test_a_tool_that_is_again_as_it_was_accepted_counts_as_ever():
    standing = ToolHistory([seen(1, "a", accepted=True), seen(2, "b"), seen(3, "a")])
    assert standing.accepted
    assert standing.covers(START + 2 * DAY)
    assert standing.covers(START)
    assert standing.changed == ()


def test_what_was_allowed_for_other_words_does_not_count_for_those_that_came_back():
    standing = ToolHistory([seen(1, "a", accepted=True), seen(2, "b"), seen(3, "c"), seen(4, "b")])
    assert standing.covers(START + 2 * DAY)
    assert not standing.covers(START + 3 * DAY)


def test_what_changed_is_told_against_what_was_accepted_last():
    first, other = seen(1, "a", accepted=True), seen(2, "b", accepted=True, parameters={"x": 1})
    assert ToolHistory([first, other, seen(3, "c")]).changed == ("description", "parameters")
    assert ToolHistory([seen(3, "c")]).changed == ("description", "parameters"), "none was accepted"


def test_a_tool_that_changes_all_the_time_is_restless_until_it_is_accepted_or_keeps_still():
    def at(hours, **more):
        return replace(seen(hours, str(hours), **more), seen_at=START + hours * HOUR)

    changes = [at(hours) for hours in range(1, 21)]
    now = START + 20 * HOUR
    assert ToolHistory([at(0, accepted=True), *changes]).is_restless(now)
    assert not ToolHistory([at(0, accepted=True), *changes[1:]]).is_restless(now)
    assert not ToolHistory([at(0, accepted=True), *changes]).is_restless(START + DAY + HOUR)
    assert not ToolHistory([*changes, at(21, accepted=True)]).is_restless(now)
    accepted = replace(changes[-2], accepted_at=now)
    assert not ToolHistory([*changes[:-2], accepted, changes[-1]]).is_restless(now)


def test_what_was_accepted_last_is_what_a_tool_is_compared_with():
    standing = ToolHistory([seen(1, "a", accepted=True), seen(2, "b", accepted=True), seen(3, "c")])
    assert standing.as_accepted == standing.sightings[1]
    assert ToolHistory([seen(1, "a")]).as_accepted is None
    assert ToolHistory([seen(1, "a")]).changed == ("description", "parameters")
