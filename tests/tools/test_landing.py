"""An edit whose white space is off lands at its one place with the file's own, or not at all."""

import random
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gonogo
from gonogo.domain.errors import ToolFailed
from gonogo.tools.edits import (
    broken,
    differing,
    edited,
    ended_as,
    is_stray,
    landed,
    nearest,
    told,
)
from gonogo.tools.patch import apply_hunks, parse_patch
from plugins.nightly import examples

CODE = '''\
class Shelf:
    """What is kept."""

    def __init__(self, room):
        self.room = room
        self.kept = []

    def put(self, thing):
        if len(self.kept) < self.room:
            self.kept.append(thing)
            return True
        return False

    def count(self):
        return len(self.kept)
'''
PUT = CODE.splitlines(keepends=True)[7:12]
BETTER = [*PUT[:2], "            # There is room.\n", *PUT[2:4], "        raise Full(thing)\n"]


def tabs(text: str) -> str:
    return re.sub("^(    )+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.M)


def twos(text: str) -> str:
    return re.sub("^(    )+", lambda found: "  " * (len(found[0]) // 4), text, flags=re.M)


def flat(text: str) -> str:
    """One level less, as models quote a method."""
    return re.sub("^    ", "", text, flags=re.M)


def deep(text: str) -> str:
    return re.sub("^(?=.)", "    ", text, flags=re.M)


def blanks_behind(text: str) -> str:
    return text.replace("\n", "  \n")


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def same(text: str) -> str:
    return text


WAYS = (same, tabs, twos, flat, deep, blanks_behind, crlf)


@pytest.mark.parametrize(
    ("of_file", "of_edit"),
    [(a, b) for a in (same, tabs, twos, crlf) for b in WAYS if b("".join(PUT)) not in a(CODE)],
)
@pytest.mark.feature(228)
def test_an_edit_in_other_white_space_gives_what_it_means_in_the_files_own(of_file, of_edit):
    text, old, new = of_file(CODE), "".join(PUT), "".join(BETTER)
    whole = CODE.replace(old, new)

    after, place = edited(text, of_edit(old), of_edit(new)) or ("", ())

    assert place == (8, 12)
    # What an edit puts behind its own new lines is its own.
    assert re.sub(r" +(?=\r?$)", "", after, flags=re.M) == of_file(whole)


def test_lines_that_an_edit_keeps_stay_as_the_file_has_them():
    text = 'def f():\n    a = "two  blanks"   \n    b = 1 \n    return a\n'
    old = 'a = "two blanks"\nb = 1\n'
    new = 'a = "two blanks"\nb = 2\n'

    assert edited(text, old, new) == (text.replace("b = 1 ", "b = 2"), (2, 3))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a\n  b\na\nb\n", " a\nb\n", "x\n"),
        ("  a\n  b\n", "a\n  b\n", "c\n"),
        ("\ta\n", "  a\n", "  if a:\n   b\n"),
        ("\t  a\n", "a\n", "c\n"),
        ("  a\n", "a\n", "if a:\n\tb\n"),
        (" a\n", "  a\n", "c\n"),
        ("  a\n", "a \n", "c"),
        ("a\n\n\nb\n", " \n", "c\n"),
        ("a = 1\n", "a=1\n", "a=2\n"),
        ("        a\n", "    a\n", "  b\n"),
        ('a = "x  y"\n', 'a = "x y"\n', 'b = "x y"\n'),
    ],
    ids=["two places", "two shifts", "a part of a tab", "both in the file", "both in the edit",
         "less than nothing", "a lost line end", "nothing but blanks", "other words",
         "less than all that is known", "blanks of a string"],
)  # fmt: skip
def test_where_it_would_be_a_guess_nothing_lands(text, old, new):
    assert edited(text, old, new) is None


def test_the_end_of_a_file_stays_as_it_is():
    assert edited("a\n  b", "b ", "b\nc") == ("a\n  b\n  c", (2, 2))
    assert edited("a\n  b\n", "b ", "") == ("a\n\n", (2, 2))
    assert edited("a\n  b\n", "b \n", "") == ("a\n", (2, 2))
    assert edited("a\r\n  b", "b \n", "c\nd\n") == ("a\r\n  c\n  d", (2, 2))


@pytest.mark.parametrize("count", [3, 600])
def test_what_an_edit_keeps_at_its_ends_stays_however_long_it_is(count):
    middle = [f"x = {number}\n" for number in range(count)]
    text = ["if a:\n", "    b  = 1\n", *(f"    {line}" for line in middle), "    c  = 2\n", "d\n"]
    old = ["b = 1\n", *middle, "c = 2\n"]
    new = ["b = 1\n", *(f"y = {number}\n" for number in reversed(range(count))), "c = 2\n"]
    meant = [*text[:2], *(f"    {line}" for line in new[1:-1]), *text[-2:]]

    assert edited("".join(text), "".join(old), "".join(new)) == ("".join(meant), (2, count + 3))
    assert edited("".join(text), "".join(old), "".join([*old[:-1], "z\n", old[-1]])) == (
        "".join([*text[:-2], "    z\n", *text[-2:]]), (2, count + 3),
    )  # fmt: skip


def test_lines_that_are_all_alike_are_looked_through_in_one_go():
    many = 50_000
    assert edited("x \n" * 2 * many, "x\n" * many, "y\n") is None
    assert edited("x \n" * 2 * many, "x\n" * many + "y\n", "y\n") is None
    assert nearest(["a" * 200] * many, ["a" * 150 + "b" * 50])[0] == (1, 1)


WORDS = st.sampled_from(["a", "b()", "return c", "x = [1, 2]", "pass  # why"])
DEPTHS = st.lists(st.tuples(st.integers(0, 4), WORDS), min_size=1, max_size=14)


def lines_of(drawn, sign="    "):
    return [f"{sign * depth}{word} {number}\n" for number, (depth, word) in enumerate(drawn)]


@given(st.data())
@pytest.mark.feature(228)
def test_what_lands_is_what_was_meant_and_else_nothing(data):
    """Whatever the lines are: the place is right, or there is none."""
    drawn = data.draw(DEPTHS)
    first = data.draw(st.integers(0, len(drawn) - 1))
    last = data.draw(st.integers(first, len(drawn) - 1)) + 1
    added = data.draw(st.lists(st.tuples(st.integers(0, 4), WORDS), max_size=3))
    file_sign = data.draw(st.sampled_from(["    ", "\t", "  "]))
    edit_sign = data.draw(st.sampled_from(["    ", "\t", "  "]))
    less = data.draw(st.integers(0, min([depth for depth, _ in [*drawn[first:last], *added]])))

    def of_edit(chosen):
        return [line.removeprefix(edit_sign * less) for line in lines_of(chosen, edit_sign)]

    text = lines_of(drawn, file_sign)
    old = of_edit(drawn)[first:last]
    extra = [f"{line[:-1]}!\n" for line in lines_of(added, file_sign)]
    theirs = [f"{line[:-1]}!\n" for line in of_edit(added)]
    found = edited("".join(text), "".join(old), "".join([*old, *theirs]))

    if found is None:
        return
    after, place = found
    assert place == (first + 1, last)
    assert [line.strip() for line in after.splitlines()] == [
        line.strip() for line in [*text[:last], *extra, *text[last:]]
    ]
    assert after.splitlines(keepends=True)[:last] == text[:last]


SOURCES = sorted(Path(gonogo.__file__).parent.rglob("*[!_].py"))
"""No module is short but those that say what a package is for."""


def untouched(lines, _):
    return lines


def without_one(lines, chance):
    at = chance.randrange(len(lines))
    return lines[:at] + lines[at + 1 :]


def another_word(lines, chance):
    at = chance.randrange(len(lines))
    return [*lines[:at], re.sub(r"\w+", "other", lines[at], count=1), *lines[at + 1 :]]


def other_quotes(lines, _):
    return [line.translate({ord('"'): "'"}) for line in lines]


def cut_short(lines, chance):
    return [*lines[: 1 + chance.randrange(len(lines) - 1)], "        # ... as before ...\n"]


def numbered(lines, chance):
    at = chance.randrange(1_000)
    return [f"{at + number:>5}\t{line}" for number, line in enumerate(lines)]


def curly(lines, _):
    return [line.translate({ord('"'): "\u201d", ord("'"): "\u2019"}) for line in lines]


def of_a_patch(lines, chance):
    return [f"{chance.choice('-+')}{line}" for line in lines]


def escaped(lines, _):
    return ["".join(lines).replace("\n", "\\n") + "\n"]


WORDINGS = (
    *(untouched,) * 4, without_one, another_word, other_quotes, cut_short, numbered, curly,
    of_a_patch, escaped,
)  # fmt: skip


def compiles(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "x.py", "exec", dont_inherit=True)
        except SyntaxError:
            return False
        return True


def is_told_of(text, after):
    """Whether a result says that it can no longer be read just where that is so."""
    said = broken("x.py", text.encode(), after.encode())
    return bool(said) is (compiles(text) and not compiles(after))


def mangled(number, chance):
    """One edit of a file as a model gets it wrong. Gives whether it landed, and was told where."""
    lines = chance.choice(SOURCES).read_text().splitlines(keepends=True)
    length = min(len(lines), chance.randint(3, 9))
    first = chance.randrange(len(lines) - length + 1)
    white, of_file = chance.choice(WAYS), chance.choice((same, tabs, twos, crlf))
    text = of_file("".join(lines))
    quoted = chance.choice(WORDINGS)(lines[first : first + length], chance)
    code, breaks = next((line for line in quoted if line.strip()), ""), number % 5 == 0
    extra = re.sub(r"\S.*", "", code.rstrip()) + f"{'((' if breaks else '#'} {number}\n"
    old = white("".join(quoted))
    new = old + white(extra)
    found = (text.replace(old, new), None) if text.count(old) == 1 else edited(text, old, new)
    if found is None:
        near = nearest(text.split("\n"), old.rstrip("\n").split("\n"))
        return False, any(abs(begin - 1 - first) <= 2 for begin, _ in near)
    after, place = found
    assert not breaks or is_told_of(text, after)
    if place is None:
        assert first <= text[: text.index(old)].count("\n") <= first + length
    else:
        assert first < place[0] <= place[1] <= first + length
        meant = of_file("".join([*lines[: place[1]], extra, *lines[place[1] :]]))
        assert bare(after) == bare(meant), (text, place, white, of_file)
    return True, True


@pytest.mark.feature(228)
def test_of_a_thousand_mangled_edits_nearly_all_land_or_are_told_where_and_none_lands_wrong():
    """Lines of this project's own files, as models get them wrong."""
    chance, count = random.Random(7), examples(250, nightly=1_000)
    came = [mangled(number, chance) for number in range(count)]
    assert sum(landed for landed, _ in came) >= 0.25 * count
    assert sum(told for _, told in came) >= 0.95 * count


HEADERS = ("-{0},{1} +{0},{1}", "-{2},{1} +{2},{1}", "-{0},{3} +{0},{3}", "-{0} +{0}", "...")


@pytest.mark.feature(228)
def test_a_patch_with_any_header_lands_where_its_lines_are_or_is_told_that_they_are_there_twice():
    chance, count = random.Random(11), examples(100, nightly=1_000)
    landed = 0
    for number in range(count):
        lines = chance.choice(SOURCES).read_text().splitlines(keepends=True)
        length = min(len(lines), chance.randint(4, 9))
        first = chance.randrange(len(lines) - length + 1)
        region, middle = lines[first : first + length], length // 2
        body = [*(f" {line}" for line in region[:middle]), f"-{region[middle]}", f"+# {number}\n"]
        body += [f" {line}" for line in region[middle + 1 :]]
        header = chance.choice(HEADERS).format(
            first + 1, length, first + 8, length + chance.choice((-2, -1, 1, 2))
        )
        said = "".join(
            ["--- a/f\n+++ b/f\n", f"@@ {header} @@\n".replace("@@ ... @@", "@@"), *body]
        )
        (file,) = parse_patch(said)
        try:
            after = apply_hunks("f", "".join(lines), file.hunks).text
        except ToolFailed as failure:
            assert failure.kind == "not_unique"  # noqa: PT017 - most of them land
            continue
        landed += 1
        lines[first + middle] = f"# {number}\n"
        assert after == "".join(lines)
    assert landed >= 0.95 * count


def bare(text):
    """Its lines without what is blank at their ends."""
    return [line.rstrip() for line in text.split("\n")]


def test_the_nearest_places_are_those_with_the_most_lines_in_common_and_else_the_most_alike():
    lines = ["start", "  one", "  two", "end", "start", "  one", "  three", "end", "other"]
    assert nearest(lines, ["start", "one", "three!", "end"]) == [(1, 4), (5, 8)]
    assert nearest(lines, ["ather"]) == [(9, 9)]
    assert nearest(lines, ["nothing of the kind"]) == []
    assert nearest(lines, ["", " "]) == []
    assert nearest([*lines, *lines], ["start"]) == [(1, 1), (5, 5), (10, 10)]


def test_a_hunk_in_other_white_space_lands_and_is_told():
    lines = [
        "--- a/f", "+++ b/f", "@@ -1,2 +1,2 @@", " def put(self, thing):",
        "-    if len(self.kept) < self.room:", "+    if self.is_open:",
    ]  # fmt: skip
    (file,) = parse_patch("\n".join(lines))
    landed = apply_hunks("f", CODE, file.hunks)

    assert landed.text == CODE.replace("len(self.kept) < self.room", "self.is_open")
    assert landed.loosely == ((8, 9),)
    with pytest.raises(ToolFailed, match="hunk @@ -1; similar lines: 8-9; read the"):
        apply_hunks("f", CODE.replace("self.room:", "room:"), file.hunks)


def test_a_place_that_fits_loosely_is_told_in_the_result_and_a_near_one_in_the_error():
    kept = "had other white space than your text; the file's was kept"
    assert differing(()) == {}
    assert differing([(4, 4)]) == {"note": f"line 4 {kept}"}
    assert differing([(4, 5), (9, 9)]) == {"note": f"lines 4-5, 9 {kept}"}
    assert told("f", ["a\n", "b\n"], ["b\n"]) == "; similar lines: 2; read the file again"
    assert told("f", ["a\n", "b\n"], ["zzz\n"]) == ""
    assert told(".env", ["a\n", "b\n"], ["b\n"]) == ""


def test_lines_land_behind_the_line_from_which_they_are_looked_for():
    lines = ["a \n", "b\n", "a \n"]
    assert landed(lines, ["a\n"], ["c\n"]) is None
    assert landed(lines, ["a\n"], ["c\n"], 1) == (2, ["c\n"])
    assert landed(lines, ["a\n"], ["c\n"], 3) is None


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        # One tab for two blanks, and three blanks for one.
        ("if a:\n\tif b:\n\t\tc\n", "  if b:\n    c\n", "  if b:\n    d\n      e\n",
         "if a:\n\tif b:\n\t\td\n\t\t\te\n"),
        ("if a:\n   if b:\n      c\n", " if b:\n  c\n", " if b:\n  d\n e\n",
         "if a:\n   if b:\n      d\n   e\n"),
        # One level says how many blanks stand for a tab.
        ("if a:\n\tb\n", "  b\n", "  c\n    d\n", "if a:\n\tc\n\t\td\n"),
        # Blanks for tabs, and more of them.
        ("if a:\n    b\n", "\tb\n", "\tc\n\t\td\n", "if a:\n    c\n        d\n"),
        # Less is taken away all the same, and an empty line stays one.
        ("a\n  b\n", "    a\n      b\n", "    a\n\n      c\n", "a\n\n  c\n"),
        ("a\r\n  b\r\n", "a\n  b\n", "a\n  c\n  d\n", "a\r\n  c\r\n  d\r\n"),
        ("  a\n", "a\n", "a\n  b\n", "  a\n    b\n"),
    ],
)  # fmt: skip
def test_what_an_edit_brings_is_indented_as_what_it_found(text, old, new, after):
    assert (edited(text, old, new) or ("",))[0] == after


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("\tb\n", "   b\n", "   b\n  c\n"),
        ("\tb\n", " b\n", " c\n"),
        ("b\n  c\n", "b\n    c\n", "b\n   d\n"),
        ("    b\n  c\n", "b\n  c\n", "d\n"),
        ("a\n  b\n c\n", "a\n b\n  c\n", "d\n"),
    ],
    ids=["no whole tab", "one blank is no unit", "no whole blank", "the other way", "two ways"],
)  # fmt: skip
def test_an_indentation_that_follows_from_nothing_lands_nowhere(text, old, new):
    assert edited(text, old, new) is None


def test_the_nearest_places_are_three_apart_and_within_the_file():
    lines = ["x", "a", "b", "x", "a", "y", "a", "b", "a", "b"]
    assert nearest(lines, ["a", "b"]) == [(2, 3), (7, 8), (9, 10)]
    assert nearest(["b", "c"], ["a", "b", "c", "d"]) == [(1, 2)]
    assert nearest(["one two three", "four"], ["one two thrae", "zzz"]) == [(1, 2)]
    assert nearest(["zzz", "one two three"], ["q", "one two thrae", "q"]) == [(1, 2)]
    alike = ["abcd 1", "abcd 12", "abcd 123"]
    assert nearest(alike, ["abcd 1234"]) == [(3, 3), (2, 2), (1, 1)]


def test_a_text_that_lost_its_line_ends_is_near_the_lines_that_it_holds():
    lines = ["import os", "", "def first():", "    return os.getcwd()", "", "x = first()"]
    joined = "def first():\\n    return os.getcwd()\\n\\nx = first()"
    assert nearest(lines, [joined])[0] == (3, 3)
    assert nearest(lines, ["def first(): return os.getcwd() x = first()"])[0] == (3, 3)


def test_what_stands_in_the_middle_of_a_word_is_told_from_what_stands_by_itself():
    assert is_stray("discount = 0\ncount  = 0\n", 3, "count = 0")
    assert is_stray("a = 10\n\ta =  1\n", 0, "a = 1")
    assert not is_stray("discount = 0\n", 3, "count = 0")
    assert not is_stray("x.count = 0\n count  = 0\n", 2, "count = 0")


def test_new_lines_get_the_line_ends_of_a_file_that_has_only_the_others():
    assert ended_as("a\r\nb\r\n", "c\nd") == "c\r\nd"
    assert ended_as("a\r\nb\n", "c\nd") == "c\nd"
    assert ended_as("a\nb\n", "c\nd") == ended_as("", "c\nd") == "c\nd"
    assert ended_as("a\r\n", "c\r\nd\n") == "c\r\nd\n"
