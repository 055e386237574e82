"""Signatures by the Standard Webhooks scheme, which receivers have libraries for.

A secret is written `whsec_` and the base64 of 24 to 64 bytes.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence

_MARK = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def read_secret(text: str) -> bytes | str:
    """The bytes of a secret; the defect if it has one, which never repeats the secret."""
    text = text.strip()
    if not text.startswith(_MARK):
        return f"the secret must begin with {_MARK}"
    try:
        secret = base64.b64decode(text.removeprefix(_MARK), validate=True)
    except (binascii.Error, ValueError):
        return f"what follows {_MARK} must be base64"
    if not _SHORTEST <= len(secret) <= _LONGEST:
        return f"the secret must have {_SHORTEST} to {_LONGEST} bytes, not {len(secret)}"
    return secret


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret, so that they can be changed.

    Args:
        timestamp: Seconds since 1970.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(secret, signed, "sha256") for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
