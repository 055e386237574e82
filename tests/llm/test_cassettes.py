"""Cassettes: what was said to a provider is recorded without its secrets, and played without it."""

import gzip
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from functools import partial

import anyio
import httpx2
import msgspec
import pytest

from gonogo.domain.errors import ModelFailed, ModelNotConfigured
from gonogo.domain.tool_calls import Reply, UserText
from gonogo.llm import ModelRole, open_model, secrets_in
from gonogo.llm.model import TokenPrice
from gonogo.llm.recording import Player, Recorder
from gonogo.llm.scripted import (
    AskedModel,
    HttpExchange,
    PackedPiece,
    Redaction,
    bytes_of,
    difference,
    is_same,
    path_of,
    piece_of,
    read_cassette,
)

KEY = "sk-test-0123456789abcdef"
OTHER = "hunter2-hunter2"
LINE = b'{"model": "openai:x", "method": "POST", "path": "/", "body": "{}"'
EMPTY = "it contains no recorded exchanges; record the file again"
NO_EXCHANGE = "line 1 is not a recorded exchange; record the file again"
UNREADABLE = "the price or the address of a model in it cannot be read; record it again"
pytestmark = pytest.mark.anyio


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "tape.jsonl"


@pytest.fixture
def record(settings, tape, asked):
    """Asks several things of one recorded model, and gives the replies or failures."""

    async def run(*conversations, **changes):
        model = open_model(settings(record=tape, secrets=(OTHER,), **changes), {})
        return await answers(model, asked, conversations)

    return run


@pytest.fixture
def replay(settings, tape, asked):
    async def run(*conversations, name="", session="", **changes):
        given = {"name": f"replay:{tape}{name}", "base_url": None, "api_key": None, **changes}
        model = open_model(settings(**given), {})
        return await answers(model, partial(asked, session=session), conversations)

    return run


async def answers(model, asked, conversations):
    found = []
    for messages in conversations:
        try:
            with anyio.fail_after(60):
                found.append(await model.request(asked(*messages), found.append))
        except ModelFailed as failure:
            found.append(str(failure))
    await model.aclose()
    return found


def says(*texts):
    return [UserText(content=text) for text in texts]


def told(found):
    """What came of requests, without what is new each time."""
    return [
        (each.text, [(c.name, c.arguments) for c in each.calls], each.usage.input_tokens)
        if isinstance(each, Reply) else each
        for each in found
    ]  # fmt: skip


async def test_what_was_recorded_is_played_piece_by_piece_and_asks_nobody(
    provider, record, replay, tape
):
    call = {"name": "read_file", "arguments": {"path": "a.py"}}
    provider.replies({"text": ["Привет, ", "world"], "calls": [call]}, {"text": "Bye"})
    recorded = await record(says("One"), says("Two"))
    asked = len(provider.requests)
    played = await replay(says("Two"), says("One"))
    assert sorted(map(str, told(played))) == sorted(map(str, told(recorded)))
    assert [each for each in played if isinstance(each, str)] == ["Bye", "Привет, ", "world"]
    assert {each.model for each in played if isinstance(each, Reply)} == {"openai:scripted"}
    assert len(provider.requests) == asked == 2


async def test_a_cassette_is_for_its_owner_only_and_holds_no_key(provider, record, tape):
    provider.replies({"text": "Hi"}, {"status": 401, "error": f"Incorrect API key: {KEY}"})
    tape.touch(mode=0o644)
    await record(says(f"My keys:\n{KEY}\n{OTHER} and gng_{'x' * 30}"), says("Again"))
    text = tape.read_text()
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600
    for secret in (KEY, OTHER, "gng_x", "uthorization"):
        assert secret not in text
    first, second = read_cassette(tape)
    assert "My keys:\\n***\\n*** and ***" in first.body
    assert "Incorrect API key: ***" in second.chunks[0]
    # What is packed could not be looked through.
    assert {headers["accept-encoding"] for headers in provider.headers} == {"identity"}


async def test_a_key_that_does_not_look_like_one_is_taken_out_all_the_same(provider, record, tape):
    provider.replies({"text": "Hi"})
    await record(says("It is plain words"), api_key="plain words")
    assert "It is ***" in read_cassette(tape)[0].body
    assert "plain words" not in tape.read_text()


async def test_a_request_with_what_was_taken_out_is_the_same_request_still(
    provider, record, replay, tape
):
    provider.replies({"text": "Thanks"})
    conversation = says(f"Here:\n{OTHER}")
    await record(conversation)
    assert told(await replay(conversation, secrets=(OTHER,)))[-1][0] == "Thanks"


async def test_a_reply_that_holds_a_secret_is_left_out_even_if_it_comes_in_pieces(
    provider, record, replay, tape, caplog
):
    provider.replies({"text": ["It is hunter2", "-hunter2", "."]}, {"text": "Fine"})
    await record(says("Tell"), says("More"))
    assert [bool(each.chunks) for each in read_cassette(tape)] == [False, True]
    assert "held a secret" in caplog.text
    (failure,) = await replay(says("Tell"))
    assert "held a secret" in failure


@pytest.mark.parametrize(
    ("answer", "chunks", "withheld"),
    [
        (gzip.compress(b"Hi"), ("Hi",), False),
        (gzip.compress(json.dumps(f"Hi {OTHER}").encode()), (), True),
        (b"not packed at all", (), False),
    ],
    ids=["packed", "secret", "broken"],
)
def test_an_answer_that_is_packed_is_recorded_as_it_is_read(tape, answer, chunks, withheld):
    recorder = recorder_of(tape)
    asked = httpx2.Request("POST", "http://x/v1/a?key=secret&b=1", content=b"{}")
    response = httpx2.Response(200, headers={"content-encoding": "gzip", "set-cookie": "a=b"})
    kept = recorder.exchange(asked, response, [answer[:5], answer[5:]], None)
    assert (kept.chunks, kept.withheld) == (chunks, withheld)
    assert (kept.path, kept.headers) == ("/v1/a?b=1", {})


async def test_what_broke_off_and_what_was_refused_is_played_too_in_its_order(
    provider, record, replay
):
    provider.replies(
        {"status": 503, "error": "Overloaded"},
        {"text": ["Half", "way", "there"], "cut": 2},
        {"text": ["Half", "way", "there"]},
    )
    recorded = await record(says("Go"))
    assert told(await replay(says("Go"))) == told(recorded)
    assert told(recorded)[-1][0] == "Halfwaythere"


async def test_a_request_that_is_cancelled_is_recorded_as_far_as_its_answer_came(
    provider, settings, asked, tape
):
    provider.replies({"text": ["Half", "way"], "pause": 0.5})
    model = open_model(settings(record=tape), {})
    with anyio.CancelScope() as scope:
        await model.request(asked(), lambda _text: scope.cancel())
    await model.aclose()
    assert scope.cancelled_caught
    (kept,) = read_cassette(tape)
    assert "Half" in "".join(kept.chunks)
    assert "way" not in "".join(kept.chunks)


async def test_requests_at_the_same_time_are_recorded_whole_each_with_its_own_answer(
    provider, settings, asked, replay, tape
):
    rules = [{"when": {"last": f"No {n}."}, "reply": {"text": [f"{n} ", "x" * 9_000, " end"]}}
             for n in range(8)]  # fmt: skip
    provider.script({"rules": rules})
    models = [open_model(settings(record=tape), {}) for _ in range(2)]
    async with anyio.create_task_group() as group:
        for n in range(8):
            asking = asked(UserText(content=f"No {n}."))
            group.start_soon(models[n % 2].request, asking, lambda _text: None)
    for model in models:
        await model.aclose()
    assert len(read_cassette(tape)) == 8
    for n in range(8):
        assert (await replay(says(f"No {n}.")))[-1].text == f"{n} {'x' * 9_000} end"


async def test_a_server_that_is_not_there_is_recorded_as_such(record, replay, tape):
    (failure,) = await record(says("Go"), base_url="http://u:pass-word@127.0.0.1:9/v1")
    (played,) = await replay(says("Go"))
    assert [each.error for each in read_cassette(tape)] == ["ConnectError"] * 3
    assert "pass-word" not in tape.read_text()
    assert played == failure


async def test_the_same_request_gets_its_answers_one_after_the_other_and_no_more(
    provider, record, replay
):
    provider.replies({"text": "first"}, {"text": "second"})
    await record(says("Same"), says("Same"))
    first, second, third = told(
        each for each in await replay(*[says("Same")] * 3) if each not in ("first", "second")
    )
    assert (first[0], second[0]) == ("first", "second")
    assert "made more often than it was recorded" in third


async def test_another_request_is_told_where_it_differs(provider, record, replay):
    provider.replies({"text": "A"}, {"text": "B"})
    await record(says("Something else"), says("Count the files in src"))
    (failure,) = await replay(says("Count the tests in src"))
    assert "it is not the recorded one. Nearest is exchange 2: messages[1].content" in failure
    assert "differs at character 10" in failure
    assert "'Count the files in src'" in failure
    assert "'Count the tests in src'" in failure


async def test_requests_are_compared_byte_for_byte(provider, record, replay, tape):
    provider.script({"default": {"text": "Hi"}})
    for said in ("plan_" + "a" * 32, "in 0.1s", "at 2026-01-02T03:04:05Z", "/srv/a/x.py"):
        tape.unlink(missing_ok=True)
        await record(says(said))
        assert told(await replay(says(said)))[-1][0] == "Hi"
        (failure,) = await replay(says(said[:-1] + "9"))
        assert f"differs at character {len(said) - 1}" in failure


@pytest.mark.parametrize(
    ("recorded", "now", "same"),
    [
        ('{"a":"***"}', '{"a": "hunter2"}', True),
        ('{"a":"x *** y ***"}', '{"a":"x \\"one\\" y two words"}', True),
        ('{"a":"***"}', '{"a":""}', False),
        ('{"a":"***"}', '{"a":"b","c":"d"}', False),
        ('{"a":"x *** y *** z"}', '{"a":"x 1 z"}', False),
        ('{"a":"x *** y"}', '{"a":"y *** x"}', False),
        ('{"a":"b"}', '{"a":"b"}', False),
    ],
)
def test_in_the_place_of_a_secret_that_was_taken_out_any_text_may_stand(recorded, now, same):
    assert is_same(recorded, now) is same


async def test_who_plays_a_cassette_need_not_have_the_secrets_of_who_recorded_it(
    provider, record, replay
):
    provider.replies({"text": "Thanks"})
    await record(says(f"The password is {OTHER}, keep it"))
    assert told(await replay(says(f"The password is {OTHER}, keep it"), secrets=()))[-1][0] == (
        "Thanks"
    )
    assert told(await replay(says("The password is another one, keep it")))[-1][0] == "Thanks"
    (failure,) = await replay(says(f"The password is {OTHER}, lose it"))
    assert "keep it" in failure
    assert "lose it" in failure


async def test_what_is_secret_only_where_a_cassette_is_played_is_no_difference(
    provider, record, replay
):
    provider.replies({"text": "Hi"})
    await record(says("Use the staging server"))
    assert told(await replay(says("Use the staging server"), secrets=("staging",)))[-1][0] == "Hi"


async def test_after_the_first_difference_the_replay_of_a_session_ends(provider, record, replay):
    provider.script({"default": {"text": "Hi"}})
    await record(says("One"), says("Two"))
    said, first, other, second = await replay(*map(says, ("One", "Other", "Two")), session="s1")
    assert said == first.text == "Hi"
    assert "tape.jsonl, request 2 of this session: it is not the recorded one" in other
    assert other.endswith(
        "recorded 'One', now 'Other'. The replay ends here; record it again if the change is meant"
    )
    assert second == other


async def test_each_session_plays_a_cassette_from_its_beginning(
    provider, record, settings, tape, asked
):
    provider.replies({"text": "first"}, {"text": "second"})
    await record(says("Same"), says("Same"))
    model = open_model(settings(name=f"replay:{tape}", base_url=None, api_key=None), {})
    found = []
    for session in ("s1", "s2", "s1", "s2"):
        request = asked(*says("Same"), session=session)
        found.append((await model.request(request, lambda _text: None)).text)
    await model.aclose()
    assert found == ["first", "first", "second", "second"]


async def test_a_replay_that_is_recorded_makes_the_same_cassette(
    provider, record, replay, tape, tmp_path
):
    provider.replies({"status": 503, "error": "Overloaded"}, {"text": ["Half", "way"]})
    await record(says("Go"))
    again = tmp_path / "again.jsonl"
    await replay(says("Go"), record=again)
    first, second = (
        [(e.asked, e.path, e.body, e.status, "".join(e.chunks)) for e in read_cassette(each)]
        for each in (tape, again)
    )
    assert first == second


async def test_a_model_is_opened_for_each_role_as_it_was(provider, record, settings, tape):
    provider.script({"default": {"text": "Hi"}})
    price = TokenPrice(input=1, output=2)
    plan = {"role": "plan", "effort": "high", "temperature": 0.5, "window": 50_000, "price": price}
    await record(says("Plan"), **plan)
    await record(says("Work"), role="work", window=9_000)
    sent = [(each.get("reasoning_effort"), each.get("temperature")) for each in provider.requests]
    assert sent == [("high", 0.5), (None, None)]

    def of(role: ModelRole):
        name = {"name": f"replay:{tape}", "base_url": None, "api_key": None, "role": role}
        return open_model(settings(**name), {})

    assert [of(role).window for role in ("plan", "work")] == [50_000, 9_000]
    assert of("review").window == 9_000


async def test_the_model_that_stood_in_for_another_stands_in_for_it_again(
    provider, record, replay, tape
):
    provider.replies(*[{"status": 503, "error": "Overloaded"}] * 2, {"text": "I am here"})
    with_two = {"max_attempts": 2, "role": "work"}
    failure, reply = (
        (await record(says("Go"), **with_two))[-1],
        (await record(says("Go"), name="openai:other", **with_two))[-1],
    )
    assert "503" in failure
    played = (await replay(says("Go"), max_attempts=5))[-1]
    assert (played.text, played.model) == (reply.text, "openai:other")
    assert "503" in played.passed


async def test_an_incomplete_last_line_is_left_out_and_recording_goes_on_after_it(
    provider, record, replay, tape, caplog
):
    provider.replies({"text": "A"}, {"text": "B"}, {"text": "C"})
    await record(says("One"), says("Two"))
    whole = tape.read_bytes()
    tape.write_bytes(whole[:-30])
    assert [told([(await replay(says("One")))[-1]])[0][0], len(read_cassette(tape))] == ["A", 1]
    assert "the last line is incomplete and was left out" in caplog.text
    caplog.clear()
    await record(says("Three"))
    assert "the last line is incomplete and was taken away" in caplog.text
    assert [each.status for each in read_cassette(tape)] == [200, 200]
    assert tape.read_bytes().startswith(whole.splitlines(keepends=True)[0])


def test_a_recording_that_is_killed_can_be_played(provider, tape):
    provider.script({"default": {"text": ["x" * 2_000] * 50}})
    code = (
        "import anyio, sys\n"
        "from pathlib import Path\n"
        "from gonogo.llm import ModelSettings, open_model\n"
        "from gonogo.domain.tool_calls import ModelRequest, UserText\n"
        "async def main():\n"
        "    settings = ModelSettings(name='openai:scripted', base_url=sys.argv[1],"
        " record=Path(sys.argv[2]))\n"
        "    model = open_model(settings, {})\n"
        "    asked = ModelRequest(agent='a', thread='t', system='s',"
        " messages=(UserText(content='Go'),))\n"
        "    while True:\n"
        "        await model.request(asked, lambda text: None)\n"
        "        print('.', flush=True)\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-c", code, provider.base_url, str(tape)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        for _ in range(3):
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    found = read_cassette(tape)
    assert len(found) >= 3
    assert {(each.status, len("".join(each.chunks)) > 100_000) for each in found} == {(200, True)}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory; name a recording that can be read"),
        (b"", EMPTY),
        (b"\n", EMPTY),
        (b"{}\n{}\n", NO_EXCHANGE),
        (b"\xff\n", NO_EXCHANGE),
        (LINE + b', "status": 99999}\n', NO_EXCHANGE),
        (LINE + b', "headers": {"a": "b\\r\\nc"}}\n', NO_EXCHANGE),
        (LINE + b', "chunks": [{"base64": "!!"}]}\n', NO_EXCHANGE),
        (b"[" * 100_000, NO_EXCHANGE),
        (LINE + b', "attempts": 1000000000}\n', NO_EXCHANGE),
        (LINE + b', "window": 0}\n', NO_EXCHANGE),
        (LINE + b', "base_url": "http://["}\n', UNREADABLE),
        (LINE + b', "base_url": "\\u0000"}\n', UNREADABLE),
        (LINE + b', "price": {"input": -1, "output": 1}}\n', UNREADABLE),
    ],
)
def test_what_is_no_cassette_is_refused_by_name(tape, settings, content, problem):
    if content is not None:
        tape.write_bytes(content)
    with pytest.raises(ModelNotConfigured) as failure:
        open_model(settings(name=f"replay:{tape}"), {})
    assert str(failure.value) == f"replay:{tape}: {problem}"


def test_an_exchange_is_written_without_what_it_does_not_have(tape):
    line = {"model": "openai:x", "method": "POST", "path": "/", "body": "{}"}
    tape.write_text(json.dumps(line) + "\n")
    [read] = read_cassette(tape)
    assert msgspec.json.decode(msgspec.json.encode(read)) == line
    assert msgspec.structs.asdict(read) == line | {
        "base_url": None, "role": None, "effort": None, "temperature": None, "window": None,
        "attempts": None, "price": None, "status": None, "headers": {}, "chunks": (), "error": None,
        "withheld": False,
    }  # fmt: skip


def test_a_piece_that_is_no_text_is_kept_as_it_came():
    assert piece_of("é".encode()) == "é"
    assert piece_of(b"\xff\x00") == PackedPiece(b"\xff\x00")
    assert msgspec.json.encode(piece_of(b"\xff\x00")) == b'{"base64":"/wA="}'
    assert [bytes_of(each) for each in ("é", PackedPiece(b"\xff"))] == ["é".encode(), b"\xff"]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1},
         "the list of fields of the body differs at character 0: recorded 'a b', now 'b a'"),
        ({"x": {"a": 1}}, {"x": {"b": 1}},
         "the list of fields of x differs at character 0: recorded 'a', now 'b'"),
        ({"x": [1, {"a": "b"}]}, {"x": [1, {"a": "c"}]},
         "x[1].a differs at character 0: recorded 'b', now 'c'"),
        ({"x": [1]}, {"x": [1, 2]},
         "the length of x differs at character 0: recorded '1', now '2'"),
        (1, None, "the body differs at character 0: recorded '1', now 'null'"),
        ("a" * 50 + "b" * 50, "a" * 50 + "c" * 50,
         f"the body differs at character 50: recorded '{'a' * 40}{'b' * 40}', "
         f"now '{'a' * 40}{'c' * 40}'"),
        ("ab", "abc", "the body differs at character 2: recorded 'ab', now 'abc'"),
        ([1], {"a": 1}, "the body differs at character 0: recorded '[1]', now '{\"a\":1}'"),
    ],
)  # fmt: skip
def test_where_two_bodies_differ_is_told_whole(was, now, said):
    assert difference(was, now) == said
    assert difference(was, was) == ""


def test_a_request_is_known_by_its_path_and_query_without_a_key():
    for url, path in (
        ("http://x/v1/a?key=s&b=1&&c=2", "/v1/a?b=1&c=2"), ("http://x/v1/a?key=s", "/v1/a"),
        ("http://x/v1", "/v1"), ("http://x/?monkey=1", "/?monkey=1"),
    ):  # fmt: skip
        assert path_of(httpx2.Request("POST", url)) == path


async def test_what_cannot_be_played_is_told_whole(tape, replay):
    line = {"model": "openai:x", "method": "POST", "path": "/v1/other", "body": "{}"}
    tape.write_text(json.dumps(line) + "\n")
    (failure,) = await replay(says("Go"))
    assert failure.startswith(
        "tape.jsonl, request 1 of this session: it is not the recorded one. Nearest is exchange 1:"
        " the list of fields of the body differs at character 0: recorded '', now '"
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [("ConnectError", httpx2.ConnectError), ("ReadTimeout", httpx2.ReadTimeout),
     ("Client", httpx2.ReadError), ("nothing", httpx2.ReadError), (None, httpx2.ReadError)],
)  # fmt: skip
async def test_what_broke_off_breaks_off_in_the_same_way(tape, error, kind):
    exchange = HttpExchange(model="m", method="POST", path="/", body="{}", error=error)
    player = Player(tape, [(1, exchange)], Redaction())
    with pytest.raises(kind, match=r"^as it was recorded$") as failure:
        await player.handle_async_request(httpx2.Request("POST", "http://x/", content=b"{}"))
    assert type(failure.value) is kind


async def test_an_answer_that_was_not_recorded_is_a_refusal_in_the_words_of_providers(tape):
    held = HttpExchange(model="m", method="POST", path="/", body="{}", withheld=True, status=200)
    player = Player(tape, [(1, held)], Redaction())
    request = httpx2.Request("POST", "http://x/", content=b"{}")
    said = []
    for _ in range(2):
        answer = await player.handle_async_request(request)
        assert answer.status_code == 422
        told = json.loads(answer.content)
        said.append(told["error"].pop("message"))
        assert told == {"type": "error", "error": {"type": "not_recorded", "code": 422}}
    assert said == [
        "exchange 1: The reply held a secret, so it was not recorded, and nothing after it can be"
        " played",
        "it is made more often than it was recorded (exchange 1)",
    ]
    other = await player.handle_async_request(httpx2.Request("PUT", "http://x/y", content=b"{}"))
    assert json.loads(other.content)["error"]["message"] == (
        "it is not the recorded one. Nearest is exchange 1: the address differs at"
        " character 1: recorded 'POST /', now 'PUT /y'"
    )


def test_a_line_in_the_middle_that_is_none_is_refused(tape, settings):
    line = b'{"model": "openai:x", "method": "POST", "path": "/", "body": "{}"}'
    tape.write_bytes(line + b"\n{\n" + line + b"\n")
    with pytest.raises(
        ModelNotConfigured, match=("line 2 is not a recorded exchange; record the file again")
    ):
        open_model(settings(name=f"replay:{tape}"), {})


def test_a_pipe_is_neither_played_nor_recorded_to(tape, settings):
    os.mkfifo(tape)
    with pytest.raises(ModelNotConfigured) as failure:
        open_model(settings(name=f"replay:{tape}"), {})
    assert (
        str(failure.value)
        == f"replay:{tape}: it is not a regular file; name a recording that can be read"
    )
    with pytest.raises(ModelNotConfigured) as failure:
        open_model(settings(record=tape), {})
    assert str(failure.value) == (
        f"GONOGO_RECORD: {tape}: it is not a regular file; name a file that can be written"
    )


async def test_a_disk_that_is_full_ends_no_request(provider, record, tape, caplog, monkeypatch):
    provider.replies({"text": "Hi"})

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    caplog.set_level(logging.WARNING)
    found = await record(says("Go"))
    assert found[-1].text == "Hi"
    assert "an exchange was not recorded: No space left on device" in caplog.text


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("anthropic:claude-sonnet-5-5", "/v1/messages"),
        ("google:gemini-4-carbon", "/v1beta/models/gemini-4-carbon:streamGenerateContent"),
        ("openai-responses:gpt-6", "/v1/responses"),
    ],
)
async def test_every_providers_own_library_is_answered_from_a_cassette(tape, replay, model, path):
    line = {"model": model, "method": "POST", "path": "/other", "body": "{}"}
    tape.write_text(json.dumps(line) + "\n")
    (failure,) = await replay(says("Go"))
    assert "is not the recorded one. Nearest is exchange 1: the list of fields" in failure
    assert path not in tape.read_text()


async def test_a_model_of_several_in_a_cassette_is_named_after_it(provider, record, replay, tape):
    provider.script({"default": {"text": "Hi"}})
    await record(says("One"))
    await record(says("One"), name="openai:other")
    other = (await replay(says("One"), name="#openai:other"))[-1]
    assert other.model == "openai:other"
    with pytest.raises(ModelNotConfigured) as failure:
        await replay(says("One"), name="#x:y")
    assert str(failure.value) == (
        f"replay:{tape} has no 'x:y'; use one of openai:other, openai:scripted"
    )


def test_secrets_are_known_by_the_names_of_variables_and_short_ones_are_none():
    environment = {"A_TOKEN": "t" * 8, "MY_password": "p" * 9, "HOME": "/home/ann", "X_KEY": "1",
                   "My_Secret": "s" * 8, "credentials": "c" * 8, "X_KEYS": "y" * 7}  # fmt: skip
    assert secrets_in(environment, ["k" * 10, "short"]) == (
        "c" * 8, "k" * 10, "p" * 9, "s" * 8, "t" * 8,
    )  # fmt: skip
    assert secrets_in({"A_KEY": "k" * 8}) == ("k" * 8,)


async def test_a_played_model_is_called_and_has_the_window_as_the_one_that_was_recorded(
    tape, settings
):
    line = {"model": "openai:gpt-4o", "method": "POST", "path": "/", "body": "{}"}
    tape.write_text(json.dumps(line) + "\n")
    model = open_model(settings(name=f"replay:{tape}", base_url=None, api_key=None), {})
    assert (model.name, model.window) == ("openai:gpt-4o", 128_000)
    await model.aclose()
    assert model.client.is_closed


ASKED = httpx2.Request("POST", f"http://x/v1/a?b={OTHER}", content=f'{{"a": "{OTHER}"}}'.encode())


def recorder_of(tape):
    asked = AskedModel(model="x:y", base_url="http://h:1/v1")
    return Recorder(path=tape, asked=asked, redaction=Redaction((OTHER,)))


def test_an_exchange_is_recorded_with_all_that_came_of_it_and_without_secrets(tape):
    facts = {
        "model": "x:y", "base_url": "http://h:1/v1", "role": None, "effort": None,
        "temperature": None, "window": None, "attempts": None, "price": None,
        "method": "POST", "path": "/v1/a?b=***", "body": '{"a":"***"}',
    }  # fmt: skip
    kept = {"content-type": "application/json", "retry-after": "3", "retry-after-ms": "3000"}
    response = httpx2.Response(429, headers=kept | {"x-other": "y"})
    came = recorder_of(tape).exchange(ASKED, response, [b'{"e": "', f'{OTHER}"}}'.encode()], None)
    assert msgspec.structs.asdict(came) == facts | {
        "status": 429, "headers": kept, "chunks": ('{"e":"***"}',), "error": None,
        "withheld": False,
    }  # fmt: skip
    broke = recorder_of(tape).exchange(ASKED, None, [b"\xff"], httpx2.ConnectError("no"))
    assert msgspec.structs.asdict(broke) == facts | {
        "status": None, "headers": {}, "chunks": (PackedPiece(b"\xff"),), "error": "ConnectError",
        "withheld": False,
    }  # fmt: skip


@pytest.mark.parametrize("whole", [b"", b'{"a": 1}\n', b"x" * 70_000 + b"\n"])
@pytest.mark.parametrize("rest", [b"", b"{", b"x" * 70_000, b"x" * 200_000])
async def test_a_line_is_appended_behind_the_last_whole_one(tape, whole, rest, caplog):
    tape.write_bytes(whole + rest)
    recorder = recorder_of(tape)
    await recorder.keep(ASKED, error=httpx2.ReadTimeout("late"))
    line = msgspec.json.encode(recorder.exchange(ASKED, None, (), httpx2.ReadTimeout("late")))
    assert tape.read_bytes() == whole + line + b"\n"
    said = f"{tape}: the last line is incomplete and was taken away"
    assert caplog.messages == ([said] if rest else [])
