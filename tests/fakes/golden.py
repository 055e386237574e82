"""Texts that are kept word for word, each in a file beside the test that finds it."""

import os
from pathlib import Path


def kept(file: Path, found: str) -> str:
    """The text that is kept; with `GONOGO_WRITE_GOLDEN=1` what was found is written there first."""
    if os.environ.get("GONOGO_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, "utf-8")
    return file.read_text("utf-8")
