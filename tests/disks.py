"""What tests of the cache on disk share."""

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from graphc.compile import disk as disk_module, entry as entry_module
from graphc.compile.disk import DiskCache

NAME, OTHER = "0123456789abcdef", "fedcba9876543210"
DATA = bytes(range(256)) * 4
LIMIT = 10**6

posix = pytest.mark.skipif(os.name != "posix", reason="needs the modes and signals of POSIX")

PINNED = """
from graphc.compile import disk as disk_module, entry as entry_module
disk_module.stamp = entry_module.stamp = lambda: bytes(16)
disk_module.edited_since_import = lambda: False
"""
"""At the start of other processes: whoever edits graphc while its tests run has them pass."""


def pin(patch: pytest.MonkeyPatch, stamp: bytes) -> None:
    patch.setattr(disk_module, "stamp", lambda: stamp)
    patch.setattr(entry_module, "stamp", lambda: stamp)


def python(code: str, *arguments: object) -> list[str]:
    """What runs that code."""
    return [sys.executable, "-c", PINNED + code, *map(str, arguments)]


def files(disk: DiskCache, suffix: str = "") -> list[Path]:
    """What is in the directory."""
    return sorted(path for path in disk.directory.iterdir() if path.name.endswith(suffix))


def entry(disk: DiskCache) -> Path:
    """The file of its only entry."""
    (found,) = files(disk, ".entry")
    return found


def told(use: Callable[[], object]) -> list[str]:
    """The messages of the warnings that it causes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use()
    assert {warning.category for warning in found} <= {RuntimeWarning}
    return [str(warning.message) for warning in found]


def use_all(disk: DiskCache, name: str) -> None:
    """Everything that needs the directory, twice."""
    for _ in range(2):
        assert disk.load(name) is None
        disk.save(name, DATA)
        with disk.lock(name):
            assert disk.load(name) is None


def file_name(i: int) -> str:
    return f"{i:016x}"
