"""The settings of one command: the environment's, and on top what the command line says."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gonogo.settings import Settings


def read_settings(given: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings.

    Args:
        given: What the command line says; None leaves a setting as it is.
    """
    return Settings(**{name: value for name, value in (given or {}).items() if value is not None})


def own_locale() -> str:
    """The language of whoever uses this command, where no session has one of its own."""
    from gonogo.texts import resolve

    return resolve(None, read_settings().locale)


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def program() -> str:
    """How this program is started, for commands that people copy from what it says."""
    if shutil.which("gonogo"):
        return "gonogo"
    started = Path(sys.argv[0]).absolute()
    return f"{sys.executable} -m gonogo" if started.suffix == ".py" else str(started)
