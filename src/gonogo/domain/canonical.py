"""Canonical JSON and the digests made of it.

What a person is shown, what an approval stores and what runs are compared by these digests, so
equal values must give equal bytes on every platform: keys sorted, no blanks, UTF-8, no NaN.
"""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value in its one canonical form.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """`sha256:` and the hex digest of a JSON value's canonical form."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


def content_hash(data: bytes) -> str:
    """`sha256:` and the hex digest of a file's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
