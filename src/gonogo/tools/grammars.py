"""Where a file of JavaScript, TypeScript or Go cannot be read: a program alone, and its caller.

The grammars are C code, made to read what is half-written and not what is hostile. So this file is
also run by itself: a process without an environment, in which a parser that hangs, takes too much
or crashes harms nobody, and which is ended after a few seconds. It imports nothing of gonogo.
"""

import json
import resource
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SECONDS = 5
"""For which a file may be read."""
_MEMORY = 1 << 30
_SHOWN = 40
"""Characters of a place that are shown."""
_MODULES = {
    "JavaScript": ("tree_sitter_javascript", "language"),
    "TypeScript": ("tree_sitter_typescript", "language_typescript"),
    "TSX": ("tree_sitter_typescript", "language_tsx"),
    "Go": ("tree_sitter_go", "language"),
}
NAMES = {
    ".js": "JavaScript", ".jsx": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript",
    ".ts": "TypeScript", ".mts": "TypeScript", ".cts": "TypeScript", ".tsx": "TSX", ".go": "Go",
}  # fmt: skip
"""What the endings of names stand for."""


def misread(kind: str, data: bytes, *, seconds: float = SECONDS) -> str | None:
    """Where text is not of its language, told for a model. It blocks, for so many seconds at most.

    None where it is in order, and where nobody can say: its grammar is not installed, or reading
    it took too much.

    Args:
        kind: One of `NAMES`.
    """
    if find_spec(_MODULES[kind][0]) is None:
        return None
    argv = [sys.executable, "-I", str(Path(__file__).resolve()), kind]
    try:
        done = subprocess.run(  # noqa: S603 - ourselves; the text is data
            argv, input=data, capture_output=True, env={}, cwd="/", timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    return None if found is None else _told(data, **found)


def _told(data: bytes, missing: str | None, first: int, last: int, begin: int, end: int) -> str:
    if missing is not None:
        return f"line {first}: {missing!r} is missing"
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    text = data[begin:end].decode("utf-8", "replace").strip().split("\n", 1)[0]
    return f"{where}: unexpected {text[:_SHOWN]!r}"


# Alone in its process --------------------------------------------------------------------------


def _limit() -> None:
    for limit, most in (
        (resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 32),
    ):  # fmt: skip
        resource.setrlimit(limit, (most, most))


def _main(kind: str) -> None:
    _limit()
    from tree_sitter import Language, Parser

    module, name = _MODULES[kind]
    grammar: object = getattr(import_module(module), name)()
    root = Parser(Language(grammar)).parse(sys.stdin.buffer.read()).root_node
    json.dump(_first_fault(root) if root.has_error else None, sys.stdout)


def _first_fault(root: Any) -> dict[str, Any]:  # noqa: ANN401 - a node, known here alone
    """The first place that is wrong, the innermost one of those that hold each other."""
    found, pending = root, [root]
    while pending:
        node = pending.pop()
        if node.is_missing or node.is_error:
            # What is wrong within it tells more than all that the parser gave up.
            found, pending = node, []
        pending += [each for each in reversed(node.children) if each.has_error or each.is_missing]
    first, (row, column) = found.start_point[0] + 1, found.end_point
    return {
        "missing": found.type if found.is_missing else None,
        "first": first, "last": max(first, row + (column > 0)),
        "begin": found.start_byte, "end": found.end_byte,
    }  # fmt: skip


if __name__ == "__main__":
    _main(sys.argv[1])
