"""Logs: one form for all lines; what people and models say is left out unless asked for."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gonogo.telemetry import setup_logging


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_line_is_json_with_time_level_and_facts_where_nobody_watches() -> None:
    stream = io.StringIO()
    setup_logging(stream=stream)

    logging.getLogger("gonogo.store").warning("slow commit", extra={"seconds": 2})

    line = json.loads(stream.getvalue())
    assert line["event"] == "slow commit"
    assert (line["level"], line["logger"], line["seconds"]) == ("warning", "gonogo.store", 2)
    assert line["timestamp"].endswith("Z")


def test_a_line_is_readable_on_a_terminal() -> None:
    stream = Terminal()
    setup_logging(stream=stream)

    logging.getLogger("gonogo").info("ready")

    assert "ready" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_content_is_left_out_unless_asked_for_and_secrets_always() -> None:
    facts = {"content": "my text", "prompt": "p", "api_key": "k-1", "plan_id": "p_1"}
    quiet, open_ = io.StringIO(), io.StringIO()

    setup_logging(stream=quiet)
    logging.getLogger("gonogo").info("said", extra=facts)
    setup_logging(stream=open_, content=True)
    logging.getLogger("gonogo").info("said", extra=facts)

    assert "my text" not in quiet.getvalue()
    assert json.loads(quiet.getvalue())["plan_id"] == "p_1"
    assert json.loads(open_.getvalue())["content"] == "my text"
    assert "k-1" not in quiet.getvalue() + open_.getvalue()


def test_the_level_is_respected_and_setting_up_again_does_not_double_lines() -> None:
    stream = io.StringIO()
    setup_logging("warning", stream=stream)
    setup_logging("warning", stream=stream)

    logging.getLogger("gonogo").info("quiet")
    logging.getLogger("gonogo").error("loud")

    assert len(stream.getvalue().splitlines()) == 1


def test_an_exception_is_logged_with_its_trace() -> None:
    stream = io.StringIO()
    setup_logging(stream=stream)

    try:
        int("broken")
    except ValueError:
        logging.getLogger("gonogo").exception("failed")

    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


SECRETS = ("api_key", "authorization", "cookie", "password", "secret", "token")
CONTENT = ("arguments", "content", "error", "feedback", "messages", "prompt", "result", "text")


def test_no_line_has_a_secret_and_only_one_that_was_asked_for_has_content() -> None:
    facts = dict.fromkeys((*SECRETS, *CONTENT), "x") | {"where": Path("/code")}
    found = []
    for content in (False, True):
        stream = io.StringIO()
        setup_logging(stream=stream, content=content)
        logging.getLogger("gonogo").info("said", extra=facts)
        found.append(json.loads(stream.getvalue()))

    quiet, whole = found
    assert set(quiet) == {"event", "level", "logger", "timestamp", "where"}
    assert set(whole) == {*quiet, *CONTENT}
    assert quiet["where"] == "/code"


def test_lines_have_the_form_that_was_asked_for_whatever_the_stream_is() -> None:
    plain, terminal = io.StringIO(), Terminal()
    setup_logging(stream=plain, as_json=False)
    logging.getLogger("gonogo").info("ready", extra={"port": 7})
    setup_logging(stream=terminal, as_json=True)
    logging.getLogger("gonogo").info("ready", extra={"port": 7})

    assert plain.getvalue().startswith("\x1b[")
    assert json.loads(terminal.getvalue())["port"] == 7


def test_lines_go_to_standard_error_from_the_level_info_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setup_logging()
    logging.getLogger("gonogo").debug("quiet")
    logging.getLogger("gonogo").info("ready")

    out, err = capsys.readouterr()
    assert (out, json.loads(err)["event"]) == ("", "ready")


def test_a_line_on_a_terminal_has_no_control_characters_but_its_own_colours() -> None:
    stream = Terminal()
    setup_logging(stream=stream)
    odd = "\x1b]0;title\x07\n\u202e"

    try:
        int(odd)
    except ValueError as error:
        error.add_note(odd)
        logging.getLogger("gonogo").exception("failed: %s", odd, extra={"tool_name": odd})

    line, *trace = stream.getvalue().splitlines()
    assert line.count("\\x1b]0;title\\x07\\x0a\\u202e") == 2
    assert any("\\x1b]0;title\\x07" in each for each in trace)
    assert not set(stream.getvalue()) & set("\x07\u202e")
    assert "\x1b]" not in stream.getvalue()


@pytest.mark.parametrize("library", ["httpx", "httpcore", "openai", "alembic"])
def test_of_a_library_that_talks_much_only_warnings_are_logged(library: str) -> None:
    stream = io.StringIO()
    setup_logging(stream=stream)

    logging.getLogger(library).info("chatter")
    logging.getLogger(library).warning("trouble")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["trouble"]


class Full(io.StringIO):
    """A log on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_log_that_is_full_says_nothing_to_whoever_sits_at_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setup_logging(stream=Full())
    logging.getLogger("gonogo").warning("work waits")
    assert capsys.readouterr() == ("", "")
    # A mistake of our own is still told.
    logging.getLogger("gonogo").warning("%d", "no number")
    assert "no number" in capsys.readouterr().err
