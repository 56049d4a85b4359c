"""What an entry on disk was made by: this graphc, Python and NumPy, on this machine.

An executable holds instructions of the processor that it was compiled on, and a pickled graph
belongs to the source that made it. Whatever of these differs, the entry is not found.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

__all__ = ["edited_since_import", "stamp"]

PACKAGE = Path(__file__).parents[1]

IMPORTED_NS = time.time_ns()
"""About when this process read graphc's source."""

CPU_FACTS = frozenset(
    {
        *("vendor_id", "cpu family", "model", "flags"),  # x86
        *("CPU implementer", "CPU variant", "CPU part", "Features"),  # ARM
        *("isa", "uarch", "cpu", "machine"),  # RISC-V, POWER
    }
)
"""The lines of ``/proc/cpuinfo`` that decide what instructions may be used; others vary by hour."""

CPU_BYTES = 2**14
"""More than the first processor takes; reading all of them asks each for its clock rate."""


@cache
def stamp() -> bytes:
    """A digest of everything that an entry depends on but its own name says nothing of."""
    facts = [sys.version, np.__version__, sys.platform, platform.machine(), str(PACKAGE)]
    facts += [*_processor()]
    facts += [f"{path} {size} {changed}" for path, size, changed in _source()]
    return blake2b("\n".join(facts).encode(), digest_size=16).digest()


@cache
def edited_since_import() -> bool:
    """Whether graphc's files were changed after this process read them.

    What it would save was then not made by the source that the stamp tells of.
    """
    return max((changed for _, _, changed in _source()), default=0) > IMPORTED_NS


@cache
def _source() -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of change of each of graphc's files; reading them takes 20 times that."""
    try:
        return tuple(sorted(_files(str(PACKAGE))))
    except NotADirectoryError:
        # Within an archive, which changes with whatever it holds.
        archive = next(path for path in PACKAGE.parents if path.is_file())
        status = archive.stat()
        return ((str(archive), status.st_size, status.st_mtime_ns),)


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".py", ".pyc")):
                # An editor's link to nowhere says that a file is open.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield entry.path, status.st_size, status.st_mtime_ns
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _processor() -> Iterator[str]:
    """What tells processors apart that do not have the same instructions."""
    if sys.platform == "win32":
        yield os.environ.get("PROCESSOR_IDENTIFIER", "")
    elif sys.platform == "darwin":
        # The kernel's version names the family of chips that it was built for.
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
