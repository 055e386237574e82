"""Write docs/reference/settings.md and openapi.json from the code itself.

The text of each setting is its docstring in `gonogo.settings`. From the OpenAPI document clients
are generated, the web console first. A test compares both with what is written.
"""

import ast
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from gonogo.server import describe
from gonogo.settings import Settings

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGE = _FOLDER / "settings.md"
OPENAPI = _FOLDER / "openapi.json"
HEAD = """\
# Settings

This page lists every setting with its default. For limits and budgets, start with
[limit what plans do and cost](../how-to/limits-and-budgets.md).

Each setting is an environment variable. An option of the command line overrides it, and an empty
variable counts as not set. gonogo never reads settings from a workspace. On Linux, the state folder
(`GONOGO_HOME`) is `~/.local/state/gonogo` and the configuration folder (`GONOGO_CONFIG`)
`~/.config/gonogo`.

`scripts/reference.py` writes this page from the code.
"""


def settings_page() -> str:
    """The page, with one entry a setting."""
    about = texts()
    entries = (_entry(name, field, about[name]) for name, field in Settings.model_fields.items())
    return "\n".join([HEAD, *entries])


def texts() -> dict[str, str]:
    """What stands below each setting in its source."""
    (settings,) = ast.parse(inspect.getsource(Settings)).body
    return {
        field.target.id: " ".join(str(below.value.value).split())
        for field, below in pairwise(settings.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def _entry(name: str, field: FieldInfo, about: str) -> str:
    title = " or ".join(f"`{variable}`" for variable in _variables(name, field))
    return f"## {title}\n\n{about}\n\nDefault: {_default(field)}\n"


def _variables(name: str, field: FieldInfo) -> list[str]:
    if isinstance(field.validation_alias, AliasChoices):
        return [str(choice) for choice in field.validation_alias.choices]
    return [f"GONOGO_{name.upper()}"]


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "depends on the system"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in (None, (), {}) else f"`{value}`"


def openapi_document() -> str:
    """The OpenAPI document as it is written."""
    return json.dumps(describe(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
    OPENAPI.write_text(openapi_document(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n{OPENAPI}\n")
