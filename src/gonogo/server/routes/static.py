"""The web console: its page at `/`, and its files below `/assets`.

They are made from `console/` when the package is built, and need no token: they are the same for
everybody and tell nothing of this server. Where they were not built, the page says what to do.
"""

import gzip
import mimetypes
import secrets
from functools import cache
from pathlib import Path

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from gonogo.domain.errors import NotFound

router = APIRouter()
FOLDER = Path(__file__).resolve().parent.parent / "console"
_NONCE = "__NONCE__"
"""What stands in the page for a word that is new each time."""
_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>gonogo</title>
<h1>gonogo is running</h1>
<p>Its web console was not built when it was installed: run <code>scripts/console</code> in the
repository. The terminal (<code>gonogo run</code>, <code>gonogo approvals list</code>) and the
HTTP API under <code>/api/v1</code>, with a token from <code>gonogo token create</code>, need no
console.</p>
<p lang="ru">Веб-консоль при установке не собрана: запустите <code>scripts/console</code> в
репозитории. Терминал и HTTP API <code>/api/v1</code> с токеном от
<code>gonogo token create</code> работают и без неё.</p>
</html>
"""
_FOREVER = "public, max-age=31536000, immutable"
"""Files below `/assets` are named for what is in them."""


def _policy(nonce: str) -> str:
    # Mantine writes its variables into a style element; nothing else comes from within the page.
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )


@router.get("/", response_class=Response)
async def page() -> Response:
    """The console's page. Needs no token, and tells nothing."""
    nonce = secrets.token_urlsafe(16)
    return Response(
        _page().replace(_NONCE, nonce),
        media_type="text/html; charset=utf-8",
        headers={
            "Content-Security-Policy": _policy(nonce),
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "X-Frame-Options": "DENY",
        },
    )


@router.get("/assets/{name}", response_class=Response)
async def asset(request: Request, name: str) -> Response:
    """One of the console's files, compressed for whoever can read that."""
    path = _assets().get(name)
    if path is None:
        raise NotFound("The console has no file {name!r}; open the console again", name=name[:200])
    headers = {"Cache-Control": _FOREVER}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return FileResponse(path, headers=headers)
    return Response(
        await anyio.to_thread.run_sync(_packed, path),
        media_type=mimetypes.guess_type(path)[0],
        headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
    )


@cache
def _page() -> str:
    path = FOLDER / "index.html"
    return path.read_text("utf-8") if path.is_file() else _MISSING


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


@cache
def _assets() -> dict[str, Path]:
    """What was built, by name: only that is ever read, whatever is asked for."""
    return {path.name: path for path in FOLDER.glob("assets/*") if path.is_file()}
