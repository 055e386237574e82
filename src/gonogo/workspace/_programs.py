"""Where gonogo's own helper programs are found, without looking at the environment."""

import shutil
import sys
from pathlib import Path

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEFAULT_PATH = f"{_SYSTEM}:{Path(sys.executable).parent}"
"""The PATH of commands when none is given: the system's folders, then the interpreter's."""


def find_program(name: str, path: str = DEFAULT_PATH) -> str | None:
    """The full path of a program, or None."""
    return shutil.which(name, path=path)
