"""Whether a file that was written still reads as what its name says: Python, JSON, YAML or TOML.

With the grammars that the extra `grammars` installs, JavaScript, TypeScript and Go as well.

An agent is told in the result of the call that wrote it, while it knows what it wanted. It is told
and not refused: a change of several files may be whole only at its end.
"""

import ast
import json
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from threading import Lock
from time import monotonic
from typing import Any

from gonogo.tools import grammars

_MOST = 1 << 18
"""Bytes of a file that is looked at; what parsers make of them takes hundreds of times as much."""
_TOO_MUCH = (RecursionError, MemoryError, SystemError)
"""What parsers say of nesting that they cannot hold; nothing is known of the file then."""
_quiet = Lock()


def broken(
    path: str, before: bytes | None, after: bytes, *, patience: float = 10.0
) -> dict[str, Any]:
    """What the result of a write says: where the file cannot be read, if it could be before.

    Args:
        before: What the file held; None where there was none, or where all of it is new.
        patience: Seconds after which a parser of ours that is a process is ended.
    """
    until = monotonic() + patience
    problem = _problem(path, after, until)
    if problem is None or (before is not None and _problem(path, before, until) is not None):
        return {}
    if before is not None and monotonic() >= until:
        # Nobody knows whether it could be read before.
        return {}
    kind = _kind(path)
    more = "" if before is None else " any more"
    return {"problem": f"{path!r} is not valid {kind}{more}: {problem}"}


def each_broken(
    changes: Iterable[tuple[str, bytes | None, bytes | None]], *, patience: float = 10.0
) -> Iterator[dict[str, Any]]:
    """What the result of a change of several files says of each; None is no file.

    Args:
        patience: Seconds after which nothing is said of what is left.
    """
    until = monotonic() + patience
    for path, before, after in changes:
        if after is None or monotonic() >= until:
            yield {}
        else:
            yield broken(path, before, after, patience=until - monotonic())


def _problem(path: str, data: bytes, until: float) -> str | None:
    kind = _kind(path)
    if kind is None or len(data) > _MOST:
        return None
    try:
        if kind in _PARSERS:
            return _PARSERS[kind](data)
        left = min(grammars.SECONDS, until - monotonic())
        return grammars.misread(kind, data, seconds=left) if left > 0 else None
    except _TOO_MUCH:
        return None
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"


def _kind(path: str) -> str | None:
    return _NAMES.get(PurePosixPath(path).suffix)


def _python(data: bytes) -> str | None:
    # What it warns of is no defect. The filters are the whole process's.
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except SyntaxError as error:
            return f"line {error.lineno or 1}: {error.msg}"
        except ValueError as error:
            return str(error)
    return None


def _json(data: bytes) -> str | None:
    try:
        json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    return None


def _toml(data: bytes) -> str | None:
    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return None


def _yaml(data: bytes) -> str | None:
    import yaml

    untyped: Any = yaml
    loader = getattr(untyped, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in untyped.parse(data.decode(), Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return f"line {mark.line + 1 if mark else 1}: {error.problem or error.context}"
    except yaml.YAMLError as error:
        return str(error).split("\n", 1)[0]
    return None


_PARSERS: Mapping[str, Callable[[bytes], str | None]] = {
    "Python": _python, "JSON": _json, "TOML": _toml, "YAML": _yaml,
}  # fmt: skip
_NAMES = {
    ".py": "Python", ".pyi": "Python", ".json": "JSON", ".ipynb": "JSON", ".toml": "TOML",
    ".yaml": "YAML", ".yml": "YAML", **grammars.NAMES,
}  # fmt: skip
