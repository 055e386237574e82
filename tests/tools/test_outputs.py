"""Results that are too long to be given whole: excerpts by rows, and any part of the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.tools import Bench, builtin_tools, excerpt, how_to_read, line_of, text_of
from gonogo.tools.command import ROW, beginning, rows_of
from gonogo.workspace import Workspace

pytestmark = pytest.mark.anyio
TOOL = builtin_tools()["read_output"]
LINES = {"path": "a.txt", "content": "".join(f"line {n}\n" for n in range(1, 5_001))}


@pytest.fixture
def read(tmp_path):
    """Reads a result, which is LINES by default."""

    async def reading(result=LINES, tokens=8_000, **arguments):
        async def output(call_id):
            assert call_id == "call_1"
            return result

        bench = Bench(workspace=Workspace(tmp_path), output=output, result_tokens=tokens)
        parsed = TOOL.parse({"id": "call_1", **arguments})
        final = TOOL.prepare(bench.workspace, parsed).arguments
        assert final == {"id": "call_1", **arguments}
        assert TOOL.run is not None
        return await TOOL.run(bench, TOOL.parse(final))

    return reading


@pytest.mark.feature(223)
async def test_any_rows_of_a_result_can_be_read(read):
    found = await read(**{"from": 1_000, "to": 1_002})
    # The path and the name of the content stand in two rows before the first line.
    assert found == {
        "id": "call_1", "rows": 5_003, "from": 1_000, "to": 1_002,
        "content": "line 998\nline 999\nline 1000", "truncated": False,
    }  # fmt: skip
    assert (await read(**{"from": 5_002}))["content"] == "line 5000\n"
    assert (await read(**{"from": 9_000}))["content"] == ""


@pytest.mark.feature(223)
async def test_one_reading_gives_no_more_than_the_bound(read):
    found = await read(tokens=250)
    assert 700 < len(found["content"]) <= 750
    assert (found["from"], found["truncated"]) == (1, True)
    more = await read(tokens=250, **{"from": found["to"] + 1})
    assert int(more["content"].split()[1]) == int(found["content"].split()[-1]) + 1


async def test_a_result_is_read_from_its_first_row_and_as_far_as_it_goes(read):
    assert await read({"a": "x", "b": "y"}) == {
        "id": "call_1", "rows": 2, "from": 1, "to": 2, "content": "a: x\nb: y", "truncated": False,
    }  # fmt: skip
    assert await read({"a": "xé", "b": "y"}, tokens=3) == {
        "id": "call_1", "rows": 2, "from": 1, "to": 1, "content": "a: xé", "truncated": True,
    }  # fmt: skip
    assert await read({"a": "x", "b": "y"}, pattern="y$") == {
        "id": "call_1", "rows": 2, "found": 1, "content": "2: b: y", "truncated": False,
    }  # fmt: skip
    many = await read({"a": "x\n" * 300}, pattern="x", to=201)
    assert (many["found"], many["truncated"]) == (200, False)
    more = await read({"a": "x\n" * 300}, pattern="x", to=202)
    assert (more["found"], more["truncated"]) == (201, True)
    assert more["content"].split("\n")[-1] == "201: x"


async def test_rows_that_match_are_found_with_their_places(read):
    found = await read(pattern="^line 49[0-9]9$", **{"from": 1_000})
    assert found["found"] == 10
    assert found["content"].split("\n")[0] == "4911: line 4909"
    assert (await read(pattern="nothing of this"))["content"] == ""
    assert (await read(pattern="line", tokens=100))["truncated"]


@pytest.mark.parametrize("pattern", ["(", "", "a\nb"])
async def test_a_pattern_that_is_none_is_refused(read, pattern):
    with pytest.raises(ToolFailed, check=lambda failure: failure.kind == "invalid_arguments"):
        await read(pattern=pattern)


async def test_a_pattern_that_would_never_end_is_ended(read, monkeypatch):
    monkeypatch.setattr("gonogo.workspace.files.search.TIME_LIMIT", 0.5)
    with pytest.raises(ToolFailed, check=lambda failure: failure.kind == "timeout"):
        await read("a" * 400 + "!", pattern="^(a+)+$")


async def test_where_there_is_no_record_nothing_is_read(tmp_path):
    assert TOOL.run is not None
    with pytest.raises(ToolFailed, check=lambda failure: failure.kind == "not_found"):
        await TOOL.run(Bench(workspace=Workspace(tmp_path)), TOOL.parse({"id": "call_1"}))


@pytest.mark.parametrize("wrong", [{}, {"id": "a", "from": 0}, {"id": "a", "first": "1"}])
def test_arguments_that_are_wrong_are_refused(wrong):
    with pytest.raises(InvalidArguments):
        TOOL.parse(wrong)


def test_a_result_is_read_by_its_lines():
    assert text_of({"a": 1, "b": "x\ny", "c": "z"}) == "a: 1\nb:\nx\ny\nc: z"
    assert text_of(["ж"]) == '["ж"]'
    assert text_of("x\ny") == "x\ny"


@given(some.text(alphabet="ab\nж", max_size=3_000))
def test_no_row_is_long_and_none_is_lost(text):
    rows = rows_of(text * 3)
    assert max(map(len, rows)) <= ROW
    assert "".join(rows) == (text * 3).replace("\n", "")


@given(some.integers(10, 2_000), some.integers(1, 400))
def test_an_excerpt_is_no_longer_than_its_tokens_and_says_what_it_leaves_out(tokens, count):
    text = "\n".join(f"row {n} of it" for n in range(1, count + 1))
    told = []

    def how(first, last):
        told.append((first, last))
        return "HOW"

    found = excerpt(text, tokens, how)
    note = next(line for line in found.split("\n") if line.startswith("["))
    assert len(found) - len(note) <= tokens * 4 + 2
    ((first, last),) = told
    kept = [line for line in found.split("\n") if line != note]
    assert kept == [*text.split("\n")[: first - 1], *text.split("\n")[last:]]
    assert note == (
        f"[{len(text)} characters in {count} rows; rows {first} to {last} are left out here. HOW]"
    )


def test_as_many_rows_are_taken_as_fit_with_their_ends():
    assert beginning(["ab", "é", "c"], 8) == ["ab", "é", "c"]
    assert beginning(["ab", "é", "c"], 7) == ["ab", "é"]
    assert beginning(["ab", "c"], 2) == []
    assert rows_of("a" * 1_001 + "\n\nb") == ["a" * 500, "a" * 500, "a", "", "b"]


def test_of_an_excerpt_two_thirds_are_its_beginning():
    text = "\n".join(f"row {n}" for n in range(10, 60))
    found = excerpt(text, 30, how_to_read("c1", "read_file"))

    assert found.split("\n") == [
        *(f"row {n}" for n in range(10, 21)),
        "[349 characters in 50 rows; rows 12 to 45 are left out here. read_output with"
        ' {"id": "c1", "from": 12, "to": 45} gives them, with "pattern" those that match.]',
        *(f"row {n}" for n in range(55, 60)),
    ]
    assert how_to_read("c1", "read_output")(1, 2) == "Ask for fewer rows."


def test_one_line_stands_for_a_result_that_was_given_before():
    given = {"path": "a.txt", "lines": [1, "ж"], "text": "x\n  y"}

    assert line_of("search", given, "c1", 5_000) == (
        '[search path=a.txt lines=[1, "ж"] text=x y: 5000 characters, given before and left out'
        ' here. To see them again: read_output with {"id": "c1"}.]'
    )
    assert line_of("read_output", {"id": "c1"}, "c2", 5) == (
        "[read_output id=c1: 5 characters, given before and left out here."
        " To see them again: call it again.]"
    )
    long = line_of("search", {"text": "x" * 300}, "c1", 5)
    assert long.startswith("[search text=" + "x" * 195 + ": 5 characters")
