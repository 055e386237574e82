"""Each option of each known program, with values that could lead where it should not go."""

from collections.abc import Iterator

from gonogo.policy.programs import Table, _git, _programs
from gonogo.policy.shell import quote

_VALUES = (
    ".env", "*.env", "*", ".*", "**", "!.env", "1", "src", "config", "link-to-outside",
    "src/linked", "/etc/passwd", "json", "all", "%s", "py", "--", "@a", "+1", "-o",
)  # fmt: skip
_AT_WORK = {
    "rg": ("rg KEY", "rg -e KEY"),
    "grep": ("grep -r KEY .", "grep -r KEY", "grep KEY a"),
    "diff": ("diff -r src docs", "diff -r . sub", "diff a b"),
    "find": ("find .",), "sed": ("sed -n p a",), "jq": ("jq . x.json",), "tar": ("tar -tf x",),
    "cut": ("cut -f1 a",), "tr": ("tr a b",), "date": ("date",), "which": ("which ls",),
    "pwd": ("pwd",), "whoami": ("whoami",), "uname": ("uname",), "cmp": ("cmp a b",),
    "comm": ("comm a b",),
}  # fmt: skip
"""Where `PROGRAM a` and `PROGRAM .` say nothing."""


def sweep() -> list[str]:
    """Commands with one option each."""
    tables = {**_programs(), **{f"git {name}": table for name, table in _git().items()}}
    return [
        command
        for name, table in tables.items()
        for work in _work(name)
        for command in (work, *_with_options(work, table))
    ]


def _work(name: str) -> tuple[str, ...]:
    if name.startswith("git "):
        return (name, f"{name} HEAD", f"{name} src/app.py")
    return _AT_WORK.get(name, (f"{name} a", f"{name} ."))


def _with_options(work: str, table: Table) -> Iterator[str]:
    for name, option in table.options.items():
        if option.optional or not option.kinds:
            yield f"{work} {name}"
        joint = "=" if name.startswith("--") and len(option.kinds) == 1 else " "
        for value in map(quote, _VALUES if option.kinds else ()):
            yield f"{work} {name}{joint}{' '.join([value] * len(option.kinds))}"
