"""Which room a source file is in, for scripts that count by rooms."""

from pathlib import PurePath

_OF_ROOMS = "execution"


def room_of(file: PurePath) -> str:
    """The room of a file, by its path below `src/gonogo`.

    A file beside rooms is one itself.
    """
    parts = file.with_suffix("").parts
    return "/".join(parts[: 2 if parts[0] == _OF_ROOMS else 1])
