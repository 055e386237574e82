"""The front page: what a browser finds at `/` while there is no web console."""

from fastapi import APIRouter, Response

router = APIRouter()
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>gonogo</title>
<h1>gonogo is running</h1>
<p>This version has no web console yet. Use the terminal: <code>gonogo run</code>,
<code>gonogo plans list</code>, <code>gonogo approvals list</code>; or the HTTP API under
<code>/api/v1</code>, with a token from <code>gonogo token create</code>.</p>
<p lang="ru">Веб-консоли в этой версии ещё нет. Работайте в терминале или через HTTP API
<code>/api/v1</code> с токеном от <code>gonogo token create</code>.</p>
</html>
"""


_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
}


@router.get("/", response_class=Response)
async def front() -> Response:
    """Say what this is and how to use it. Needs no token and tells nothing else."""
    return Response(
        _PAGE,
        media_type="text/html; charset=utf-8",
        headers=_HEADERS,
    )
