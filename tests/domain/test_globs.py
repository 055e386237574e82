"""Whether two globs overlap is answered exactly, and agrees with what the gate covers."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.domain import paths
from gonogo.domain.findings import EVERYTHING, Overlaps, common_path, plain
from gonogo.domain.paths import covers
from plugins.nightly import examples

NAMES = ["".join(name) for size in (1, 2) for name in product("ab", repeat=size)]
PATHS = [
    "/".join(names)
    for size, known in ((1, 6), (2, 6), (3, 3))
    for names in product(NAMES[:known], repeat=size)
]
PIECES = st.sampled_from(["a", "b", "ab", "*", "?", "**", "/", "/**/", "a*", "*b", "/a", "[a]"])
GLOBS = st.lists(PIECES, min_size=1, max_size=5).map("".join)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src", "src/deep/a.py", True),
        ("src/", "./src/a.py", True),
        ("src", "srcs/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/deep/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("src/**", "tests/**", False),
        ("**/*.md", "src/**", True),
        ("*.md", "src/**", False),
        ("docs/*.md", "docs/*.rst", False),
        ("a*", "*b", True),
        ("a?", "b?", False),
        ("?", "??", False),
        ("**/a/**", "b/**/c", True),
        ("x/[a]", "x/a", False),
        ("", "anything", True),
        (".", "anything", True),
        ("a" * 300, "b", True),
        ("*", "a/b", False),
        ("a/*/b", "a/b*", False),
        ("a/*/b", "a/b", True),
        ("Ж*", "Жук.txt", True),
        ("*b", "**a/b", False),
        ("a?b", "a/b", False),
        ("a**b", "a/b", True),
        ("x" * 256, "b", False),
    ],
)
def test_plain_cases_of_overlap(one, other, overlap):
    assert (common_path(one, other)[0] is not None) is overlap
    assert (common_path(other, one)[0] is not None) is overlap
    assert (Overlaps().any((one,), (other,)) is not None) is overlap


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ("**", "**", "x"), ("*", "?", "x"), ("**", "*", "x"), ("*.py", "a?.py", "ax.py"),
        ("src/**", "src/a.py", "src/a.py"), ("src", "**/b", "src/b"), ("*/*", "**", "x/x"),
        ("a/**", "*/**/b", "a/b"),
    ],
)  # fmt: skip
def test_a_path_that_both_cover_is_the_shortest_that_one_would_write(one, other, path):
    assert common_path(one, other)[0] == path
    assert common_path(other, one)[0] == path
    assert Overlaps().any((one,), (other,)) == path


@settings(max_examples=examples(120, nightly=400), deadline=None)
@given(GLOBS, GLOBS)
def test_the_answer_is_that_of_trying_every_path(one, other):
    found, _ = common_path(one, other)
    tried = [p for p in PATHS if covers((one,), p) and covers((other,), p)]

    if found is None:
        assert tried == []
    else:
        assert covers((one,), found)
        assert covers((other,), found)
        assert re.fullmatch(r"[^/]+(/[^/]+)*", found)
    assert (Overlaps().any((one,), (other,)) is None) is (found is None)


@given(GLOBS)
def test_a_glob_overlaps_itself_and_everything_if_it_covers_any_path(glob):
    found, _ = common_path(glob, EVERYTHING)

    assert (common_path(glob, glob)[0] is None) is (found is None)


def test_what_is_too_hard_to_compare_counts_as_overlapping():
    found, took = common_path("*a" * 120 + "x", "*b" * 120 + "y")

    assert took == 20_001
    assert found == "*a" * 120 + "x"


def test_comparing_ends_when_it_has_taken_too_long():
    overlaps = Overlaps(steps=3)

    assert overlaps.any(("a", "b", "c", "d"), ("x", "y")) is None
    assert overlaps.exhausted
    assert overlaps.any(("a",), ("a",)) is None


def test_a_pair_is_compared_once():
    overlaps = Overlaps()
    assert overlaps.any(("a*",), ("*b",)) == "ab"
    left = overlaps.steps
    assert overlaps.any(("a*",), ("*b",)) == "ab"

    assert overlaps.steps == left - 1


@pytest.mark.parametrize("glob", ["", ".", "./", "**", "x" * 257])
def test_globs_that_cover_everything_are_one(glob):
    assert plain(glob) == EVERYTHING == "**"
    assert plain("./a/b/") == "a/b"
    assert plain("x" * 256) == "x" * 256


@pytest.mark.parametrize(
    ("glob", "path", "covered"),
    [
        ("*a" * 30 + "b", "a" * 200, False),
        ("*a" * 30, "a" * 200, True),
        ("**/" * 30 + "x", "a/" * 100 + "y", False),
        ("**/*a" * 30 + "/x", "a/" * 100 + "x", True),
        ("**a" * 30 + "b", "a/" * 100, False),
    ],
)
def test_a_glob_of_many_wildcards_is_matched_in_one_pass(glob: str, path: str, covered: bool):
    assert covers([glob], path) is covered


@settings(max_examples=examples(200, nightly=2_000), deadline=None)
@given(st.lists(st.sampled_from(["*", "**", "**/", "?", "a", "b", "/"]), max_size=8).map("".join),
       st.text("ab/", max_size=9))  # fmt: skip
def test_one_pass_and_a_regular_expression_cover_the_same(glob: str, path: str):
    tokens = re.findall(r"\*\*/?|.", glob)
    pattern = "".join(map(paths._translated, tokens))
    assert paths._Steps(tokens).match(path) is (re.fullmatch(pattern, path) is not None)
