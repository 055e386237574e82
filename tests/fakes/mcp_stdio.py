"""What `fakes.mcp_server` is over stdio, by hand: `python mcp_stdio.py FOLDER`.

It needs no library, so it starts in the twentieth part of the time, and a test that is not about
the protocol takes it. That the SDK's server is understood is shown in tests/tools.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

VERSION = "2026-07-28"
_NO_METHOD = -32601
_writing = threading.Lock()


def command(folder: Path) -> list[str]:
    """What starts it."""
    return [sys.executable, "-I", "-S", __file__, str(folder)]


def serve(folder: Path) -> None:
    """Answer line by line, and each call by itself, until nobody asks any more."""
    sys.stderr.write("the fake server is up\n")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            threading.Thread(target=_answer, args=(folder, request), daemon=True).start()


def _answer(folder: Path, request: dict[str, Any]) -> None:
    asked, given = request["method"], request.get("params", {})
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    if asked == "server/discover":
        found: dict[str, Any] = {"capabilities": {"tools": {}}, "supportedVersions": [VERSION]}
    elif asked == "initialize":
        # How a client begins to which the answer to the first question came too late.
        found = {
            "protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }  # fmt: skip
    elif asked == "tools/list":
        found = {"tools": _tools(folder)}
    elif asked == "tools/call":
        found = _called(folder, given["name"], given.get("arguments") or {})
    else:
        _write({**body, "error": {"code": _NO_METHOD, "message": f"{asked} is not known"}})
        return
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}
    kept = {} if asked == "tools/call" else {"ttlMs": 0, "cacheScope": "private"}
    _write({**body, "result": {**found, **kept, "resultType": "complete", "_meta": meta}})


def _tools(folder: Path) -> list[dict[str, Any]]:
    if (folder / "lists nothing").exists():
        (folder / "was asked").touch()
        _never()
    return [
        {
            "name": each["name"],
            "description": each["description"],
            "inputSchema": each["parameters"],
        }
        for each in json.loads((folder / "tools.json").read_text())
    ]


def _called(folder: Path, name: str, given: dict[str, Any]) -> dict[str, Any]:
    calls = folder / "calls"
    with calls.open("a") as file:
        file.write(json.dumps([name, given]) + "\n")
    if "exit" in given:
        os._exit(given["exit"])
    if "wait" in given:
        _never()
    while len(calls.read_text().splitlines()) < given.get("beside", 0):
        time.sleep(0.01)
    if "fail" in given:
        return {"content": [{"type": "text", "text": given["fail"]}], "isError": True}
    said = "x" * given["size"] if "size" in given else f"{name}: {given.get('text')}"
    return {"content": [{"type": "text", "text": said}], "structuredContent": {"said": said}}


def _never() -> None:
    threading.Event().wait()


def _write(body: dict[str, Any]) -> None:
    with _writing:
        sys.stdout.write(json.dumps(body) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
