"""Whether a directory, or a file in it, holds nothing that another user can have written.

What is unpickled can run anything. Windows has no such mode bits: there a directory counts as the
user's own, which those in a user's profile are.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["directory_problem", "is_own_file"]

HAS_OWNERS = hasattr(os, "getuid")

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own_file(status: os.stat_result) -> bool:
    """Whether that is a regular file which only the user, or root, can have written."""
    return stat.S_ISREG(status.st_mode) and (not HAS_OWNERS or _is_own(status))


def directory_problem(directory: Path) -> tuple[str, str] | None:
    """Why entries of that directory are not to be trusted, and the remedy; None where they are.

    It must belong to the user or to root and be writable by neither group nor others. Directories
    above it must not be writable by others, unless only owners may rename in them, as in ``/tmp``.
    Where a group may write above it, as many users' ``~/.cache`` has it, each file's own owner
    and mode tell still.

    Raises:
        OSError: There is no such directory, or it cannot be looked at.
    """
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{directory} is not a directory")
    if not HAS_OWNERS:
        return None
    if not _is_owner(status):
        return f"{directory} belongs to user {status.st_uid}", "name a directory of your own"
    if status.st_mode & OTHERS_WRITE:
        return f"{directory} can be written to by others", f"run: chmod go-w '{directory}'"
    for above in Path(os.path.realpath(directory)).parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"{above} can be written to by others", f"run: chmod o-w '{above}'"
    return None


def _is_owner(status: os.stat_result) -> bool:
    # Whoever is root can write anywhere as it is.
    return status.st_uid in (os.getuid(), 0)


def _is_own(status: os.stat_result) -> bool:
    return _is_owner(status) and not status.st_mode & OTHERS_WRITE
