"""A zip of uncompressed parts, that are read where they lie in the file."""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Container, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

Chunks = Iterable[bytes | memoryview]

ALIGNED = 64
"""Parts begin at a multiple of so many bytes, so that arrays in them can be used as they lie."""

LOCAL = struct.Struct("<4s22xHH")
"""The header before a part: its signature, and the lengths of its name and of what follows."""

PADDING = 0xD935
"""The tag of what follows a name and only fills up, as for Android's packages."""

START = (1980, 1, 1, 0, 0, 0)
"""The date of every part, so that equal contents are equal files."""


class Writer:
    """A zip that is written part by part, and replaces a file when it is whole.

    Attributes:
        sums: The size and checksum of each part.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        self._zip = zipfile.ZipFile(self._temporary, "w")
        self._at = 0
        self.sums: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        self._zip.close()
        if kind is None:
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink()

    def add(self, name: str, chunks: Chunks, size: int) -> None:
        """Write a part of so many bytes."""
        info = zipfile.ZipInfo(name, START)
        info.file_size = size
        # Python writes 20 bytes behind ours for a part that may be above 2 GB.
        more = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0
        header = LOCAL.size + len(name) + 4 + more
        fill = -(self._at + header) % ALIGNED
        info.extra = struct.pack("<HH", PADDING, fill) + bytes(fill)
        digest = sha256()
        with self._zip.open(info, "w") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
        self._at += header + fill + size
        self.sums[name] = {"bytes": size, "sha256": digest.hexdigest()}


def parts_of(path: str | os.PathLike[str], checked: str) -> dict[str, memoryview]:
    """Return the parts of a zip by name, as they lie in the file, which is mapped into memory.

    Nothing is unpacked, so no part takes more memory than the file, and no name leads anywhere.

    Args:
        path: The file.
        checked: The part that is compared with the zip's own checksum, as it has those of others.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no zip, or a part is compressed, encrypted, damaged or there twice.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as directory:
                entries = directory.infolist()
        except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeError) as error:
            raise ValueError(str(error)) from error
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    found: dict[str, memoryview] = {}
    for entry in entries:
        name = entry.filename
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = _part(entry, whole)
        if name == checked and zlib.crc32(found[name]) != entry.CRC:
            raise ValueError(f"{name!r} has another checksum: the file is damaged")
    if checked not in found:
        raise ValueError(f"it has no part {checked!r}")
    return found


def _part(entry: zipfile.ZipInfo, whole: memoryview) -> memoryview:
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise ValueError(f"{name!r} is compressed or encrypted")
    begin, size = entry.header_offset, entry.file_size
    if not 0 <= begin <= len(whole) - LOCAL.size:
        raise ValueError(f"{name!r} lies outside of the file")
    signature, name_length, extra_length = LOCAL.unpack_from(whole, begin)
    start = begin + LOCAL.size + name_length + extra_length
    if signature != b"PK\3\4" or start + size > len(whole) or entry.compress_size != size:
        raise ValueError(f"{name!r} lies outside of the file")
    return whole[start : start + size]


def check_sums(
    parts: Mapping[str, memoryview], sums: Mapping[str, Any], unchecked: Container[str] = ()
) -> None:
    """Raise where a part is not the one that was written.

    Args:
        parts: The parts.
        sums: What ``Writer.sums`` was.
        unchecked: The parts of which the size alone is compared.

    Raises:
        ValueError: A part is missing, unknown, of another size or has another checksum.
    """
    if {*parts} != {*sums}:
        raise ValueError(f"it has the parts {[*parts]}, not {[*sums]}")
    for name, view in parts.items():
        size, digest = sums[name]["bytes"], sums[name]["sha256"]
        if len(view) != size or (name not in unchecked and sha256(view).hexdigest() != digest):
            raise ValueError(f"{name!r} has another checksum: the file is damaged")
