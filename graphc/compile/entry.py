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
"""More than the first processor's entry; to read the others asks each for its clock rate."""


@cache
def stamp() -> bytes:
    """A digest of everything that an entry depends on and that is not in its name."""
    facts = [*_machine(), str(PACKAGE)]
    facts += [*_processor()]
    facts += [f"{path} {size} {changed}" for path, size, changed in _source()]
    return blake2b("\n".join(facts).encode(), digest_size=16).digest()


def _machine() -> tuple[str, ...]:
    return sys.version, np.__version__, sys.platform, platform.machine()


def portable_facts() -> dict[str, str]:
    """What an entry depends on, by name and equal on every machine where entries can be used.

    In place of the paths and times of graphc's files it has their contents.
    """
    names = ("Python", "NumPy", "the platform", "the machine")
    facts = dict(zip(names, _machine(), strict=True))
    facts["the processor"] = "; ".join(_processor())
    contents = blake2b(digest_size=16)
    paths = [Path(path) for path, _, _ in _source()]
    sources = [path for path in paths if path.suffix != ".pyc"] or paths
    for path in sources:
        inside = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
        contents.update(f"{inside} {path.stat().st_size} ".encode())
        contents.update(path.read_bytes())
    facts["graphc's source"] = contents.hexdigest()
    return facts


@cache
def edited_since_import() -> bool:
    """Whether graphc's files were changed after this process read them.

    An entry that it saves would then not match the source of its stamp.
    """
    return max((changed for _, _, changed in _source()), default=0) > IMPORTED_NS


@cache
def _source() -> tuple[tuple[str, int, int], ...]:
    """The path, size and time of change of graphc's files; to read these takes 20 times as long."""
    try:
        return tuple(sorted(_files(str(PACKAGE))))
    except NotADirectoryError:
        # Imported from an archive, which changes with its files.
        archive = next(path for path in PACKAGE.parents if path.is_file())
        status = archive.stat()
        return ((str(archive), status.st_size, status.st_mtime_ns),)


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".py", ".pyc")):
                # Editors mark an open file by a dangling link.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield entry.path, status.st_size, status.st_mtime_ns
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _processor() -> Iterator[str]:
    """Facts that distinguish processors of different instruction sets."""
    if sys.platform == "win32":
        yield os.environ.get("PROCESSOR_IDENTIFIER", "")
    elif sys.platform == "darwin":
        # The kernel's version has the family of chips that it was built for.
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


MAGIC = b"graphc\x00\x02"
"""The last byte is the format's version."""

HEADER = struct.Struct("<8s16sIQ32s")
"""Magic, stamp, lengths of the label and the payload; checksum of all that and the entry's name.

The label is what the entry's name was made of, as another machine makes it anew.
"""

ENTRY, TEMPORARY = ".entry", ".tmp"

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

READ = os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)  # a named pipe would block

WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW


def read(place: str) -> tuple[bytes, float] | None:
    """The payload of an entry and its time of last use; None if it fails a check.

    Raises:
        OSError: There is no entry, or it cannot be read.
    """
    found = _read(place)
    return found and (found[1], found[2])


def read_labelled(place: str) -> tuple[str, bytes] | None:
    """The label of an entry and its payload; None if it fails a check, or another stamp wrote it.

    Raises:
        OSError: There is no entry, or it cannot be read.
    """
    found = _read(place)
    return found and (found[0].decode(), found[1])


def _read(place: str) -> tuple[bytes, bytes, float] | None:
    with os.fdopen(os.open(place + ENTRY, READ), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        head = file.read(HEADER.size) if is_own_file(status) else b""
        if len(head) < HEADER.size:
            return None
        *_, size, length, _ = HEADER.unpack(head)
        # The lengths are compared before what they are of is read.
        if size + length != status.st_size - HEADER.size:
            return None
        label = file.read(size)
        data = file.readall()
    return (label, data, status.st_mtime) if head == header(place, label, data) else None


def write(place: str, label: str, data: bytes) -> float:
    """Write an entry; return the time, by the file system's clock.

    Raises:
        OSError: It cannot be written; no part of it remains.
    """
    temporary = f"{place}.{os.urandom(8).hex()}{TEMPORARY}"
    try:
        with os.fdopen(os.open(temporary, WRITE, 0o600), "wb") as file:
            file.write(header(place, label.encode(), data))
            file.write(label.encode())
            file.write(data)
            file.flush()
            now = os.fstat(file.fileno()).st_mtime
        # Fails where another process took the file for a dead writer's, where the entry's path is a
        # directory, and on Windows where the entry is being read. The entry is as before.
        with suppress(OSError):
            Path(temporary).replace(place + ENTRY)
        return now
    finally:
        remove(temporary)


def remove(path: str) -> bool:
    """Whether a file was removed; another process may have removed it, or read it on Windows."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108 (paths are text here)
        return True
    return False


def header(place: str, label: bytes, data: bytes) -> bytes:
    """The header of an entry with that label and payload."""
    start = HEADER.pack(MAGIC, stamp(), len(label), len(data), b"")[:-32]
    check = blake2b(start, digest_size=32)
    # An entry that was renamed would be another program.
    for part in (os.path.basename(place).encode(), label, data):  # noqa: PTH119
        check.update(part)
    return start + check.digest()
