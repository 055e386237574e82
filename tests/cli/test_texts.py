"""Texts for people at the terminal are in the catalogue, and are looked up where they are said."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gonogo.cli
from cli.conftest import SECONDS, environment
from fakes import pseudo
from fakes.catalogues import ids, messages
from fakes.nursery import Nursery

CLI = Path(gonogo.cli.__file__).parent
SPOKEN = re.compile(r"[A-Za-z]{2,}[,;:]? (?:[A-Za-z]{2,}|‹)|› [a-z]{2,}")
"""Two words one after the other, or a word beside something that is filled in."""
NOT_TOLD = frozenset({"example", "compile", "cast", "term", "split"})
"""Functions that are given commands, patterns, types, contexts and names."""
NO_TEXTS = {
    "bold yellow": "a colour",
    "bold green": "a colour",
    "bold red": "a colour",
    "bold cyan": "a colour",
    "not bold": "a style",
    "Start with: gonogo demo\nThen:       gonogo run \"Add a --json flag\" -C path/to/repo":
        "its words are looked up one by one",
    "--role ROLE [--name NAME] [OPTIONS]": "how options are used",
    "--reason TEXT [OPTIONS]": "how options are used",
    "--before WHEN --export FILE [OPTIONS]": "how options are used",
    "Got unexpected extra argument": "Typer's, looked up with the rest of it",
    "PRAGMA schema_version": "SQL",
    "internal error": "a line of the log",
    "line ‹›: ‹›": "the reason of a verdict that scripts read",
    "made by": "a heading, looked up where it is shown",
    "would be": "a heading, looked up where it is shown",
    "Bearer ‹›": "a header",
    "gonogo: ‹›": "the name before a line of what went wrong",
    "‹›‹› attach ‹›": "a command",
    "  git -C ‹› diff": "a command",
    "  ‹› plans list": "a command",
    "  ‹› audit show": "a command",
    "  ‹› audit verify": "a command",
    "‹› ? ‹› ‹› · ‹› approvals show ‹›": "a command",
}  # fmt: skip


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each literal text, but docstrings, annotations and examples; what is filled in is `‹›`."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.lineno, tree.value
    if isinstance(tree, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "‹›" for p in tree.values)
        yield tree.lineno, "".join(map(str, parts))
    for child in _within(tree):
        yield from literals(child)


def _within(tree: ast.AST) -> Iterator[ast.AST]:
    for name, field in ast.iter_fields(tree):
        if name in {"annotation", "returns"} and not _explains(field):
            continue
        for child in field if isinstance(field, list) else [field]:
            is_piece = isinstance(tree, ast.JoinedStr) and isinstance(child, ast.Constant)
            if isinstance(child, ast.AST) and not is_piece and not _is_no_text(child):
                yield child


def _explains(annotation: object) -> bool:
    """Whether an annotation holds what `--help` says of an option."""
    return (
        isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "Annotated"
    )


def _is_no_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    named = node.func if isinstance(node, ast.Call) else None
    return getattr(named, "id", getattr(named, "attr", "")) in NOT_TOLD


def test_no_text_for_people_stands_outside_the_catalogue():
    known = {key for message in messages("ru") for key in ids(message)} | NO_TEXTS.keys()
    found = [
        f"{path.relative_to(CLI)}:{line}: {text!r}"
        for path in sorted(CLI.rglob("*.py"))
        for line, text in literals(ast.parse(path.read_text("utf-8")))
        if SPOKEN.search(text) and text not in known and not text.startswith("gonogo ")
    ]
    assert found == []


FOREIGN = re.compile(r"[A-Za-z]{2,}[,;:]? (?:[A-Za-z]{2,})")
OTHERS = re.compile(
    # Commands to copy; what programs, tools and the demo's story say; tables for scripts.
    r"gonogo [a-z]+ \S+|^    .*|GONOGO_HOME=.*|git -C .*|FAILED \(failures=1\)|^[-+@ ].*|"
    r"^(?:\[\w+\] )?(?:\? |gonogo: )?\w+_(?:command|file)\b.*|.*[а-яё].*|^\w+\t\w+\t.*"
)
"""What is not gonogo's own words."""


def outside(text: str) -> list[str]:
    """The lines that say something that was not looked up."""
    kept = text
    while (left := re.sub("⟦[^⟦⟧]*⟧", "", kept)) != kept:
        kept = left
    return [line for line in kept.splitlines() if FOREIGN.search(OTHERS.sub("", line))]


def test_whatever_commands_say_was_looked_up_in_the_catalogue(tmp_path: Path, born: Nursery):
    pseudo.write(tmp_path)
    home = tmp_path / "home"
    env = environment(home, {"PSEUDO_TEXTS": str(tmp_path), "TMPDIR": str(tmp_path)})

    def said(*words: str) -> str:
        where = {"env": env, "cwd": tmp_path, "stdin": "", "timeout": SECONDS}
        done = born.run("fakes.pseudo", *words, **where)
        return done.stdout + done.stderr

    told = [said("demo", "--yes")]
    plan, made = re.search(r"plan_\w+", told[0]), re.search(r"GONOGO_HOME=(\S+)", told[0])
    assert plan is not None
    assert made is not None
    env["GONOGO_HOME"] = made[1]
    told += [said(*words.replace("PLAN", plan[0]).split()) for words in COMMANDS]
    assert [line for text in told for line in outside(text)] == []
    assert sum(text.count("⟦") for text in told) > 200


COMMANDS = (
    "--help", "doctor", "status", "plans list", "plans show PLAN", "plans show PLAN --graph",
    "plans show PLAN --timeline", "plans comments PLAN", "plans wait PLAN", "approvals list",
    "changes PLAN", "checkpoints list PLAN", "rollback PLAN --dry-run", "audit verify", "analytics",
    "sessions list", "tool list", "policy suggest", "plans show none", "audit verify --export x",
    "plans edit PLAN --yes", "analytics --since never", "stop",
)  # fmt: skip
