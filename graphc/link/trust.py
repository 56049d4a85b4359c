"""Checks that no other user can have written a file or directory from which code is loaded.

Windows has no such mode bits: there every directory counts as the user's own, as directories in a
user's profile are.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

HAS_OWNERS = hasattr(os, "getuid")

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, for the user only."""
    if not directory.exists():
        make_private(directory.parent)
        try:
            directory.mkdir(0o700)
        except FileExistsError:
            if not directory.is_dir():
                raise


def is_own_file(status: os.stat_result) -> bool:
    """Return whether only the user or root can have written a regular file."""
    return stat.S_ISREG(status.st_mode) and (not HAS_OWNERS or _is_own(status))


def directory_problem(directory: Path) -> tuple[str, str] | None:
    """Return why the entries of a directory cannot be trusted, and the remedy; else None.

    The directory must belong to the user or to root and be writable by neither group nor others.
    Directories above it must not be writable by others, unless only owners may rename in them, as
    in ``/tmp``. A group may write above it, as in many users' ``~/.cache``: each file's own owner
    and mode are checked too.

    Raises:
        OSError: If there is no such directory, or it cannot be read.
    """
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{directory} is not a directory")
    if not HAS_OWNERS:
        return None
    if not _is_owner(status):
        return f"{directory} belongs to user {status.st_uid}", "choose a directory of your own"
    if status.st_mode & OTHERS_WRITE:
        return f"{directory} can be written to by others", f"run: chmod go-w '{directory}'"
    for above in Path(os.path.realpath(directory)).parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"{above} can be written to by others", f"run: chmod o-w '{above}'"
    return None


def _is_owner(status: os.stat_result) -> bool:
    # Root can write anywhere in any case.
    return status.st_uid in (os.getuid(), 0)


def _is_own(status: os.stat_result) -> bool:
    return _is_owner(status) and not status.st_mode & OTHERS_WRITE
