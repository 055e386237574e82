"""What keeps a disk from being written, as one sentence for everybody who has to say it.

A program learns no more from a write that fails than "disk I/O error" or "read-only file system".
The disk itself says why, and so what a person can do. Nothing is written to find that out.
"""

import os
from pathlib import Path

from gonogo.domain.errors import Reason, because

LITTLE = 1 << 16
"""Bytes with which nothing can be done."""


def disk_problem(folder: Path) -> Reason | None:
    """Why nothing more can be written in a folder, and what to do.

    Returns:
        None where it is not for its disk, and where the folder is away: whoever needs it says so.
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
    return None


def _takes_no_names(found: os.statvfs_result) -> bool:
    # Some disks have no fixed number of files, and say so with a 0 for all of them.
    return bool(found.f_files) and not found.f_favail
