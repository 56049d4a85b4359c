"""One entry on disk: its file, the trust in its owner, and the stamp of its writer.

The file is written under a temporary name and renamed, so that it is complete or absent. It is not
forced to the disk: the checksum detects a file that a power failure has left incomplete.

Unpickling can run any code, so an entry is read only where no other user can have written it.

An executable consists of instructions of the processor that it was compiled on, and a pickled graph
belongs to the source that made it. Where any of these differs, the entry is not found.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

from graphc.link.trust import is_own_file

PACKAGE = Path(__file__).parents[1]

IMPORTED_NS = time.time_ns()
"""The approximate time when this process read graphc's source."""

CPU_FACTS = frozenset(
    {
        *("vendor_id", "cpu family", "model", "flags"),  # x86
        *("CPU implementer", "CPU variant", "CPU part", "Features"),  # ARM
        *("isa", "uarch", "cpu", "machine"),  # RISC-V, POWER
    }
)
"""The lines of ``/proc/cpuinfo`` that determine the instruction set; others change over time."""

CPU_BYTES = 2**14
"""More than the first processor's entry; reading all entries queries every clock rate."""


@cache
def stamp() -> bytes:
    """Return a digest of everything that an entry depends on and that its name leaves out."""
    facts = [sys.version, np.__version__, sys.platform, platform.machine(), str(PACKAGE)]
    facts += [*_processor_facts()]
    facts += [f"{path} {size} {changed}" for path, size, changed in _source()]
    return blake2b("\n".join(facts).encode(), digest_size=16).digest()


@cache
def edited_since_import() -> bool:
    """Return whether graphc's files were changed after this process read them.

    An entry that it saves would then not match the source of its stamp.
    """
    return max((changed for _, _, changed in _source()), default=0) > IMPORTED_NS


@cache
def _source() -> tuple[tuple[str, int, int], ...]:
    """Return path, size and time of change of graphc's files, 20 times faster than contents."""
    try:
        return tuple(sorted(_files(str(PACKAGE))))
    except NotADirectoryError:
        # Imported from an archive, which changes with its files.
        archive = next(path for path in PACKAGE.parents if path.is_file())
        status = archive.stat()
        return ((str(archive), status.st_size, status.st_mtime_ns),)


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".pyc")):
                # Editors mark an open file by a dangling link.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield entry.path, status.st_size, status.st_mtime_ns
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _processor_facts() -> Iterator[str]:
    if sys.platform == "win32":
        yield os.environ.get("PROCESSOR_IDENTIFIER", "")
    elif sys.platform == "darwin":
        # The kernel's version names the family of chips.
        yield os.uname().version
    else:
        yield from _cpuinfo("/proc/cpuinfo")


def _cpuinfo(path: str) -> Iterator[str]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        text = file.read(CPU_BYTES).decode("ascii", "replace")
    for line in text.partition("\n\n")[0].splitlines():
        if line.partition(":")[0].strip() in CPU_FACTS:
            yield line


MAGIC = b"graphc\x00\x03"
"""The last byte is the format's version."""

HEADER = struct.Struct("<8s16sQ32s")
"""Magic, stamp, length of the payload; checksum of these, the entry's name and the payload."""

ENTRY, TEMPORARY = ".entry", ".tmp"

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

READ = os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)  # a named pipe would block

WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW


def read(stem: str) -> tuple[bytes, float] | None:
    """Return the payload of an entry and its time of last use; None if it fails a check.

    Args:
        stem: The entry's path without its suffix.

    Raises:
        OSError: If there is no entry, or it cannot be read.
    """
    with os.fdopen(os.open(stem + ENTRY, READ), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        head = file.read(HEADER.size) if is_own_file(status) else b""
        if len(head) < HEADER.size:
            return None
        *_, length, _ = HEADER.unpack(head)
        # The length is compared before the payload is read.
        if length != status.st_size - HEADER.size:
            return None
        data = file.readall()
    return (data, status.st_mtime) if head == header(stem, data) else None


def write(stem: str, data: bytes) -> float:
    """Write an entry; return the time, by the file system's clock.

    Raises:
        OSError: If the entry cannot be written; no part of it remains.
    """
    temporary = f"{stem}.{os.urandom(8).hex()}{TEMPORARY}"
    try:
        with os.fdopen(os.open(temporary, WRITE, 0o600), "wb") as file:
            file.write(header(stem, data))
            file.write(data)
            file.flush()
            now = os.fstat(file.fileno()).st_mtime
        # Fails where another process took the file for a dead writer's, where the entry's path is a
        # directory, and on Windows where the entry is being read. The entry is as before.
        with suppress(OSError):
            Path(temporary).replace(stem + ENTRY)
        return now
    finally:
        remove(temporary)


def remove(path: str) -> bool:
    """Remove a file; False if another process has removed it, or reads it on Windows."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108 (paths are text here)
        return True
    return False


def header(stem: str, data: bytes) -> bytes:
    """Return the header of an entry with this payload."""
    start = HEADER.pack(MAGIC, stamp(), len(data), b"")[:-32]
    check = blake2b(start, digest_size=32)
    # A renamed entry would be the wrong program.
    for part in (os.path.basename(stem).encode(), data):  # noqa: PTH119
        check.update(part)
    return start + check.digest()
