"""Why a disk cannot be written, as one sentence for all parts of gonogo that report it.

A failed write says no more than "disk I/O error" or "read-only file system". The state of the disk
or the limits of the process show the reason, and so what a person can do. Nothing is written to
find that out.
"""

import os
import resource
from pathlib import Path

from gonogo.domain.errors import Reason, because

LITTLE = 1 << 16
"""A disk with fewer free bytes than this counts as full."""


def disk_problem(folder: Path, *files: Path) -> Reason | None:
    """Why nothing more can be written in a folder, and what to do.

    Args:
        files: The files that are written there; a limit of the process may stop their growth.

    Returns:
        None if neither the disk nor a limit of this process is the reason, or if the folder is
        missing: whoever needs the folder reports that.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if found.f_flag & os.ST_RDONLY:
        return because("the disk of {folder} is read-only; make it writable", folder=folder)
    if found.f_bavail * found.f_frsize < LITTLE:
        return because("the disk of {folder} is full; free some space", folder=folder)
    if _takes_no_names(found):
        return because(
            "the disk of {folder} takes no more files (no inode is left); delete some",
            folder=folder,
        )
    if large := next(filter(_is_at_its_limit, files), None):
        return because(
            "{path} is as large as this process may make a file; raise the limit (ulimit -f)",
            path=large,
        )
    return None


def _is_at_its_limit(file: Path) -> bool:
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A write that reaches the limit still writes what fits, so a file may end just below it.
    return most != resource.RLIM_INFINITY and file.exists() and file.stat().st_size > most - LITTLE


def _takes_no_names(found: os.statvfs_result) -> bool:
    # Some disks have no fixed number of files, and say so with a 0 for all of them.
    return bool(found.f_files) and not found.f_favail
