"""An identity provider on this machine: real keys, real signatures, real HTTP.

Tests change what it publishes (`keys`, `discovery`, `answer`) and count how often it is asked.
"""

import hmac
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

AUDIENCE = "gonogo"
MAKERS = {
    "RSA": lambda: RSAKey.generate_key(2048),
    "P-256": lambda: ECKey.generate_key("P-256"),
    "P-384": lambda: ECKey.generate_key("P-384"),
    "Ed25519": lambda: OKPKey.generate_key("Ed25519"),
}
_MADE: dict[tuple[str, str], Any] = {}


def key_pair(kind: str, name: str) -> Any:
    """A private key, made once in a test run."""
    if (kind, name) not in _MADE:
        _MADE[kind, name] = MAKERS[kind]()
    return _MADE[kind, name]


def encoded(value: Any) -> str:
    """One part of a token; text is taken as it is."""
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    data = text if isinstance(text, bytes) else text.encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(header: Any, claims: Any, key: Any, algorithm: str = "RS256") -> str:
    """A token, whatever its parts say; `algorithm` is what it is really signed with."""
    text = f"{encoded(header)}.{encoded(claims)}"
    model = JWSRegistry.algorithms[algorithm]
    return f"{text}.{encoded(model.sign(text.encode(), key))}"


def maced(header: Any, claims: Any, secret: bytes) -> str:
    """A token with a keyed hash in the place of a signature."""
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


class Provider:
    """What the server says."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[dict[str, Any]] = []
        self.discovery: dict[str, Any] = {}
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        """In the place of every answer."""
        self.asked: list[str] = []
        self.publish("one")

    def publish(self, *names: str, kind: str = "RSA", **more: Any) -> None:
        """Have these keys, and no others, in the key set."""
        self.keys = [self.jwk(name, kind, **more) for name in names]

    def jwk(self, name: str, kind: str = "RSA", **more: Any) -> dict[str, Any]:
        """A key as the key set has it."""
        return {**key_pair(kind, name).as_dict(private=False), "kid": name, "use": "sig", **more}

    def claims(self, **more: Any) -> dict[str, Any]:
        """Claims that count; None leaves one out."""
        now = time.time()
        found = {
            "iss": self.url, "aud": AUDIENCE, "sub": "0815", "exp": now + 300, "iat": now,
            "preferred_username": "Ann", "roles": ["devs"], **more,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}

    def token(
        self, name: str = "one", kind: str = "RSA", algorithm: str = "RS256",
        header: dict[str, Any] | None = None, **claims: Any,
    ) -> str:  # fmt: skip
        """A token that counts, but for what the test changes."""
        head = {"alg": algorithm, "kid": name, "typ": "at+jwt", **(header or {})}
        model = "Ed25519" if algorithm == "EdDSA" else algorithm
        return signed(head, self.claims(**claims), key_pair(kind, name), model)

    @property
    def settings(self) -> dict[str, Any]:
        """What an operator sets to have it."""
        return {
            "oidc_audience": AUDIENCE, "oidc_issuer": self.url,
            "oidc_roles": "devs=operator,gonogo-admins=admin,guests=viewer",
        }  # fmt: skip

    def says(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """The answer to one request."""
        self.asked.append(path)
        if self.answer is not None:
            return self.answer
        about = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.discovery}
        found = {"/.well-known/openid-configuration": about, "/keys": {"keys": self.keys}}
        if path not in found:
            return 404, {}, b"{}"
        return 200, {"Content-Type": "application/json"}, json.dumps(found[path]).encode()


@contextmanager
def provider() -> Iterator[Provider]:
    """A provider that listens until the block ends."""
    behind = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = behind.says(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    behind.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield behind
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
