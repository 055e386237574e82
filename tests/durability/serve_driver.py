"""Starts `gonogo serve` in forks of a process that has imported everything.

    python serve_driver.py          reads jobs from its input, a JSON object a line

A job is `{environment, folder, out, log}`; its answer is the process id. What the process is and
does is what `python -m gonogo serve` does, but that the imports, most of a start, are done.
"""

import json
import os
import signal
import sys
from typing import Any

import alembic.command
import uvicorn.lifespan.off
import uvicorn.protocols.http.h11_impl
import uvicorn.protocols.websockets.websockets_sansio_impl

import gonogo.cli._serve
import gonogo.client
import gonogo.runtime
import gonogo.server
from gonogo.cli import main as gonogo_main
from gonogo.llm import ModelSettings, open_model

IMPORTED = (alembic.command, uvicorn, gonogo.cli._serve, gonogo.client, gonogo.runtime)


def become_server(job: dict[str, Any]) -> None:
    """Serve, in this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["log"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv = ["gonogo", "serve"]
    gonogo_main()


def main() -> None:
    """Serve until the input ends."""
    open_model(ModelSettings(name="openai:none", base_url="http://127.0.0.1:1/v1", api_key="x"), {})
    # Nobody waits for a child here: whoever asked for it sees it go.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        if (child := os.fork()) == 0:
            become_server(job)
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
