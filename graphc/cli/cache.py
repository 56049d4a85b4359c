"""``graphc cache``: show or clear the cache on disk."""

from __future__ import annotations

import json as json_module
import sys
from typing import Any

from graphc.compile.disk import DiskCache
from graphc.config import config

OFF = "the cache is off: GRAPHC_CACHE_DIR says so, or the user has no home"

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def info(*, json: bool) -> int:
    """Print the cache's directory and contents; return 1 if it cannot be used."""
    state = cache_state()
    text = json_module.dumps(state) if json else "\n".join(state_lines(state))
    sys.stdout.write(f"{text}\n")
    return int(state["problem"] is not None)


def clear() -> int:
    """Remove all entries; return 1 if there is no cache or they cannot be removed."""
    directory = config.cache_dir
    if directory is None:
        return _report_error(OFF)
    try:
        removed = DiskCache(directory, config.cache_bytes).clear()
    except OSError as error:
        return _report_error(str(error))
    sys.stdout.write(f"{removed} entries removed from {directory}\n")
    return 0


def path() -> int:
    """Print the directory; return 1 if there is none."""
    if config.cache_dir is None:
        return _report_error(OFF)
    sys.stdout.write(f"{config.cache_dir}\n")
    return 0


def cache_state() -> dict[str, Any]:
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


def state_lines(state: dict[str, Any]) -> list[str]:
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
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


def _report_error(why: str) -> int:
    sys.stderr.write(f"graphc: {why}\n")
    return 1
