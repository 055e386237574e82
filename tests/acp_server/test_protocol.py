"""A line is read as a message or answered with what is wrong; a method gets what it takes."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import RequestError
from pydantic import BaseModel

from gonogo.acp_server.protocol import Pipe, ProtocolReply, Route, Router, refused
from gonogo.domain.base import MAX_BYTES
from gonogo.domain.errors import Conflict


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Callable[[bytes], Pipe]]:
    """A pipe from which these bytes come, and what is written goes into a file."""
    opened: list[int] = []
    pipes: list[Pipe] = []

    def over(data: bytes) -> Pipe:
        (tmp_path / "in").write_bytes(data)
        opened.append(os.open(tmp_path / "in", os.O_RDONLY))
        opened.append(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
        pipes.append(Pipe(*opened[-2:]))
        return pipes[-1]

    yield over
    for pipe in pipes:
        pipe._into.close()
        pipe._out.close()
    for handle in opened:
        os.close(handle)


async def messages(pipe: Pipe) -> list[Any]:
    """All that comes."""
    found = []
    with anyio.fail_after(60):
        while (message := await pipe.receive()) is not None:
            found.append(message)
    return found


async def written(pipe: Pipe, tmp_path: Path) -> list[Any]:
    """All that was sent."""
    await pipe.close()
    await pipe.write()
    return [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]


REFUSED = [
    (b"\xff\xfe", None, -32700, "Parse error: Not valid UTF-8; send UTF-8"),
    (b'{"a": 1, "a": 2}', None, -32700, (
        "Parse error: An object has the same key twice; keep one of them"
    )),
    (b"[" * 200, None, -32600, "The message is nested more than 32 levels deep; make it flatter"),
    (b'"text"', None, -32600, "Invalid request: a message is one object"),
    (b"[]", None, -32600, "Invalid request: a message is one object"),
    (b"{}", None, -32600, "Invalid request: a message has a method or an id"),
    (b'{"id": [1], "result": 1}', None, -32600, "Invalid request: id is a number or a string"),
    (b'{"id": true, "result": 1}', None, -32600, "Invalid request: id is a number or a string"),
    (b'{"id": 1.5, "result": 1}', None, -32600, "Invalid request: id is a number or a string"),
    (b'{"id": 1, "error": "no"}', None, -32600, "Invalid request: error is an object"),
    (b'{"id": 1, "result": {}, "error": {"code": 1}}', None, -32600, (
        "Invalid request: an answer has a result or an error, not both"
    )),
    (b'{"id": 4, "method": 5}', None, -32600, "Invalid request: method is a string"),
    (b'{"method": "x", "id": 7, "a": NaN}', 7, -32700, "Parse error: NaN is not JSON"),
    (b'{"id":"a-7" , "method":"x", "a": NaN}', "a-7", -32700, "Parse error: NaN is not JSON"),
    (b'{"id": -3, "method" : "x", "a": NaN}', -3, -32700, "Parse error: NaN is not JSON"),
    (b'{"id": 7, "result": NaN}', None, -32700, "Parse error: NaN is not JSON"),
    (
        b'{"method": "x", "a": "' + b"x" * 256 + b'", "id": 7, "b": NaN}',
        None, -32700, "Parse error: NaN is not JSON",
    ),
]  # fmt: skip


async def test_a_line_that_is_no_message_is_answered_with_what_is_wrong_with_it(pipe, tmp_path):
    door = pipe(b"\n".join(line for line, *_ in REFUSED) + b"\n")

    assert await messages(door) == []
    assert await written(door, tmp_path) == [
        {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": said}}
        for _, number, code, said in REFUSED
    ]


async def test_messages_come_in_order_and_the_last_needs_no_end(pipe, tmp_path):
    sent = [
        {"method": "a"}, {"method": "b", "id": None}, {"id": "1", "result": {}},
        {"id": "x", "error": None}, {"id": None, "error": {}}, {"method": "c", "id": "y"},
    ]  # fmt: skip
    door = pipe("\n\n \r\n".join(map(json.dumps, sent)).encode())

    assert await messages(door) == sent
    assert await messages(door) == []
    assert await written(door, tmp_path) == []


async def test_a_line_may_be_as_long_as_a_message_and_after_a_longer_one_the_next_is_read(
    pipe, tmp_path
):
    frame = len(b'{"method":""}')
    whole, longer = (
        b'{"method":"' + b"x" * (MAX_BYTES - frame + more) + b'"}\n' for more in (0, 200_000)
    )
    door = pipe(whole + longer + b'{"method":"next"}\n')

    first, second = await messages(door)

    assert len(first["method"]) == MAX_BYTES - frame
    assert second == {"method": "next"}
    [answer] = await written(door, tmp_path)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert answer["error"]["message"] == f"The message has more than {MAX_BYTES} bytes; shorten it"


async def test_what_is_to_follow_an_answer_follows_it_and_a_closed_pipe_takes_nothing(
    pipe, tmp_path
):
    door, done = pipe(b""), []
    reply = ProtocolReply({"a": 1}, lambda: done.append("then"))
    await door.send({"id": 1, "result": reply})
    await door.send({"id": 2, "result": {}})
    assert done == ["then"]
    assert await written(door, tmp_path) == [{"id": 1, "result": {"a": 1}}, {"id": 2, "result": {}}]
    with pytest.raises(ConnectionError, match=r"^Connection closed$"):
        await door.send({"id": 3, "result": reply})
    assert done == ["then"]


async def test_a_question_is_known_by_its_parameters_once(pipe):
    door, params, told = pipe(b""), {"a": 1}, {"b": 2}
    await door.send({"id": 5, "method": "ask", "params": params})
    await door.send({"method": "tell", "params": told})

    assert door.number_of(told) is None
    assert door.number_of({"a": 1}) is None
    assert (door.number_of(params), door.number_of(params)) == (door.first + 5, None)


async def test_an_answer_to_an_agent_that_is_gone_answers_nothing_of_the_next_one(pipe, tmp_path):
    gone, door = pipe(b""), pipe(b"")
    await door.send({"id": 0, "method": "ask", "params": {}})
    [asked] = await written(door, tmp_path)
    assert asked["id"] == door.first != gone.first
    late, now, others = ({"id": n, "result": {}} for n in (gone.first, door.first, "0"))
    lines = b"\n".join(json.dumps(each).encode() for each in (late, now, others))
    again = pipe(lines)
    again.first = door.first

    numbers = [message["id"] for message in await messages(again)]

    assert numbers == [gone.first - door.first, 0, "0"]


class Asked(BaseModel):
    """What a method takes."""

    word: str = "nothing"
    number: int


@pytest.fixture
def router() -> Router:
    """A method and a notification, which do as the word says."""

    async def answer(asked: Asked) -> dict[str, Any]:
        match asked.word:
            case "conflict":
                raise Conflict("It is over")
            case "refused":
                raise refused("It cannot be")
            case "broken":
                raise ValueError("secret detail")
            case _:
                return {"said": asked.word, "number": asked.number}

    route = Route(Asked, answer)
    return Router({"ask": route}, {"tell": route})


async def test_a_method_is_answered_with_what_it_gives(router):
    assert await router("ask", {"number": 1}, False) == {"said": "nothing", "number": 1}


@pytest.mark.parametrize(
    ("method", "params", "code", "said", "data"),
    [
        ("tell", {"number": 1}, -32601, "Method not found", {"method": "tell"}),
        ("ask", None, -32602, "Invalid params",
         {"errors": [{"field": "number", "problem": "Field required"}]}),
        ("ask", {"number": 1, "word": [1]}, -32602, "Invalid params",
         {"errors": [{"field": "word", "problem": "Input should be a valid string"}]}),
        ("ask", {"number": 1, "word": "conflict"}, -32001, "It is over", {"code": "conflict"}),
        ("ask", {"number": 1, "word": "refused"}, -32602, "It cannot be", None),
        ("ask", {"number": 1, "word": "broken"}, -32603,
         "Internal error: ValueError; the log has more",
         {"code": "internal", "template": "Internal error: {kind}; the log has more",
          "params": {"kind": "ValueError"}}),
    ],
)  # fmt: skip
async def test_a_method_that_cannot_be_answered_says_why(router, method, params, code, said, data):
    with pytest.raises(RequestError) as error:
        await router(method, params, False)

    assert (error.value.code, str(error.value), error.value.data) == (code, said, data)


async def test_a_notification_is_never_answered_and_what_is_wrong_with_it_is_logged(router, caplog):
    given = {"number": 1}
    for word in ("nothing", "conflict", "refused", "broken"):
        assert await router("tell", {**given, "word": word}, True) is None
    assert await router("ask", given, True) is None
    assert await router("tell", {}, True) is None

    assert [record.getMessage() for record in caplog.records] == [
        "tell: It is over", "tell: It cannot be", "tell failed", "tell: Invalid params",
    ]  # fmt: skip
    assert "secret detail" in caplog.text


async def test_a_method_that_breaks_is_in_the_log_with_all_of_it(router, caplog):
    with pytest.raises(RequestError):
        await router("ask", {"number": 1, "word": "broken"}, False)

    assert [record.getMessage() for record in caplog.records] == ["ask failed"]
    assert "secret detail" in caplog.text
