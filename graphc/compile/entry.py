"""The file of one entry on disk: written whole or not at all, and checked before it is believed.

It is written to a temporary file and renamed. It is not forced to the disk: of what a power failure
leaves behind, the checksum tells.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from graphc.compile.stamp import stamp
from graphc.compile.trust import is_own_file

__all__ = ["ENTRY", "HEADER", "TEMPORARY", "read", "remove", "write"]

MAGIC = b"graphc\x00\x01"
"""The last byte is the format's version."""

HEADER = struct.Struct("<8s16sQ32s")
"""Magic, stamp, length of the payload, checksum of these, of the entry's name and the payload."""

ENTRY, TEMPORARY = ".entry", ".tmp"

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

READ = os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)  # a named pipe would block

WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW


def read(place: str) -> tuple[bytes, float] | None:
    """The payload of the entry at that place, and when it was last used; None if it is not right.

    Raises:
        OSError: There is none, or it cannot be read.
    """
    with os.fdopen(os.open(place + ENTRY, READ), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        head = file.read(HEADER.size) if is_own_file(status) else b""
        # The length is compared before so much is read.
        if len(head) < HEADER.size or HEADER.unpack(head)[2] != status.st_size - HEADER.size:
            return None
        data = file.readall()
    return (data, status.st_mtime) if head == header(place, data) else None


def write(place: str, data: bytes) -> float:
    """Put an entry at that place; when that was, by the clock that marks files.

    Raises:
        OSError: It cannot be written; nothing is left of it then.
    """
    temporary = f"{place}.{os.urandom(8).hex()}{TEMPORARY}"
    try:
        with os.fdopen(os.open(temporary, WRITE, 0o600), "wb") as file:
            file.write(header(place, data))
            file.write(data)
            file.flush()
            now = os.fstat(file.fileno()).st_mtime
        # Fails where it was taken for a dead writer's, where a directory stands in its place, and
        # on Windows where the entry is being read. All else is as before.
        with suppress(OSError):
            Path(temporary).replace(place + ENTRY)
        return now
    finally:
        remove(temporary)


def remove(path: str) -> bool:
    """Whether the file is removed; others may have been faster, or read it on Windows."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108 (paths are text here)
        return True
    return False


def header(place: str, data: bytes) -> bytes:
    """What stands before the payload of an entry at that place."""
    start = HEADER.pack(MAGIC, stamp(), len(data), b"")[:-32]
    check = blake2b(start, digest_size=32)
    # Under another name it would be another program.
    check.update(os.path.basename(place).encode())  # noqa: PTH119
    check.update(data)
    return start + check.digest()
