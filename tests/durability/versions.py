"""Later versions of gonogo: copies of this one with a step more of the schema.

The column `nodes.labels` becomes `nodes.notes`, over two versions: the next one adds `notes`,
copies what is there, and uses `labels` no more; the one after it takes `labels` away.
"""

import compileall
import shutil
from pathlib import Path

import gonogo
from gonogo.store.migrate import EXPANDED_FROM, HEAD

SOURCE = Path(gonogo.__file__).parent
NEXT, LAST = (f"{int(HEAD) + more:04}" for more in (1, 2))
"""Their schemas."""
Patch = tuple[str, str, str]
_NEXT: list[Patch] = [
    ("store/migrate.py", f'HEAD = "{HEAD}"', f'HEAD = "{NEXT}"'),
    ("__init__.py", f'"{gonogo.__version__}"', '"next"'),
    ("store/schema.py", 'Column("labels", Json)', 'Column("notes", Json)'),
    ("store/places.py", "labels=bindparam(", "notes=bindparam("),
    ("domain/records.py", "    labels: Mapping[str, str] | None = None", "    notes: Any = None"),
    ("runtime/maintenance.py", "node.labels or", "node.notes or"),
]  # fmt: skip
_LAST: list[Patch] = [
    ("store/migrate.py", f'HEAD = "{NEXT}"', f'HEAD = "{LAST}"'),
    ("store/migrate.py", f'EXPANDED_FROM = "{EXPANDED_FROM}"', f'EXPANDED_FROM = "{NEXT}"'),
    ("__init__.py", '"next"', '"last"'),
]
_ADD = """
    op.add_column("nodes", sa.Column("notes", sa.Text(), nullable=True))
    op.execute("UPDATE nodes SET notes = labels")
"""
_DROP = """
    op.drop_column("nodes", "labels")
"""
_STEP = """

def add_{version}(op: Operations) -> None:
{change}

STEPS = {{**STEPS, "{version}": add_{version}}}
"""


def next_version(folder: Path) -> Path:
    """Make the next one. Gives where it is imported from."""
    shutil.copytree(SOURCE, folder / "gonogo", ignore=shutil.ignore_patterns("__pycache__"))
    return _patched(folder, _NEXT, NEXT, _ADD)


def last_version(folder: Path, before: Path) -> Path:
    """Make the one after it."""
    shutil.copytree(before, folder)
    return _patched(folder, _LAST, LAST, _DROP)


def _patched(folder: Path, patches: list[Patch], version: str, change: str) -> Path:
    for name, old, new in patches:
        file = folder / "gonogo" / name
        text = file.read_text()
        assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times; patch it here"
        file.write_text(text.replace(old, new))
    with (folder / "gonogo/store/steps.py").open("a") as steps:
        steps.write(_STEP.format(version=version, change=change))
    compileall.compile_dir(folder, quiet=1)
    return folder
