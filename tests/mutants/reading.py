"""What the policy's reading of a command says will run, worked out without a shell.

Independent of how the command is rendered: globs are matched by Python against the workspace's
names, `&&` and `||` are followed for a status that every program ends with.
"""

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from gonogo.policy import ParsedCommand, Simple
from gonogo.policy.shell import Word
from mutants.bash import Ran
from mutants.workspace import MOUNTED_AT

Pipeline = tuple[Ran, ...]


def expected(command: ParsedCommand, status: int, root: Path) -> list[Pipeline]:
    """The pipelines that run, in order, when every program ends with `status`."""
    found: list[Pipeline] = []
    well = True
    for pipeline in _pipelines(command):
        joined_by = pipeline[0].joined_by
        if (joined_by == "&&" and not well) or (joined_by == "||" and well):
            continue
        found.append(tuple(_ran(part, n, len(pipeline), root) for n, part in enumerate(pipeline)))
        well = (status == 0) != pipeline[0].negated
    return found


def _pipelines(command: ParsedCommand) -> Iterator[list[Simple]]:
    pipeline: list[Simple] = []
    for part in command.parts:
        if part.joined_by != "|" and pipeline:
            yield pipeline
            pipeline = []
        pipeline.append(part)
    yield pipeline


def _ran(part: Simple, number: int, count: int, root: Path) -> Ran:
    streams = ["p" if number else "n", "p" if number < count - 1 else "o", "e"]
    for redirect in part.redirects:
        match redirect:
            case "2>&1":
                streams[2] = streams[1]
            case ">&2" | "1>&2":
                streams[1] = streams[2]
            case "</dev/null":
                streams[0] = "n"
            case _:
                for stream in (1, 2) if redirect[0] == "&" else (2 if redirect[0] == "2" else 1,):
                    streams[stream] = "n"
    words = [word for each in part.words for word in _expanded(each, root)]
    return Ran("".join(streams), tuple(words))


def _expanded(word: Word, root: Path) -> list[str]:
    if not word.is_glob:
        return [word.text]
    pattern = "".join(
        re.sub(r"\[\^", "[!", piece.text)
        if piece.pattern
        else re.sub(r"([*?\[])", r"[\1]", piece.text)
        for piece in word.pieces
    )
    absolute = pattern.startswith("/")
    if absolute and not pattern.startswith(MOUNTED_AT + "/"):
        return [word.text]
    start = MOUNTED_AT if absolute else ""
    names = sorted(_matches(root, start, pattern.removeprefix(start).split("/")))
    return names or [word.text]


def _matches(root: Path, so_far: str, parts: list[str]) -> Iterator[str]:
    """Paths below `root` that begin as written and match part by part, as bash spells them."""
    if not parts:
        yield so_far
        return
    part, rest = parts[0], parts[1:]
    below = root / so_far.removeprefix(MOUNTED_AT).lstrip("/")
    for name in _names(below, part, last=not rest):
        yield from _matches(root, so_far + name + ("/" if rest else ""), rest)


def _names(folder: Path, part: str, *, last: bool) -> list[str]:
    if not re.search(r"[*?\[]", part):
        return (
            [part]
            if (last and not part) or (folder / part).exists() or (folder / part).is_symlink()
            else []
        )
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [
        name
        for name in names
        if (not name.startswith(".") or part.startswith("."))
        and fnmatch.fnmatchcase(name, part)
        and (last or (folder / name).is_dir())
    ]
