"""The cache on disk: bytes by name, in a directory that processes share.

An entry is checked before it is used (``entry.py``: its file, its owner, and the versions that
wrote it); one that fails a check counts as absent.
"""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graphc.compile.entry import (
    ENTRY,
    HEADER,
    TEMPORARY,
    edited_since_import,
    read,
    remove,
    stamp,
    write,
)
from graphc.link.trust import directory_problem, make_private
from graphc.site import frames_up

if TYPE_CHECKING:
    from filelock import BaseFileLock

NAME = re.compile(r"[0-9a-f]{16,128}")

LOCK = ".lock"

OWN = re.compile(r"[0-9a-f]{40}(\.entry|\.lock|\.[0-9a-f]{16}\.tmp)")
"""The files of the cache; others in the directory are neither counted nor removed."""

TOUCH_SECONDS = 60.0
"""The precision of an entry's time of last use, which is not written at each use."""

DEAD_SECONDS = 60.0
"""The age of a temporary file at which its process is assumed dead."""

IDLE_SECONDS = 3600.0
"""The age at which a lock's file is removed, if no process holds it."""

WAIT_SECONDS = 60.0
"""The longest wait for another process; longer than nearly all compilations."""

POLL_SECONDS = 0.01
"""The interval between attempts to acquire a lock; shorter than the shortest compilations."""

REMEDY = "fix this or choose another directory"

_failed: dict[Path, str] = {}
"""The directories that could not be written to, and why; no more entries are saved there."""

_warned: set[Path] = set()
"""The directories for which a warning was issued."""

_threads = threading.local()

_room: dict[Path, int] = {}
"""The bytes that this process may save in a directory before it computes the size again."""


@dataclass(frozen=True)
class CacheInfo:
    """The size and state of a cache on disk.

    Attributes:
        entries: The number of entries.
        bytes: Their size, temporary files included.
        problem: Why the cache is not used or not written to, and the remedy; None where it is.
    """

    entries: int
    bytes: int
    problem: str | None


@dataclass(frozen=True)
class DiskCache:
    """A cache in a directory, of bounded size; its only error is a malformed name.

    Where the directory cannot be used or written to, each process warns once and stores no more.
    Processes see only the entries written with their own ``stamp()``. The state of a directory is
    shared by all objects for it, which are cheap to make.

    Args:
        directory: Created when an entry is first saved, for the user alone.
        limit_bytes: The least recently used entries are removed above this size. The size is
            computed each time a process has written an eighth of the room left, so that up to
            eight processes that write at once stay below it together.
        wait_seconds: The longest that ``lock`` waits for another process or thread.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     disk = DiskCache(Path(folder) / "cache", 10**6)
        ...     before = disk.load("0123456789abcdef")
        ...     disk.save("0123456789abcdef", b"executable")
        ...     before, disk.load("0123456789abcdef")
        (None, b'executable')
    """

    directory: Path
    limit_bytes: int
    wait_seconds: float = WAIT_SECONDS

    def load(self, name: str, build: str = "") -> bytes | None:
        """Return the bytes saved under a name for a build; None where there is no valid entry.

        Args:
            name: 16 to 128 hexadecimal digits.
            build: The versions that the entry depends on, such as libraries' versions.

        Raises:
            ValueError: If the name is malformed.
        """
        stem = self._stem(name, build)
        if not self._is_usable():
            return None
        try:
            entry = read(stem)
        except OSError:
            return None
        if entry is None:
            return None
        data, used = entry
        if time.time() - used > TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(stem + ENTRY)
        return data

    def save(self, name: str, data: bytes, build: str = "") -> None:
        """Save bytes under a name, replacing an entry that is there.

        Args:
            name: 16 to 128 hexadecimal digits.
            data: At most seven eighths of the limit; more is not saved.
            build: As for ``load``.

        Raises:
            ValueError: If the name is malformed.
        """
        stem = self._stem(name, build)
        size = HEADER.size + len(data)
        if size > self._low:
            self._warn(f"an entry takes {size} bytes", "raise config.cache_bytes")
        elif self.directory not in _failed and self._is_usable(make=True):
            try:
                now = write(stem, data)
            except FileNotFoundError:
                return  # the directory was removed just now
            except OSError as error:
                _failed[self.directory] = str(error)
                self._warn(str(error), REMEDY)
            else:
                self._make_room(size, now)

    @contextmanager
    def lock(self, name: str, build: str = "") -> Iterator[None]:
        """Lock a name: other processes and threads wait, for at most ``wait_seconds``.

        A process that has waited finds the entry that was saved meanwhile. The locks of a dead
        process are free. Where files cannot be locked, or the thread has the lock, nothing waits.

        Raises:
            ValueError: If the name is malformed.
        """
        stem = self._stem(name, build)
        lock = None
        if stem not in _locked_by_thread() and self._is_usable(make=True):
            lock = _acquire(stem + LOCK, self.wait_seconds)
        if lock is None:
            yield
            return
        _locked_by_thread().add(stem)
        try:
            yield
        finally:
            _locked_by_thread().discard(stem)
            lock.release()

    def info(self) -> CacheInfo:
        """Return the size of the cache, and whether it is used."""
        problem = self._problem()
        try:
            files = [file for file in self._own_files() if not file.path.endswith(LOCK)]
        except OSError as error:
            files, problem = [], (str(error), REMEDY)
        if self.directory in _failed:
            problem = _failed[self.directory], REMEDY
        elif problem is None and edited_since_import():
            problem = "graphc's files have changed since it was imported", "restart the process"
        entries = sum(file.path.endswith(ENTRY) for file in files)
        return CacheInfo(entries, sum(file.size for file in files), problem and "; ".join(problem))

    def clear(self) -> int:
        """Remove all entries and the files of dead processes; return the number of entries.

        Raises:
            OSError: If a file cannot be removed.
        """
        removed = 0
        for file in [*self._own_files()]:
            if file.path.endswith(LOCK):
                _remove_idle(file.path)
            else:
                Path(file.path).unlink(missing_ok=True)
                removed += file.path.endswith(ENTRY)
        return removed

    @property
    def _low(self) -> int:
        """Size to which a full cache is reduced."""
        return self.limit_bytes * 7 // 8

    def _stem(self, name: str, build: str) -> str:
        """Return the path of an entry without its suffix; it depends on the stamp and the build."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an entry: use 16 to 128 hexadecimal digits.")
        digest = blake2b(f"{name} {build}".encode(), key=stamp(), digest_size=20).hexdigest()
        return os.path.join(self.directory, digest)  # noqa: PTH118 (text, which is all it takes)

    def _problem(self) -> tuple[str, str] | None:
        """Return why the directory cannot be used, and the remedy; None if it can or is absent."""
        try:
            return directory_problem(self.directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            return str(error), REMEDY

    def _is_usable(self, *, make: bool = False) -> bool:
        """Return whether the directory can be trusted; warn once if it cannot."""
        try:
            if make:
                make_private(self.directory)
            problem = self._problem()
        except OSError as error:
            problem = str(error), REMEDY
        if problem is not None:
            self._warn(*problem)
        # A user who edits graphc needs no warning.
        return problem is None and not edited_since_import()

    def _warn(self, reason: str, remedy: str) -> None:
        if self.directory in _warned:
            return
        _warned.add(self.directory)
        warnings.warn(
            f"graphc saves no compiled programs in {self.directory}: {reason}. Each process "
            f"compiles them again. To save them, {remedy}. The directory is set by "
            "config.cache_dir, or GRAPHC_CACHE_DIR in the environment; 'off' disables the cache.",
            RuntimeWarning,
            stacklevel=frames_up(),
        )

    def _own_files(self) -> Iterator[_File]:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.directory) as entries:
            for entry in entries:
                if OWN.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield _File(status.st_mtime, entry.path, status.st_size)

    def _make_room(self, size: int, now: float) -> None:
        """Compute the size, and remove entries, where this process has written its share."""
        room = _room.get(self.directory, 0) - size
        if room <= 0:
            with suppress(OSError):
                room = max(0, self.limit_bytes - self._sweep(now)) // 8
        _room[self.directory] = room

    def _sweep(self, now: float) -> int:
        """Remove files of dead processes, then the least recently used; return the bytes left.

        ``now`` is the time by the file system's clock, which may be another machine's.
        """
        files = [file for file in self._own_files() if not _remove_leftover(file, now)]
        total = sum(file.size for file in files)
        if total > self.limit_bytes:
            for file in sorted(files):
                if total > self._low and file.path.endswith(ENTRY) and remove(file.path):
                    total -= file.size
        return total


class _File(NamedTuple):
    used: float
    path: str
    size: int


def _remove_leftover(file: _File, now: float) -> bool:
    """Remove a file that a dead process left; return whether this is one."""
    if file.path.endswith(LOCK):
        return now - file.used > IDLE_SECONDS and _remove_idle(file.path)
    return file.path.endswith(TEMPORARY) and now - file.used > DEAD_SECONDS and remove(file.path)


def _acquire(path: str, wait_seconds: float) -> BaseFileLock | None:
    """Acquire the lock of a file; None if that fails or takes too long."""
    # Imported only to write: the import takes longer than to load an executable.
    from filelock import FileLock  # noqa: PLC0415

    # Not all file systems have locks.
    with suppress(OSError, NotImplementedError):
        lock = FileLock(path, timeout=wait_seconds, mode=0o600)
        lock.acquire(poll_interval=POLL_SECONDS)
        return lock
    return None


def _locked_by_thread() -> set[str]:
    stems: set[str] = _threads.__dict__.setdefault("held", set())
    return stems


def _remove_idle(path: str) -> bool:
    """Remove a lock's file if no process holds it; return whether it was removed.

    A process that has just opened the file may hold the lock at the same time as one that creates
    the file again: both then write equal entries.
    """
    lock = _acquire(path, 0)
    if lock is None:
        return False
    try:
        return remove(path)
    finally:
        lock.release()
