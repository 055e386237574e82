"""What may pass is tried again, within bounds; what will not is not; and no key leaves the room."""

import errno
import logging
import resource
import socket
import traceback

import anyio
import pytest
from httpx2 import ConnectError, ReadError
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRequestRejectedError,
)
from pydantic_ai.messages import ModelResponse

from fakes.until import time_passes
from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.llm import ModelSettings, open_model
from gonogo.llm.model import model_failed, redacted

pytestmark = pytest.mark.anyio
KEY = "sk-test-0123456789abcdef"
GOOD = {"text": "Fine"}


@pytest.fixture
def ask(model, asked):
    async def run(on_text=lambda _text: None):
        with anyio.fail_after(60):
            return await model.request(asked(), on_text)

    return run


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_what_may_pass_is_tried_again(provider, ask, status):
    provider.replies({"status": status}, {"status": status}, GOOD)
    assert (await ask()).text == "Fine"
    assert len(provider.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
async def test_other_client_errors_are_not_tried_again(provider, ask, status):
    provider.replies({"status": status, "error": "Because so"}, GOOD)
    with pytest.raises(ModelFailed, match="Because so") as caught:
        await ask()
    assert (caught.value.http_status, caught.value.transient) == (status, False)
    assert len(provider.requests) == 1


async def test_a_used_up_quota_is_not_tried_again(provider, ask):
    error = {"message": "Pay first", "code": "insufficient_quota", "type": "insufficient_quota"}
    provider.replies({"status": 429, "error": error}, GOOD)
    with pytest.raises(ModelFailed, match="Pay first"):
        await ask()
    assert len(provider.requests) == 1


async def test_the_attempts_are_bounded_and_the_library_adds_none(provider, ask):
    provider.script({"default": {"status": 500}})
    with pytest.raises(ModelFailed) as caught:
        await ask()
    assert caught.value.transient
    assert caught.value.http_status == 500
    assert len(provider.requests) == 3


async def test_a_short_retry_after_is_waited_for(provider, settings, asked):
    provider.replies({"status": 429, "headers": {"Retry-After": "1"}}, GOOD)
    model = open_model(settings(max_retry_after=5.0), {})
    began = anyio.current_time()
    assert (await model.request(asked(), lambda _text: None)).text == "Fine"
    assert anyio.current_time() - began >= 1
    await model.aclose()


async def test_a_long_retry_after_is_handed_to_the_caller(provider, ask):
    provider.replies({"status": 429, "headers": {"Retry-After": "3600"}}, GOOD)
    with pytest.raises(ModelFailed) as caught:
        await ask()
    assert caught.value.retry_after == 3600
    assert caught.value.transient
    assert len(provider.requests) == 1


@pytest.mark.parametrize("way", ["cut", "end"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
async def test_a_stream_cut_in_a_call_is_tried_again_and_nothing_of_it_is_used(
    provider, ask, way, after
):
    call = {"name": "write_file", "arguments": {"path": "a.py", "content": "x"}}
    provider.replies({"text": "One", "calls": [call], way: after}, {"calls": [call]})
    reply = await ask()
    assert [made.arguments for made in reply.calls] == [call["arguments"]]
    assert reply.text == ""
    assert len(provider.requests) == 2


async def test_a_cut_stream_is_never_taken_for_a_reply(provider, ask):
    call = {"name": "list_files", "arguments": {}}
    provider.script({"default": {"calls": [call], "end": 4}})
    with pytest.raises(ModelFailed) as caught:
        await ask()
    assert caught.value.transient


async def test_a_reply_that_ends_with_an_error_of_the_provider_is_asked_for_again(provider, ask):
    broken = {"text": "All is do", "finish_reason": "error"}
    provider.script({"default": [broken, {"text": "All is done"}]})
    assert (await ask()).text == "All is done"
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("reason", "told", "whole"),
    [
        ("error", None, False), ("error", {"finish_reason": "x"}, False), (None, None, False),
        (None, {"finish_reason": "error"}, False), (None, {"finish_reason": "eos"}, True),
        ("stop", None, True), ("length", {}, True),
    ],
)  # fmt: skip
def test_a_reply_that_does_not_say_why_it_ended_is_none(settings, reason, told, whole):
    model = open_model(settings(), {})
    ended = ModelResponse(parts=[], finish_reason=reason, provider_details=told)
    if whole:
        model._check_end(ended)
        return
    with pytest.raises(ModelFailed) as caught:
        model._check_end(ended)
    assert str(caught.value) == "openai:scripted stopped in the middle of its reply"
    assert caught.value.transient


async def test_text_that_was_shown_before_a_cut_is_not_shown_again(provider, ask):
    provider.replies(
        {"text": ["Hello ", "wor", "ld"], "cut": 3}, {"text": ["Hel", "lo world", ", again"]}
    )
    pieces = []
    reply = await ask(pieces.append)
    assert "".join(pieces) == reply.text == "Hello world, again"


async def test_other_text_after_a_cut_is_not_mixed_with_what_was_shown(provider, ask):
    provider.replies({"text": ["Hello ", "wor", "ld"], "cut": 3}, {"text": "Quite another"})
    pieces = []
    reply = await ask(pieces.append)
    assert reply.text == "Quite another"
    assert "".join(pieces) == "Hello wor"


async def test_an_error_inside_the_stream_is_tried_again(provider, ask):
    error = '{"error": {"message": "Overloaded", "type": "server_error"}}'
    provider.replies({"chunks": [{"content": "Fi"}, error]}, GOOD)
    assert (await ask()).text == "Fine"


async def test_a_stream_that_is_not_json_is_tried_again(provider, ask):
    provider.replies({"chunks": ["{nonsense"]}, GOOD)
    assert (await ask()).text == "Fine"


async def test_all_attempts_carry_the_same_request_id(provider, ask):
    provider.replies({"status": 500}, {"status": 500}, GOOD, GOOD)
    await ask()
    await ask()
    ids = [headers["x-client-request-id"] for headers in provider.headers]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]


async def test_what_the_listener_raises_on_purpose_is_not_the_models_failure(provider, ask):
    provider.replies(GOOD)

    def refuse(_text):
        raise Conflict("Somebody else has the lease")

    with pytest.raises(Conflict):
        await ask(refuse)


async def test_silence_is_a_time_out_that_is_tried_again(provider, settings, asked):
    provider.replies({**GOOD, "delay": 90}, {"text": ["a", "b"], "pause": 90}, GOOD)
    model = open_model(settings(timeout=30.0), {})

    async def is_silent():
        for known in (0, 1):
            while len(await anyio.to_thread.run_sync(provider.news, known)) == known:
                pass
            # By then the second answer has begun, unless the machine is slow.
            await anyio.sleep(0.5)
            time_passes(30)

    with anyio.fail_after(2 * 60):
        async with anyio.create_task_group() as group:
            group.start_soon(is_silent)
            assert (await model.request(asked(), lambda _text: None)).text == "Fine"
    assert len(provider.requests) == 3
    await model.aclose()


async def test_a_slow_stream_ends_at_the_total_time(provider, settings, asked):
    provider.replies({"text": ["a"] * 100, "pause": 0.1})
    model = open_model(settings(total_timeout=0.5, max_attempts=1), {})
    with anyio.fail_after(60), pytest.raises(ModelFailed) as caught:
        await model.request(asked(), lambda _text: None)
    assert str(caught.value) == "openai:scripted did not finish in 0.5 s"
    assert caught.value.transient
    await model.aclose()


async def test_a_server_that_is_not_there_is_a_failure_that_may_pass(settings, asked):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        model = open_model(settings(base_url=url, max_attempts=2), {})
        with pytest.raises(ModelFailed) as caught:
            await model.request(asked(), lambda _text: None)
        await model.aclose()
    assert caught.value.transient


def test_a_request_that_was_refused_for_itself_does_not_pass_whatever_its_status():
    refused = ModelRequestRejectedError("m", "no such image")

    assert not model_failed("m", refused).transient
    assert model_failed("m", ModelAPIError("m", "the line broke")).transient


async def test_an_answer_that_is_no_stream_is_a_failure(provider, settings, asked):
    model = open_model(settings(base_url=provider.root, max_attempts=1), {})
    with pytest.raises(ModelFailed) as caught:
        await model.request(asked(), lambda _text: None)
    await model.aclose()
    assert caught.value.http_status == 404


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize("key", [KEY, "letmein!", "two words  and two blanks"])
async def test_a_key_is_in_no_error_and_no_log(provider, settings, asked, caplog, status, key):
    caplog.set_level(logging.DEBUG)
    other = "sk-ant-somebody-elses-0123456789"
    provider.script({"default": {"status": status, "error": f"Bad key {key} or {other}"}})
    model = open_model(settings(api_key=key), {})
    with pytest.raises(ModelFailed, match=rf"{status}: Bad key \*\*\* or \*\*\*; [^*]+$") as caught:
        await model.request(asked(), lambda _text: None)
    await model.aclose()
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert key not in told
    assert other not in told
    assert caught.value.__context__ is None
    assert provider.headers[0]["authorization"] == f"Bearer {key}"


async def test_the_password_of_an_address_is_in_no_error_however_it_is_written(
    provider, settings, asked
):
    provider.script({"default": {"status": 401, "error": "Bad b@byl0n, that is b%40byl0n"}})
    address = provider.base_url.replace("://", "://me:b%40byl0n@")
    model = open_model(settings(base_url=address), {})
    with pytest.raises(ModelFailed, match=r"401: Bad \*\*\*, that is \*\*\*; [^*]+$"):
        await model.request(asked(), lambda _text: None)
    await model.aclose()


def test_a_key_that_begins_like_another_leaves_nothing_of_that_in_an_error():
    failure = model_failed("m", RuntimeError("open-sesame-now"), ["open-sesame", "open-sesame-now"])

    assert str(failure) == "m failed: ***"


LATER = "try again later, or choose another model"
WAIT = "wait and try again, or choose another model"
KEY_STEP = "check the key of this provider, then run: gonogo doctor"
NAME_STEP = "check the name of the model and the address of the provider"
REACH = "check the network and the address of the provider, then try again"


def http(status, body):
    return ModelHTTPError(status, "theirs", body)


@pytest.mark.parametrize(
    ("error", "said", "status", "transient", "sent"),
    [
        (TimeoutError(), "m did not answer in time; try again, or choose another model", None, True,
         True),
        (OSError("broken pipe"), "m failed: broken pipe", None, True, True),
        (OSError(), "m failed: OSError", None, True, True),
        (RuntimeError("x\n  y"), "m failed: x y", None, False, True),
        (http(503, None), f"m answered 503; {LATER}", 503, True, True),
        (http(503, {"error": {"message": " Busy "}}), f"m answered 503: Busy; {LATER}",
         503, True, True),
        (http(408, {"error": "Late"}), "m answered 408: Late", 408, True, True),
        (http(429, "Slow"), f"m answered 429: Slow; {WAIT}", 429, True, True),
        (http(401, "Bad key."), f"m answered 401: Bad key; {KEY_STEP}", 401, False, True),
        (http(403, None), f"m answered 403; {KEY_STEP}", 403, False, True),
        (http(404, "No m."), f"m answered 404: No m; {NAME_STEP}", 404, False, True),
        (http(418, {"message": "Tea"}), "m answered 418: Tea", 418, False, True),
        (http(499, {"error": None}), "m answered 499", 499, False, True),
        (http(500, []), f"m answered 500; {LATER}", 500, True, True),
        (ModelConnectionError("theirs", "no way", phase="connect"),
         f"m failed: no way; {REACH}", None, True, False),
        (ModelConnectionError("theirs", "no way", phase="pool"),
         f"m failed: no way; {REACH}", None, True, False),
        (ModelConnectionError("theirs", "no way", phase="read"), "m failed: no way", None, True,
         True),
        (RuntimeError("x" * 600), "m failed: " + "x" * 500, None, False, True),
    ],
)  # fmt: skip
def test_what_a_provider_did_is_told_whole(error, said, status, transient, sent):
    found = model_failed("m", error)
    assert type(found) is ModelFailed
    assert str(found) == said
    assert (found.http_status, found.transient, found.sent) == (status, transient, sent)
    assert found.retry_after is None


TOO_MANY = "too many files and connections are open; raise the limit (ulimit -n)"


def test_a_limit_of_open_files_is_named_whether_the_error_says_so_or_not():
    error = ModelConnectionError("theirs", "All attempts failed", phase="connect")
    error.__cause__ = ConnectError("All attempts failed")
    error.__cause__.__context__ = OSError(errno.EMFILE, "Too many open files")
    assert str(model_failed("m", error)) == f"m failed: All attempts failed; {TOO_MANY}"
    assert str(model_failed("m", ReadError(""))) == "m failed: ReadError"

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        found = model_failed("m", ReadError(""))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert str(found) == f"m failed: ReadError; {TOO_MANY}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a sk-abcdef b", "a *** b"), ("pk_abcdef", "***"), ("gsk-abcdef", "***"),
        ("xai-abcdef", "***"), ("AIzaabcdefghijkl", "***"), ("sk-abcde", "sk-abcde"),
        ("risk-abcdef", "risk-abcdef"), ("four abc", "*** abc"), ("AIza-abcdef", "***"),
    ],
)  # fmt: skip
def test_what_is_secret_or_looks_like_a_key_is_taken_out(text, told):
    assert redacted(text, ["four", "abc"]) == told


def test_a_key_is_not_in_what_the_settings_look_like():
    assert KEY not in repr(ModelSettings(api_key=KEY))


async def test_a_model_that_did_not_answer_is_asked_once_until_it_does(provider, ask):
    provider.script({"default": {"status": 503}})
    for asked in (3, 4, 5):
        with pytest.raises(ModelFailed):
            await ask()
        assert len(provider.requests) == asked
    provider.replies(GOOD, {"status": 503}, GOOD)
    await ask()
    assert (await ask()).text == "Fine"
    assert len(provider.requests) == 3


async def test_a_request_that_never_left_is_told_from_one_that_may_have_cost(settings, asked):
    with socket.socket() as unused, socket.socket() as deaf:
        unused.bind(("127.0.0.1", 0))
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        sent = []

        async def says_nothing():
            taken, _ = await anyio.to_thread.run_sync(deaf.accept)
            with taken:
                await anyio.to_thread.run_sync(taken.recv, 1)
                await anyio.wait_all_tasks_blocked()
                time_passes(30)

        async with anyio.create_task_group() as group:
            group.start_soon(says_nothing)
            for door in (unused, deaf):
                url = f"http://127.0.0.1:{door.getsockname()[1]}/v1"
                model = open_model(settings(base_url=url, max_attempts=1, timeout=30.0), {})
                with pytest.raises(ModelFailed) as caught:
                    await model.request(asked(), lambda _text: None)
                await model.aclose()
                sent.append(caught.value.sent)
    assert sent == [False, True]


async def test_a_pause_grows_with_each_attempt_and_is_never_longer_than_a_provider_may_ask(
    settings,
):
    def pauses(attempt, retry_after=None, transient=True, **more):
        given = {"max_attempts": 3, "backoff": 1.0, "max_retry_after": 10.0} | more
        model = open_model(settings(**given), {})
        error = ModelFailed("x", retry_after=retry_after, transient=transient)
        return [model._pause(error, attempt) for _ in range(50)]

    for attempt in (1, 2):
        found = pauses(attempt)
        assert 0.5 * attempt <= min(found) < max(found) <= attempt
    assert set(pauses(3)) == set(pauses(1, transient=False)) == {None}
    assert set(pauses(1, 10.0)) == {10.0}
    for long in (10.1, float("inf"), float("nan")):
        assert set(pauses(1, long)) == {None}
    assert set(pauses(1, backoff=100.0)) == {10.0}
