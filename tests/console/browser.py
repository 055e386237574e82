"""The browser that shows the console's pages: any Chromium of this machine."""

import shutil

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first is the same browser without the windows, which cost as much as the pages in them."""


def find_chromium(*, windows: bool = False) -> str | None:
    """Where a Chromium is, or None.

    Args:
        windows: Take one that has windows where there is one, as people have.
    """
    names = (*_NAMES[1:], _NAMES[0]) if windows else _NAMES
    return next(filter(None, map(shutil.which, names)), None)
