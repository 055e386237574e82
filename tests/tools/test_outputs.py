"""Results that are too long to be given whole: excerpts by rows, and any part of the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.tools import Bench, builtin_tools, excerpt, text_of
from gonogo.tools.outputs import ROW, rows_of
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
