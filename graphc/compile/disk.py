"""Bytes by name in a directory that processes share: the cache of executables on disk.

Everything is checked before anybody unpickles it (``entry.py`` the file, ``trust.py`` whose it is,
``stamp.py`` what made it), and an entry with anything wrong is as if it were not there.
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

from graphc.compile.entry import ENTRY, HEADER, TEMPORARY, read, remove, write
from graphc.compile.recompile.place import level_of
from graphc.compile.stamp import edited_since_import, stamp
from graphc.compile.trust import directory_problem

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["Disk", "Info"]

NAME = re.compile(r"[0-9a-f]{16,128}")

LOCK = ".lock"

OWN = re.compile(r"[0-9a-f]{40}(\.entry|\.lock|\.[0-9a-f]{16}\.tmp)")
"""What is counted and removed; other files in the directory are none of ours."""

TOUCH_SECONDS = 60.0
"""How old the mark of an entry's last use may be; a write at each use would cost more."""

DEAD_SECONDS = 60.0
"""How long a writer that lives writes nothing to its temporary file, at most."""

IDLE_SECONDS = 3600.0
"""How old a lock's file is when it is removed, if nobody holds it."""

WAIT_SECONDS = 60.0
"""Longer than nearly all compilations; whoever waits for a stopped process then goes on alone."""

POLL_SECONDS = 0.01
"""How often it is looked whether a lock is free; the shortest compilation takes some of these."""

ELSEWHERE = "mend that or name another directory"

_failed: dict[Path, str] = {}
"""The directories that could not be written to, and why; nothing more is saved there."""

_told: set[Path] = set()
"""The directories that were warned of."""

_threads = threading.local()

_room: dict[Path, int] = {}
"""How many bytes this process may save in a directory before it looks how full it is."""


@dataclass(frozen=True)
class Info:
    """What a cache holds.

    Attributes:
        entries: How many.
        bytes: Their size, with what writers have not finished.
        problem: Why it is not used or not written to, and what to do; None where it is.
    """

    entries: int
    bytes: int
    problem: str | None


@dataclass(frozen=True)
class Disk:
    """Entries in a directory, at most so many bytes of them; only a wrong name is an error.

    Where the directory cannot be used, or no longer written to, there is one warning a process and
    nothing more is kept. An entry is there for processes of the same ``stamp()`` alone. What is
    known of a directory is shared by the objects for it, which are cheap to make.

    Args:
        directory: Is made when something is first saved, for the user alone.
        limit_bytes: The least recently used entries go when there is more. Whether there is, is
            looked at each time an eighth of the room left is written, so that up to eight
            processes that write at a time stay below it together.
        wait_seconds: How long ``locked`` waits for another process or thread.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     disk = Disk(Path(folder) / "cache", 10**6)
        ...     before = disk.load("0123456789abcdef")
        ...     disk.save("0123456789abcdef", b"executable")
        ...     before, disk.load("0123456789abcdef")
        (None, b'executable')
    """

    directory: Path
    limit_bytes: int
    wait_seconds: float = WAIT_SECONDS

    def load(self, name: str, build: str = "") -> bytes | None:
        """What was saved under that name for that build; None where it is not there, or not right.

        Args:
            name: 16 to 128 hexadecimal digits.
            build: What else it depends on, such as versions of libraries.

        Raises:
            ValueError: That is no name.
        """
        place = self._place(name, build)
        if not self._is_usable():
            return None
        try:
            found = read(place)
        except OSError:
            return None
        if found is None:
            return None
        data, used = found
        if time.time() - used > TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(place + ENTRY)
        return data

    def save(self, name: str, data: bytes, build: str = "") -> None:
        """Keep the bytes under that name, in place of what is there.

        Args:
            name: 16 to 128 hexadecimal digits.
            data: Less than seven eighths of the limit; more is not kept.
            build: What else they depend on.

        Raises:
            ValueError: That is no name.
        """
        place = self._place(name, build)
        size = HEADER.size + len(data)
        if size > self._low:
            self._tell(f"an entry takes {size} bytes", "raise config.cache_bytes")
        elif self.directory not in _failed and self._is_usable(make=True):
            try:
                now = write(place, data)
            except FileNotFoundError:
                return  # the directory was removed just now
            except OSError as error:
                _failed[self.directory] = str(error)
                self._tell(str(error), ELSEWHERE)
            else:
                self._make_room(size, now)

    @contextmanager
    def locked(self, name: str, build: str = "") -> Iterator[None]:
        """One process or thread at a time is within, for each name; others wait for some time.

        Whoever waited finds in the cache what was saved meanwhile. What a process held that died
        is free. Where files cannot be locked nobody waits, nor does who holds the same name.

        Raises:
            ValueError: That is no name.
        """
        place = self._place(name, build)
        lock = None
        if place not in _held() and self._is_usable(make=True):
            lock = _acquire(place + LOCK, self.wait_seconds)
        if lock is None:
            yield
            return
        _held().add(place)
        try:
            yield
        finally:
            _held().discard(place)
            lock.release()

    def info(self) -> Info:
        """How much there is, and whether it is used."""
        problem = self._problem()
        try:
            kept = [file for file in self._files() if not file.path.endswith(LOCK)]
        except OSError as error:
            kept, problem = [], (str(error), ELSEWHERE)
        if self.directory in _failed:
            problem = _failed[self.directory], ELSEWHERE
        elif problem is None and edited_since_import():
            problem = "graphc's files have changed since it was imported", "start anew"
        entries = sum(file.path.endswith(ENTRY) for file in kept)
        return Info(entries, sum(file.size for file in kept), problem and "; ".join(problem))

    def clear(self) -> int:
        """Remove all entries, and what dead processes left; how many entries there were.

        Raises:
            OSError: They cannot be removed.
        """
        removed = 0
        for file in [*self._files()]:
            if file.path.endswith(LOCK):
                _remove_idle(file.path)
            else:
                Path(file.path).unlink(missing_ok=True)
                removed += file.path.endswith(ENTRY)
        return removed

    @property
    def _low(self) -> int:
        """How many bytes are left when some are removed."""
        return self.limit_bytes * 7 // 8

    def _place(self, name: str, build: str) -> str:
        """The path of an entry, without what it ends in; each stamp and build has its own."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no entry: use 16 to 128 hexadecimal digits.")
        digest = blake2b(f"{name} {build}".encode(), key=stamp(), digest_size=20).hexdigest()
        return os.path.join(self.directory, digest)  # noqa: PTH118 (text, which is all it takes)

    def _problem(self) -> tuple[str, str] | None:
        """Why the directory is not used, and what to do; none where it is not there."""
        try:
            return directory_problem(self.directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            return str(error), ELSEWHERE

    def _is_usable(self, *, make: bool = False) -> bool:
        """Whether what is in the directory can be trusted; it is said, once, where it cannot."""
        try:
            if make:
                _make(self.directory)
            problem = self._problem()
        except OSError as error:
            problem = str(error), ELSEWHERE
        if problem is not None:
            self._tell(*problem)
        # Whoever edits graphc knows it.
        return problem is None and not edited_since_import()

    def _tell(self, reason: str, remedy: str) -> None:
        if self.directory in _told:
            return
        _told.add(self.directory)
        warnings.warn(
            f"graphc keeps no compiled programs in {self.directory}: {reason}. They are compiled "
            f"anew in each process. To have them kept, {remedy}. The directory is what "
            "config.cache_dir says, or GRAPHC_CACHE_DIR in the environment; 'off' means that none "
            "are wanted.",
            RuntimeWarning,
            stacklevel=level_of(None),
        )

    def _files(self) -> Iterator[_File]:
        """The cache's own files."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.directory) as found:
            for entry in found:
                if OWN.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield _File(status.st_mtime, entry.path, status.st_size)

    def _make_room(self, size: int, now: float) -> None:
        """Have this process look how full it is where it has written as much as it may."""
        room = _room.get(self.directory, 0) - size
        if room <= 0:
            with suppress(OSError):
                room = max(0, self.limit_bytes - self._swept(now)) // 8
        _room[self.directory] = room

    def _swept(self, now: float) -> int:
        """Remove what dead processes left, then the least recently used; the bytes that stay.

        ``now`` is the time by the clock that marks the files, which may be another machine's.
        """
        kept = [file for file in self._files() if not _was_left(file, now)]
        total = sum(file.size for file in kept)
        if total > self.limit_bytes:
            for file in sorted(kept):
                if total > self._low and file.path.endswith(ENTRY) and remove(file.path):
                    total -= file.size
        return total


class _File(NamedTuple):
    used: float
    path: str
    size: int


def _make(directory: Path) -> None:
    """Make the directory, and those above that are not there, for the user alone."""
    if not directory.exists():
        _make(directory.parent)
        try:
            directory.mkdir(0o700)
        except FileExistsError:
            if not directory.is_dir():
                raise


def _was_left(file: _File, now: float) -> bool:
    """Whether a dead process left that file, which then is removed."""
    if file.path.endswith(LOCK):
        return now - file.used > IDLE_SECONDS and _remove_idle(file.path)
    return file.path.endswith(TEMPORARY) and now - file.used > DEAD_SECONDS and remove(file.path)


def _acquire(path: str, wait_seconds: float) -> BaseFileLock | None:
    """The lock of that file, held; None where it cannot be had in time, or at all."""
    # Takes longer to import than it takes to load an executable, and then is not needed.
    from filelock import FileLock  # noqa: PLC0415

    # Not all file systems have locks.
    with suppress(OSError, NotImplementedError):
        lock = FileLock(path, timeout=wait_seconds, mode=0o600)
        lock.acquire(poll_interval=POLL_SECONDS)
        return lock
    return None


def _held() -> set[str]:
    """The places that this thread holds; it would wait for itself."""
    held: set[str] = _threads.__dict__.setdefault("held", set())
    return held


def _remove_idle(path: str) -> bool:
    """Whether a lock's file was removed, as nobody holds it.

    Who has opened it just now may hold it at the same time as who makes it anew: both then make the
    same entry.
    """
    lock = _acquire(path, 0)
    if lock is None:
        return False
    try:
        return remove(path)
    finally:
        lock.release()
