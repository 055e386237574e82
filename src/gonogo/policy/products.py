"""Which guarded names a command is known to make, according to the words that somebody allowed.

Whoever approves `git clone` knows that there will be a repository, and whoever declares
`npm install` knows that `package.json` will change. Only words that a person, a rule or a plan
named count, never words that an agent added after them; and only commands that were understood
completely. If a command makes other guarded names, gonogo asks about them when it is over.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from gonogo.domain.paths import command_guard, installed, is_literal
from gonogo.policy.kinds import CommandPlace, leaves
from gonogo.policy.programs import Command, read_command

Words = tuple[str, ...]
Maker = Callable[[Sequence[str], str], Iterable[str]]
"""The words after the verb, and the folder in which it runs → globs."""

_PYTHON = re.compile(r"python3?(?:\.\d+)?")
_BARE = "HEAD config objects refs hooks info branches packed-refs".split()


def products(parts: Iterable[tuple[Words, int]], cwd: str) -> tuple[str, ...]:
    """The guarded names that commands are known to make or change, as globs.

    Args:
        parts: For each command in order, its words, and how many of them somebody allowed.
        cwd: The folder in which they run, relative to the workspace.
    """
    found: dict[str, None] = {}
    base = cwd
    for argv, vouched in parts:
        if argv[0] == "cd" and len(argv) == 2:
            base = _below(base, argv[1])
        found.update(dict.fromkeys(_made(argv, vouched, base)))
    return tuple(glob for glob in found if not leaves(glob))


def products_of(text: str, cwd: str) -> tuple[str, ...]:
    """The guarded names that somebody expects who approves this text as it is written."""
    command = read_command(text, CommandPlace(workspace="/", cwd=cwd))
    whole = [(part.argv, len(part.argv)) for part in command.parts]
    return tuple(dict.fromkeys((*products(whole, cwd), *_named(command, cwd))))


def _named(command: Command, cwd: str) -> Iterable[str]:
    """The guarded names that the command itself names, without those that it only reads."""
    words = [
        word.text
        for part in command.parts
        if part.runs_code
        for word in part.simple.words[1:]
        if not word.is_glob
    ]
    for word in (*words, *command.suspicion.targets):
        path = _below(cwd, word)
        if path != "." and is_literal(path) and not leaves(path) and command_guard(path):
            yield path


def _made(argv: Words, vouched: int, base: str) -> Iterable[str]:
    folder, _, name = argv[0].rpartition("/")
    is_own = bool(folder) and installed(folder) == "program"
    program = name if is_own else argv[0]
    plain = ("python" if _PYTHON.fullmatch(program) else program, *argv[1:])
    verb = next((plain[:n] for n in (3, 2, 1) if plain[:n] in _MAKERS and n <= vouched), None)
    # A command that runs outside the workspace makes nothing in it.
    if verb is None or leaves(base):
        return ()
    made = _MAKERS[verb](plain[len(verb) :], base)
    if is_own and _MAKERS[verb] is _packages:
        # A program of an environment installs into its own environment.
        made = [_below(base, posixpath.dirname(folder))]
    return map(posixpath.normpath, made)


def _below(base: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(base, path))


def _operands(rest: Sequence[str]) -> list[str]:
    return [word for word in rest if not word.startswith("-") and is_literal(word)]


def _at(rest: Sequence[str], base: str) -> str:
    """The folder that is named last; if none is named, the one in which the command runs."""
    return _below(base, _operands(rest)[-1]) if _operands(rest) else base


def _repository(*names: str) -> Maker:
    def made(rest: Sequence[str], base: str) -> Iterable[str]:
        folder = _at(rest, base)
        return [f"{folder}/{name}" for name in (_BARE if "--bare" in rest else names)]

    return made


def _clone(rest: Sequence[str], base: str) -> Iterable[str]:
    """The folder that is named last, or one with the name at the end of the address."""
    operands = _operands(rest)
    if not operands:
        return ()
    folder = _below(base, operands[-1])
    if len(operands) == 1 or ":" in operands[-1]:
        name = re.split(r"[/:]", operands[-1].rstrip("/"))[-1]
        folder = _below(base, name.removesuffix(".git"))
    # In the folder itself, its files cannot be told from others.
    return (f"{folder}/.git",) if folder == base else (folder,)


def _environment(rest: Sequence[str], base: str) -> Iterable[str]:
    return [_below(base, each) for each in _operands(rest)] or [f"{base}/.venv"]


def _always(*names: str) -> Maker:
    return lambda _, base: [f"{base}/{name}" for name in names]


_node = _always("package.json", "node_modules")
_yarn = _always("package.json", "node_modules", ".yarn", ".pnp.*")
_packages = _always(".venv", "venv")
_NODE = "init install i ci add remove rm uninstall update upgrade up dedupe".split()
_MAKERS: dict[Words, Maker] = {
    **dict.fromkeys(
        [("git", "init"), ("cargo", "new"), ("cargo", "init"), ("uv", "init")],
        _repository(".git"),
    ),
    ("hg", "init"): _repository(".hg"),
    ("jj", "git", "init"): _repository(".jj", ".git"),
    **dict.fromkeys(
        [("git", "clone"), ("hg", "clone"), ("jj", "git", "clone"), ("svn", "checkout"),
         ("svn", "co")],
        _clone,
    ),
    **{(tool, verb): _node for tool in ("npm", "pnpm", "bun") for verb in _NODE},
    **{("yarn", verb): _yarn for verb in _NODE},
    ("yarn",): _yarn,
    ("bundle", "install"): _always(".bundle", "vendor"),
    ("composer", "install"): _always("vendor"),
    ("terraform", "init"): _always(".terraform"),
    **dict.fromkeys([("python", "-m", "venv"), ("virtualenv",), ("uv", "venv")], _environment),
    **dict.fromkeys(
        [("pip", "install"), ("pip3", "install"), ("python", "-m", "pip"), ("uv", "sync"),
         ("uv", "add"), ("uv", "remove"), ("uv", "pip"), ("uv", "run"), ("poetry", "install"),
         ("poetry", "add"), ("pdm", "install"), ("pdm", "add"), ("pdm", "sync"),
         ("pipenv", "install"), ("pipenv", "sync")],
        _packages,
    ),
    **dict.fromkeys(
        [("cmake",), ("./configure",), ("autoreconf",)], _always("**/Makefile*", "**/*.cmake")
    ),
}  # fmt: skip
