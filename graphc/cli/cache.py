"""``graphc cache``: show, clear, export or import the cache on disk."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphc.compile.disk import DiskCache
from graphc.compile.transfer import Transfer, checksum, export_entries, import_entries
from graphc.config import config
from graphc.errors import CacheFileError

OFF = "the cache is off: GRAPHC_CACHE_DIR says so, or the user has no home"

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def info(*, json: bool) -> int:
    """Print the cache's directory and contents; return 1 if it cannot be used."""
    state = found()
    text = json_module.dumps(state) if json else "\n".join(described(state))
    sys.stdout.write(f"{text}\n")
    return int(state["problem"] is not None)


def clear() -> int:
    """Remove all entries; return 1 if there is no cache or they cannot be removed."""
    directory = config.cache_dir
    if directory is None:
        return _failed(OFF)
    try:
        removed = DiskCache(directory, config.cache_bytes).clear()
    except OSError as error:
        return _failed(str(error))
    sys.stdout.write(f"{removed} entries removed from {directory}\n")
    return 0


def path() -> int:
    """Print the directory; return 1 if there is none."""
    if config.cache_dir is None:
        return _failed(OFF)
    sys.stdout.write(f"{config.cache_dir}\n")
    return 0


def export(file: str) -> int:
    """Write the entries to a file; return 1 if that cannot be done."""
    return _moved(lambda disk: _exported(disk, Path(file)))


def _exported(disk: DiskCache, file: Path) -> None:
    done = export_entries(disk, file)
    sys.stdout.write(
        f"{_entries(done)} written to {file}\nSHA-256 {checksum(file)}\n"
        f"On a machine of this kind: graphc cache import {file.name} --trust\n"
    )


def import_(file: str, *, trust: bool) -> int:
    """Add the entries of a file; return 1 if that cannot be done, or the file is not trusted."""
    return _moved(lambda disk: _imported(disk, Path(file), trust=trust))


def _imported(disk: DiskCache, file: Path, *, trust: bool) -> None:
    if not trust:
        raise CacheFileError(
            f"{file} was not imported. Programs in the cache are pickled: whoever made the file "
            f"can have this user's processes run any code.\nSHA-256 {checksum(file)}",
            "If this is the checksum that whoever you trust has told you, add --trust.",
        )
    done = import_entries(disk, file)
    sys.stdout.write(f"{_entries(done)} added to {disk.directory}\n")
    for why, count in done.left_out.items():
        sys.stdout.write(f"{count} left out: {why}\n")


def _entries(done: Transfer) -> str:
    return f"{done.entries} {'entry' if done.entries == 1 else 'entries'}, {_amount(done.bytes)},"


def _moved(move: Callable[[DiskCache], None]) -> int:
    """Export or import; return 1 and say why if that cannot be done."""
    if config.cache_dir is None:
        return _failed(OFF)
    try:
        move(DiskCache(config.cache_dir, config.cache_bytes))
    except CacheFileError as error:
        return _failed(f"{error.problem}\n{error.remedy}".strip())
    except OSError as error:
        return _failed(str(error))
    return 0


def found() -> dict[str, Any]:
    """Return the state of the cache."""
    directory = config.cache_dir
    if directory is None:
        return {"directory": None, "entries": 0, "bytes": 0, "limit": 0, "problem": None}
    state = DiskCache(directory, config.cache_bytes).info()
    return {
        "directory": str(directory),
        "entries": state.entries,
        "bytes": state.bytes,
        "limit": config.cache_bytes,
        "problem": state.problem,
    }


def described(state: dict[str, Any]) -> list[str]:
    """Return the state of the cache as lines of text."""
    if state["directory"] is None:
        return [OFF]
    lines = [
        state["directory"],
        f"{state['entries']} entries, {_amount(state['bytes'])} of {_amount(state['limit'])}",
    ]
    problem = state["problem"]
    return [*lines, f"not used: {problem}"] if problem else lines


def _amount(size: float) -> str:
    """Return a number of bytes as text for people."""
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


def _failed(why: str) -> int:
    sys.stderr.write(f"graphc: {why}\n")
    return 1
