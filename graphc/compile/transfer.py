"""The cache on disk as one file, which another machine of the same kind takes over.

The file has the entries' bytes one after the other, then a manifest in JSON, and at its end the
manifest's length and checksum. The manifest says what the entries depend on and has a label and a
checksum for each. Nothing is unpickled here; but entries are pickled, and run code when a function
uses them. A checksum tells damage, and not who made a file: whoever imports one has to know that.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, file_digest
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from graphc.compile.disk import DiskCache
from graphc.compile.entry import edited_since_import, portable_facts
from graphc.errors import CacheFileError

MAGIC = b"graphc cache 1\n"

TAIL = struct.Struct("<Q32s")
"""The length and the checksum of the manifest."""

MANIFEST_BYTES = 2**26
"""The longest manifest that is read: that of some hundred thousand entries."""

LABEL = re.compile(r"[0-9a-f]{16,128} (\w*)[^\0]*")
"""The name of an entry, and the build that it belongs to, which begins with a library's name."""

LIBRARIES = {"JAX": ("jax", "jaxlib"), "MLX": ("mlx",)}
"""The packages whose versions entries depend on, by how their builds begin."""


@dataclass(frozen=True)
class Transfer:
    """What was exported or imported.

    Attributes:
        entries: Their number.
        bytes: Their size.
        left_out: For each reason the number of entries that were not imported.
    """

    entries: int
    bytes: int
    left_out: Counter[str]


def checksum(path: Path) -> str:
    """The SHA-256 of a file, by which people compare it.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def export_entries(disk: DiskCache, path: Path) -> Transfer:
    """Write all entries that this process could load to a file.

    Raises:
        CacheFileError: There are none, or the cache cannot be used.
        OSError: The file cannot be written; one that was there stays.
    """
    _refuse_unusable(disk)
    described: list[dict[str, Any]] = []
    with written(path) as file:
        file.write(MAGIC)
        for label, data in disk.labelled():
            file.write(data)
            described.append({"label": label, "bytes": len(data), "check": _check(data).hex()})
        if not described:
            raise CacheFileError(
                f"The cache {disk.directory} has no entries of this graphc on this machine.",
                "Fill it: call functions, or graphc.compile_ahead(f, shapes).",
            )
        manifest = {"facts": portable_facts(), "versions": _versions(), "entries": described}
        text = json.dumps(manifest).encode()
        file.write(text)
        file.write(TAIL.pack(len(text), _check(text)))
    return Transfer(len(described), sum(x["bytes"] for x in described), Counter())


def import_entries(disk: DiskCache, path: Path) -> Transfer:
    """Add the entries of a file to the cache, all of which are checked before one is added.

    Raises:
        CacheFileError: It is no such file, is damaged, was made by another graphc, Python or NumPy
            or on another kind of machine, has nothing for the libraries here, or does not fit.
        OSError: It cannot be read.
    """
    _refuse_unusable(disk)
    with path.open("rb") as file:
        manifest, end = _manifest(file, path)
        _refuse_other_machine(manifest["facts"], path)
        parts = _parts(manifest.get("entries"), end, path)
        for part in parts:
            part.read(file, path)
        left_out = Counter(why for part in parts if (why := part.problem(manifest["versions"])))
        fitting = [part for part in parts if not part.problem(manifest["versions"])]
        size = sum(part.size for part in fitting)
        if not fitting or size > disk.limit_bytes:
            why = "; ".join(left_out) if left_out else f"it takes {size:,} bytes"
            raise CacheFileError(
                f"{path} has nothing that can be imported: {why}.",
                "Export it with the same versions of the libraries, and not more than "
                f"config.cache_bytes, {disk.limit_bytes:,} bytes.",
            )
        for part in fitting:
            if not disk.save_labelled(part.label, part.read(file, path)):
                raise CacheFileError(f"{disk.directory} cannot be written to.")
    return Transfer(len(fitting), size, left_out)


@dataclass(frozen=True)
class _Part:
    """An entry in a file.

    Attributes:
        label: Its name and build.
        start: Where it begins.
        size: Its length.
        check: Its checksum, in hexadecimal digits.
    """

    label: str
    start: int
    size: int
    check: str

    def read(self, file: IO[bytes], path: Path) -> bytes:
        """Its bytes.

        Raises:
            CacheFileError: They are not those that were exported.
        """
        file.seek(self.start)
        data = file.read(self.size)
        if _check(data).hex() != self.check:
            raise _damaged(path)
        return data

    def problem(self, versions: dict[str, str]) -> str | None:
        """Why nothing here could use it, given the versions where it was made; or None."""
        found = LABEL.fullmatch(self.label)
        assert found is not None
        for name in LIBRARIES.get(found[1], ()):
            there, here = versions.get(name), _versions().get(name)
            if there != here:
                return f"made with {name} {there}, and here is {here or 'none'}"
        return None


def _refuse_unusable(disk: DiskCache) -> None:
    """Raise where the cache is not used.

    Raises:
        CacheFileError: It is not.
    """
    if edited_since_import():
        raise CacheFileError(
            "graphc's files have changed since it was imported.", "Start the command again."
        )
    problem = disk.info().problem
    if problem is not None:
        raise CacheFileError(f"The cache {disk.directory} is not used: {problem}.")


def _refuse_other_machine(facts: dict[str, str], path: Path) -> None:
    """Raise where a file's entries depend on something that is otherwise here.

    Raises:
        CacheFileError: They do.
    """
    own = portable_facts()
    differing = [name for name in own if facts.get(name) != own[name]]
    if differing:
        shown = "; ".join(f"{name}: {_short(facts.get(name))}" for name in differing)
        here = "; ".join(f"{name}: {_short(own[name])}" for name in differing)
        raise CacheFileError(
            f"{path} was made with another {' and another '.join(differing)}. There: {shown}. "
            f"Here: {here}.",
            "Export it with the same versions, on a machine of this kind.",
        )


def _short(fact: Any) -> str:
    text = re.sub(r"\s+", " ", str(fact))
    return text if len(text) <= 100 else f"{text[:97]}..."


def _manifest(file: IO[bytes], path: Path) -> tuple[dict[str, Any], int]:
    """The manifest of a file, and where the entries before it end.

    Raises:
        CacheFileError: The file is damaged, or another one.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise CacheFileError(
            f"{path} was not written by this version of graphc cache export.",
            "Give a file that was.",
        )
    last = file.seek(0, os.SEEK_END) - TAIL.size
    if last < len(MAGIC):
        raise _damaged(path)
    file.seek(last)
    size, check = TAIL.unpack(file.read(TAIL.size))
    end = last - size
    if end < len(MAGIC) or size > MANIFEST_BYTES:
        raise _damaged(path)
    file.seek(end)
    text = file.read(size)
    try:
        found = json.loads(text) if _check(text) == check else None
    except (ValueError, RecursionError):
        found = None
    if not (
        isinstance(found, dict) and all(map(_is_text, (found.get("facts"), found.get("versions"))))
    ):
        raise _damaged(path)
    return found, end


def _is_text(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(x, str) for x in found.values())


def _parts(described: Any, end: int, path: Path) -> list[_Part]:
    """The entries that a manifest describes, which fill the file before it.

    Raises:
        CacheFileError: They do not.
    """
    start, found = len(MAGIC), []
    for x in described if isinstance(described, list) else ():
        match x:
            case {"label": str(label), "bytes": int(size), "check": str(check)} if (
                LABEL.fullmatch(label) and 0 <= size <= end - start
            ):
                found.append(_Part(label, start, size, check))
                start += size
            case _:
                raise _damaged(path)
    if start != end or not found:
        raise _damaged(path)
    return found


def _damaged(path: Path) -> CacheFileError:
    return CacheFileError(f"{path} is damaged; nothing was imported.", "Export or copy it again.")


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest()


@cache
def _versions() -> dict[str, str]:
    """The versions of the libraries that are installed."""
    found = {}
    for name in (name for names in LIBRARIES.values() for name in names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which gets its name when all is written."""
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
