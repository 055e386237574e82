"""Small changes of the code, as mutmut makes them: another operator, an argument less, other words.

Not changed are types, what a module exports, and the schema's steps and tables, which tests compare
whole.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import cast

import libcst as cst
from libcst.metadata import MetadataWrapper
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import get_ignored_lines

from reach import functions
from rooms import room_of

SOURCES = Path("src/gonogo")
STEPS = SOURCES / "store" / "steps.py"
SCHEMA = SOURCES / "store" / "schema.py"
_TYPE = re.compile(r"_?[A-Z]+[a-z]\w*")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of one file."""

    path: Path
    number: int
    """Its place among those of the file."""
    owner: str
    """What is changed: `function`, `Class.method`, `Class.` for a field, `CONSTANT`, or nothing."""

    @property
    def room(self) -> str:
        """The room of the file."""
        return room_of(self.path.relative_to(SOURCES))

    def made(self) -> str:
        """The source with the change."""
        module, mutations = _mutated(self.path)
        found = mutations[self.number]
        changed = deep_replace(module, found.original_node, found.mutated_node)
        return cast("cst.Module", changed).code

    def shown(self) -> str:
        """What it changes, for people."""
        before, after = _source(self.path).splitlines(), self.made().splitlines()
        diff = list(unified_diff(before, after, n=2, lineterm=""))[2:]
        return "\n".join([f"{self.path}: {self.owner} #{self.number}", *diff])

    def users(self) -> list[str]:
        """The functions of the file that run what is changed."""
        found = dict(functions(ast.parse(_source(self.path)).body))
        if self.owner in found:
            return [self.owner]
        if self.owner.endswith("."):
            return [name for name in found if name.startswith(self.owner)]
        names = {*self.owner.split()}
        return [name for name, function in found.items() if _names(function) & names]


def files(room: str | None) -> list[Path]:
    """The sources of a room, or the one file that is meant, or all of them."""
    found = Path(room) if room and room.endswith(".py") else SOURCES / (room or "")
    every = [found] if found.is_file() else sorted(found.rglob("*.py"))
    return [path for path in every if path != STEPS]


def changes_of(path: Path) -> list[Change]:
    """Every change of a file."""
    module, mutations = _mutated(path)
    owners, types = _owners(module), _types(module)
    found: list[Change] = []
    for number, mutation in enumerate(mutations):
        function = mutation.contained_by_top_level_function
        owner = owners.get(id(function or mutation.original_node), "")
        is_type = id(mutation.original_node) in types or _is_cast_alike(mutation)
        if not is_type and not (function is None and _is_table(path, owner)):
            found.append(Change(path=path, number=number, owner=owner))
    return found


def drawn(changes: Sequence[Change], count: int, seed: int) -> list[Change]:
    """So many of them by chance, each as likely as any other."""
    return Random(seed).sample(changes, min(count, len(changes)))  # noqa: S311 - not a secret


def _is_table(path: Path, constant: str) -> bool:
    # A name in mixed case stands for a type, and types are checked otherwise.
    exported_or_type = constant == "__all__" or _TYPE.fullmatch(constant)
    return bool(exported_or_type) or path == SCHEMA


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class _Visitor(MutationVisitor):
    """Looks into decorated functions as well: each change is a file of its own here."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        bare = node.with_changes(decorators=[]) if isinstance(node, cst.FunctionDef) else node
        return super()._skip_node_and_children(bare)


@lru_cache(maxsize=4)
def _mutated(path: Path) -> tuple[cst.Module, list[Mutation]]:
    source = _source(path)
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Visitor(mutation_operators, get_ignored_lines(str(path), source, wrapper))
    return wrapper.visit(visitor), visitor.mutations


def _owners(module: cst.Module) -> dict[int, str]:
    """By their identity: functions and methods, and all the nodes that are outside of them."""
    found: dict[int, str] = {}
    for part in module.body:
        match part:
            case cst.FunctionDef(name=name):
                found[id(part)] = name.value
            case cst.ClassDef(name=name, body=cst.IndentedBlock(body=members)):
                for member in members:
                    if isinstance(member, cst.FunctionDef):
                        found[id(member)] = f"{name.value}.{member.name.value}"
                    else:
                        found |= dict.fromkeys(map(id, _within(member)), f"{name.value}.")
            case cst.SimpleStatementLine(body=[cst.Assign() | cst.AnnAssign() as statement]):
                found |= dict.fromkeys(map(id, _within(part)), _named(statement))
            case _:
                pass
    return found


def _types(module: cst.Module) -> set[int]:
    """By their identity: the nodes of types that values are cast to, which nobody evaluates."""
    found: set[int] = set()
    for node in _within(module):
        match node:
            case cst.Call(func=cst.Name("cast"), args=[kind, _]):
                found.update(map(id, _within(kind)))
            case _:
                pass
    return found


def _is_cast_alike(mutation: Mutation) -> bool:
    """Whether a value is only said to be of another type."""
    match mutation.original_node, mutation.mutated_node:
        case (
            cst.Call(func=cst.Name("cast"), args=[_, before]),
            cst.Call(args=[_, after]),
        ):
            return before.value.deep_equals(after.value)
        case _:
            return False


def _named(statement: cst.Assign | cst.AnnAssign) -> str:
    """The names that are set."""
    wide = isinstance(statement, cst.Assign)
    targets = [each.target for each in statement.targets] if wide else [statement.target]
    found = (node for target in targets for node in _within(target))
    return " ".join(node.value for node in found if isinstance(node, cst.Name))


def _within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _within(child)


def _names(function: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
