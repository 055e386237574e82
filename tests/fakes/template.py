"""A database of the current schema without a row, made once and then copied.

To make one is a tenth of a second of migrations, which tests of the store and of whole first starts
say enough about.
"""

import tempfile
from functools import cache
from pathlib import Path

from gonogo.store import Store


@cache
def empty_database() -> bytes:
    """The file as SQLite has it when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gonogo.db")
        Store(f"sqlite:///{path}").close()
        return path.read_bytes()


def lay_out(home: Path) -> None:
    """Put it into a folder for state, unless there is one."""
    path = home / "gonogo.db"
    if not path.exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(empty_database())
        path.chmod(0o600)
