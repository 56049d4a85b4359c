"""The user's file and line: found by a cheap walk up the stack, worked out only when asked for."""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

__all__ = ["INTERNAL", "Site", "derived_from", "frames_up", "here", "is_own", "mark_own", "where"]

INTERNAL = "<graphc "
"""How the file names of generated code begin."""

_ROOT = str(Path(__file__).resolve().parent.parent) + "/"
_owned: tuple[str, ...] = (_ROOT, INTERNAL, "<frozen ")

Site = tuple[CodeType, int]
"""A code object and the offset of an instruction in it: a line, before anyone asks which."""


class _Origin(threading.local):
    site: Site | None = None


_origin = _Origin()


def here() -> Site | None:
    """Where the user's code is now, or where the node being worked on came from."""
    if _origin.site is not None:
        return _origin.site
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def is_own(frame: FrameType) -> bool:
    """Whether it runs code of graphc's, or code generated for it, or what caches its results."""
    name = frame.f_code.co_filename
    if name == "<string>":  # as of a dataclass
        generated = frame.f_code.co_name == "__init__"
        return generated or str(frame.f_globals.get("__name__", "")).startswith("graphc.")
    return _is_own_file(name)


@functools.lru_cache(4096)
def _is_own_file(name: str) -> bool:
    return name.startswith(_owned) or name == functools.__file__


def mark_own(prefix: str) -> None:
    """Take files whose names begin so for no user's code: those of a library built on graphc."""
    global _owned  # noqa: PLW0603 (one table for the process)
    if prefix not in _owned:
        _owned += (prefix,)
    _is_own_file.cache_clear()


def frames_up() -> int:
    """How many frames up from its caller the user's code is: a ``stacklevel`` for warnings."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_own(frame):
        frame = frame.f_back
        level += 1
    return level


class derived_from:  # noqa: N801 (reads as a statement)
    """Nodes made within are made on behalf of that line: by a derivative or a rewrite."""

    __slots__ = ("before", "site")

    def __init__(self, site: Site | None) -> None:
        self.site = site

    def __enter__(self) -> None:
        self.before = _origin.site
        _origin.site = self.site

    def __exit__(self, *error: object) -> None:
        _origin.site = self.before


@functools.lru_cache(1024)
def where(site: Site | None) -> str | None:
    """The ``file:line`` of a site.

    Example:
        >>> where(None) is None
        True
    """
    if site is None:
        return None
    code, offset = site
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return f"{Path(code.co_filename).name}:{line}"
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
