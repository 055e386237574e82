"""What keeps a disk from being written, as one sentence for everybody who has to say it.

A program learns no more from a write that fails than "disk I/O error" or "read-only file system".
The disk itself says why, or the limits of the process do, and so what a person can do. Nothing is
written to find that out.
"""

import os
import resource
from pathlib import Path

from gonogo.domain.errors import Reason, because

LITTLE = 1 << 16
"""Bytes with which nothing can be done."""


def disk_problem(folder: Path, *files: Path) -> Reason | None:
    """Why nothing more can be written in a folder, and what to do.

    Args:
        files: What is written there, and may not grow without an end.

    Returns:
        None where neither its disk nor a limit of this process is the reason, and where the folder
        is away: whoever needs it says so.
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
    # A write that comes to the limit still writes what fits.
    return most != resource.RLIM_INFINITY and file.exists() and file.stat().st_size > most - LITTLE


def _takes_no_names(found: os.statvfs_result) -> bool:
    # Some disks have no fixed number of files, and say so with a 0 for all of them.
    return bool(found.f_files) and not found.f_favail
