"""What the operating system says, in the words that a model is told."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from gonogo.domain.errors import ToolFailed

_KINDS = {
    errno.ENOENT: ("file_not_found", "does not exist"),
    errno.ELOOP: ("symlink_escape", "goes through a symbolic link"),
    errno.EXDEV: ("symlink_escape", "leads out of the workspace"),
    errno.ENOTDIR: ("not_a_regular_file", "has a file where a folder is needed"),
    errno.EISDIR: ("not_a_regular_file", "is a folder"),
    errno.ENXIO: ("not_a_regular_file", "is not a regular file"),
    errno.ENODEV: ("not_a_regular_file", "is not a regular file"),
    errno.EEXIST: ("file_exists", "exists already"),
    errno.ENAMETOOLONG: ("bad_path", "is too long"),
}


@contextmanager
def told(path: str) -> Generator[None]:
    """Raise what goes wrong inside as the failure of a tool that worked on `path`.

    Raises:
        ToolFailed: instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        known = _KINDS.get(error.errno or 0)
        if known is None:
            raise ToolFailed("io_error", f"{path!r}: {error.strerror or error}") from error
        kind, fact = known
        raise ToolFailed(kind, f"{path!r} {fact}") from error
