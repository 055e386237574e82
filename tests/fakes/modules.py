"""All modules of gonogo."""

from importlib import import_module
from pkgutil import walk_packages


def import_all() -> None:
    """Import each that can be imported: one called `__main__` would run."""
    import gonogo

    for module in walk_packages(gonogo.__path__, "gonogo."):
        if not module.name.endswith(".__main__"):
            import_module(module.name)
