"""Signatures: what any library for Standard Webhooks verifies."""

import base64

import pytest

from gonogo.webhooks import read_secret, signature

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def test_the_signature_is_that_of_the_example_of_the_scheme() -> None:
    # The scheme's own example, as its libraries test themselves with it.
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'

    assert isinstance(secret, bytes)
    assert signature([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_while_a_secret_is_changed_both_sign() -> None:
    both = signature([b"a" * 24, b"b" * 24], "msg_1", 1, b"{}")

    assert both.split(" ") == [
        signature([b"a" * 24], "msg_1", 1, b"{}"),
        signature([b"b" * 24], "msg_1", 1, b"{}"),
    ]


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("hunter2", "the secret must begin with whsec_"),
        ("whsec_***", "the text after whsec_ must be base64"),
        ("whsec_a", "the text after whsec_ must be base64"),
        *[
            (
                "whsec_" + base64.b64encode(b"k" * size).decode(),
                f"the secret must have 24 to 64 bytes, not {size}",
            )
            for size in (5, 23, 65)
        ],
    ],
)
def test_a_secret_that_is_none_is_said_and_not_repeated(text: str, defect: str) -> None:
    assert read_secret(text) == defect


@pytest.mark.parametrize("size", [24, 64])
def test_a_secret_may_be_as_short_and_as_long_as_is_said(size: int) -> None:
    assert read_secret("whsec_" + base64.b64encode(b"k" * size).decode()) == b"k" * size


def test_space_around_a_secret_does_not_count() -> None:
    assert read_secret(f" {SECRET}\n") == b"k" * 32
