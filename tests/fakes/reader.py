"""A reader of the documentation: does what a page prints, in a home of their own.

A block of a page says after its language what it is:

- `sh` is run by bash, in its turn; `sh answers=approve` at a terminal, where the reader types that
  word at the first question. Words in capitals (PLAN, SESSION) are ids of what was made last;
- `toml rules.toml` is a file, written into the configuration folder if gonogo reads it there;
- `sh serves` is a server, which goes on while the page is read, on a free port;
- `text output` is what the block before it printed, with `…` for what differs in each run; of a
  stream `text output=TYPE,TYPE` shows the events of these types, without most of their fields;
- `… shown: REASON` is not run.
"""

import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import IO, Any

from fakes.nursery import Nursery, Process, python
from fakes.template import lay_out

SECONDS = 60
CONFIGURATION = {"rules.toml", "mcp.toml", "models.toml", "hooks.toml", "limits.toml"}
_BLOCK = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"(?<![$\w{])(PLAN|SESSION|APPROVAL|CHECKPOINT|TOKEN_ID)\b(?!=)")
_FILLED_IN = re.compile(r"\b(\w+)=…")
_LEAVE = '{ export -p; printf \'cd %q\\n\' "$PWD"; } > "$READER.sh"'
_QUESTION = re.compile(r"\[a\b.*> $", re.DOTALL)
_TABLES = {
    "PLAN": "plans", "SESSION": "sessions", "APPROVAL": "approvals", "CHECKPOINT": "checkpoints",
    "TOKEN_ID": "tokens",
}  # fmt: skip
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_LONGEST = 1 << 17
_LINE = 90
# What differs in each run.
_DIFFERENT = (
    (re.compile(r"\b(plan|s|appr|call|turn|checkpoint)_[0-9a-f]{12,}"), r"\1_…"),
    (re.compile(r"sha256:[0-9a-f]+"), "sha256:…"),
    (re.compile(r"\b\d+[.,]\d+(?=[ \xa0]?[sс]\b)"), "…"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "…"),
)
# What is shown of an event's metadata.
_SHOWN = (
    "from_agent", "to_agent", "plan_id", "revision", "digest", "subtask_id", "subtask_count",
    "agent", "attempt", "requires_approval", "was_edited", "feedback", "done", "total",
    "percentage",
)  # fmt: skip
# Asks the test, over a socket, to do `gonogo WORDS…` with these files. A question that waits for a
# person (3) is how a command without a terminal ends well.
_SHIM = f"""\
#!{sys.executable} -SI
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect(os.environ["READER"])
    order = {{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}
    socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
    code = int(line.recv(16))
sys.exit(0 if code == 3 else code)
"""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of code on a page."""

    language: str
    info: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is, if it says so."""
        return self.info if re.fullmatch(r"[\w/.-]+\.\w+", self.info) else None

    @property
    def reason(self) -> str | None:
        """Why it is only shown, if it is."""
        return self.info.partition("shown: ")[2] or None


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, in their order, without their indentation."""
    return [_block(found) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str]) -> Block:
    text = re.sub(rf"^{found[1]}", "", found[4], flags=re.MULTILINE)
    return Block(language=found[2], info=found[3].strip(), text=text)


def read_through(reader: "Reader", page: str) -> str:
    """Do all that a page says; gives the page with what was printed in its `output` blocks."""

    def renewed(found: re.Match[str]) -> str:
        block = _block(found)
        if block.language == "text" and block.info.startswith("output"):
            text = indent(reader.seen(block.info), found[1])
            return f"{found[1]}```text {block.info}\n{text}{found[1]}```"
        if not block.reason:
            reader.do(block)
        return found[0]

    return _BLOCK.sub(renewed, page)


class Reader:
    """One reader, with an empty home."""

    def __init__(self, home: Path, born: Nursery, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = home, dict(environment)
        self._born = born
        self._servers: list[tuple[Process, IO[str]]] = []
        self.instead: dict[str, str] = {}
        """What is reached under other addresses than the page says."""
        self.printed = ""

    def do(self, block: Block) -> None:
        """Write a block's file, or run what it says."""
        if block.file:
            self.write(block.file, block.text)
        elif block.info == "serves":
            self._serve(block.text)
        elif block.language == "sh":
            word = block.info.partition("answers=")[2]
            self.printed = self.answer(block.text, word) if word else self.run(block.text)

    def write(self, name: str, text: str) -> None:
        """Write a file where gonogo, or the reader, looks for it."""
        folder = self.folder / ".config" / "gonogo" if name in CONFIGURATION else self.folder
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._really(text), encoding="utf-8")

    def run(self, script: str) -> str:
        """Run a script as bash does, with ids in the place of words in capitals."""
        done = subprocess.run(
            self._command(script), env=self.environment, cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def answer(self, script: str, word: str) -> str:
        """Run a script at a terminal, and type a word at its first question."""
        ours, theirs = pty.openpty()
        environment = {**self.environment, "TERM": "dumb"}
        with subprocess.Popen(
            self._command(script), env=environment, cwd=self.folder, start_new_session=True,
            stdin=theirs, stdout=theirs, stderr=theirs,
        ) as process:  # fmt: skip
            os.close(theirs)
            said, until = "", time.monotonic() + SECONDS
            while time.monotonic() < until and (more := _read(ours)) is not None:
                said += more
                if word and _QUESTION.search(said):
                    os.write(ours, f"{word}\n".encode())
                    word = ""
            os.close(ours)
        assert process.returncode == 0, f"{script}\n{said}"
        return said.replace("\r\n", "\n")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the stream that was printed last."""
        lines = self.printed.splitlines()
        return [json.loads(line[6:]) for line in lines if line[:6] == "data: "]

    def seen(self, info: str) -> str:
        """What was printed last, as an `output` block of the page shows it."""
        wanted = info.partition("output=")[2]
        if wanted:
            shown = [event for event in self.events if event["type"] in wanted.split(",")]
            return "".join(f"data: {_short(event)}\n" for event in shown)
        text = self.printed
        for pattern, instead in _DIFFERENT:
            text = pattern.sub(instead, text)
        return text.replace(str(self.folder), "~")

    def _serve(self, script: str) -> None:
        *before, command = script.strip().splitlines()
        self.run("\n".join(before))
        words = shlex.split(command.partition("#")[0].replace("~", str(self.folder)))[1:]
        port = words.index("--port") if "--port" in words else len(words)
        words[port:] = ["--port", "0", *words[port + 2 :]]
        read, write = os.pipe()
        where = {"env": self.environment, "cwd": self.folder}
        server = self._born.start("gonogo", *words, **where, stdout=write, stderr=2)
        os.close(write)
        printed = os.fdopen(read)
        self._servers.append((server, printed))
        address = next(filter(None, map(_ADDRESS.search, printed)), None)
        assert address is not None, f"it ended before it was ready: {script}"
        self.instead["http://127.0.0.1:8001"] = address[0]

    def leave(self) -> None:
        """End the servers."""
        for server, printed in self._servers:
            server.send_signal(signal.SIGTERM)
            server.wait(SECONDS)
            printed.close()

    def _command(self, script: str) -> list[str]:
        script = _FILLED_IN.sub(self._filled_in, self._really(script))
        script = _PLACEHOLDER.sub(self._id, script)
        # One shell reads a page: what a block exports, and where it went, the next one has.
        text = f'[ ! -e "$READER.sh" ] || . "$READER.sh"\n{script}\n{_LEAVE}'
        return ["bash", "-euo", "pipefail", "-c", text]

    def _really(self, text: str) -> str:
        for shown, real in self.instead.items():
            text = text.replace(shown, real)
        return text

    def _filled_in(self, found: re.Match[str]) -> str:
        return f"{found[1]}={self._id(found) if found[1] in _TABLES else 'sk-test'}"

    def _id(self, found: re.Match[str]) -> str:
        """The newest id of what a word in capitals names; the word itself where there is none."""
        with closing(sqlite3.connect(self.folder / "state" / "gonogo.db")) as database:
            newest = f"SELECT max(id) FROM {_TABLES[found[1]]}"  # noqa: S608 - a word of ours
            return database.execute(newest).fetchone()[0] or found[1]


def _short(event: dict[str, Any]) -> str:
    """An event without the fields that say little to who reads of it first."""
    if event["type"] == "done":
        return json.dumps(event, separators=(",", ":"))
    text = event.get("content") or ""
    line = text if len(text) < _LINE else text.partition("\n")[0] + "…"
    told = event.get("metadata") or {}
    shown = {name: told[name] for name in _SHOWN if name in told}
    shown |= {name: "…" for name in ("plan_id", "digest") if name in shown}
    parts = {
        "type": event["type"],
        **({"is_final": True} if event.get("is_final") else {}),
        **({"content": line} if line else {}),
        **({"metadata": shown} if shown else {}),
    }
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def reader(home: Path, born: Nursery, environment: Mapping[str, str]) -> Iterator[Reader]:
    """A reader whose `gonogo` and `scripts/run` are processes of the nursery."""
    lay_out(home / "state")
    for path in (home / "bin" / "gonogo", home / "scripts" / "run"):
        path.parent.mkdir()
        path.write_text(_SHIM)
        path.chmod(0o755)
    inherited = python()
    own = {
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{inherited['PATH']}",
        "HOME": str(home),
        "READER": str(home / "line"),
        "GONOGO_HOME": str(home / "state"),
        "GONOGO_CONFIG": str(home / ".config" / "gonogo"),
        "GONOGO_BACKGROUND": "false",
        **{f"GIT_{who}_NAME": "Ann" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ann@example.org" for who in ("AUTHOR", "COMMITTER")},
    }
    found = Reader(home, born, {**inherited, **own, **environment})
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.bind(own["READER"])
        line.listen()
        thread = threading.Thread(target=_take_orders, args=(line, born), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            found.leave()
            line.shutdown(socket.SHUT_RDWR)
            thread.join(SECONDS)


def _read(terminal: int) -> str | None:
    """What a command has written to its terminal; None once it has ended."""
    if not select.select([terminal], [], [], 1)[0]:
        return ""
    try:
        return os.read(terminal, _LONGEST).decode() or None
    except OSError:
        return None


def _take_orders(line: socket.socket, born: Nursery) -> None:
    with suppress(OSError):
        while True:
            asker, _ = line.accept()
            threading.Thread(target=_order, args=(asker, born), daemon=True).start()


def _order(asker: socket.socket, born: Nursery) -> None:
    with asker:
        order, files, *_ = socket.recv_fds(asker, _LONGEST, 3)
        said = json.loads(order)
        process = born.start(
            "gonogo", *said["words"], env=said["env"], cwd=Path(said["cwd"]),
            stdin=files[0], stdout=files[1], stderr=files[2],
        )  # fmt: skip
        for each in files:
            os.close(each)
        code = process.wait(SECONDS)
        asker.send(b"%d" % code)
