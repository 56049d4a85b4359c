"""Where in the user's code a function is made: the lines that led there, and whose they are."""

from __future__ import annotations

import dis
import functools
import importlib.util
import os
import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from graphc.compile.events import is_internal
from graphc.errors import ArgumentError
from graphc.ir import INTERNAL, Site, is_own, mark_own

__all__ = ["FOLDER", "Place", "frames", "level_of", "mark_internal", "place", "variables"]

DEEPEST = 100
"""How many of the innermost lines tell one place from another."""

TEST = "PYTEST_CURRENT_TEST"
"""The variable in which pytest says which test runs: each is a program of its own."""

FOLDER = str(Path(__file__).parents[1]) + "/"
METHODS = str(Path(__file__).parents[2] / "tensor" / "tensor.py")
"""The file through which ``x.eval()`` comes here."""
ON_THE_WAY = (FOLDER, METHODS, INTERNAL, functools.__file__)
"""The files of frames between a user's line and a function made on its behalf."""


class Place:
    """A place in the user's code, told apart from others by all the lines that led there.

    A line is an instruction of a code object: a cell of a notebook that is run again is another
    place, and so is another depth of a recursion.

    Attributes:
        key: Comparable, as long as ``codes`` are kept.
        codes: The code objects.
        site: The innermost line.
        test: The test that runs, if one does.
        is_internal: Whether graphc itself, or a library marked internal, is there.
    """

    __slots__ = ("codes", "is_internal", "key", "site", "test")

    def __init__(self, found: list[Site], test: str | None, *, is_internal: bool) -> None:
        self.test = test
        self.key = (test, *[(id(code), offset) for code, offset in found])
        self.codes = [code for code, _ in found]
        self.site: Site | None = found[0] if found else None
        self.is_internal = is_internal


def place() -> Place:
    """The place of the user's code that is running."""
    found: list[tuple[CodeType, int]] = []
    inside = False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < DEEPEST:
        if not is_own(frame):
            found.append((frame.f_code, _instruction(frame.f_code, frame.f_lasti)))
        elif not found and not inside:
            inside = not frame.f_code.co_filename.startswith(ON_THE_WAY)
        frame = frame.f_back
    return Place(found, os.environ.get(TEST), is_internal=inside or is_internal())


CACHE = dis.opmap["CACHE"]
PRECALL = dis.opmap.get("PRECALL")
"""In Python 3.11 an instruction before that of a call, which may do all of its work."""


def _instruction(code: CodeType, offset: int) -> int:
    """Where an instruction begins, however the interpreter has specialised it by now."""
    steps = code.co_code
    while offset > 0 and steps[offset] == CACHE:
        offset -= 2
    if steps[offset] == PRECALL:
        offset += 2
        while steps[offset] == CACHE:
            offset += 2
    return offset


def frames() -> list[FrameType]:
    """The user's frames, the innermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < DEEPEST:
        if not is_own(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, which is left as it was.

    Up to Python 3.12 a frame keeps the dict that ``f_locals`` once gave: it would hold on to
    functions and arrays that its code has long dropped. Nor may that be cleared where ``locals()``
    gave it to the user.
    """
    found = frame.f_locals
    copy = dict(found)
    own = type(found) is dict and bool(frame.f_code.co_flags & CO_OPTIMIZED)
    if own and sys.getrefcount(found) <= ALONE:
        found.clear()
    return copy


ALONE = 3
"""References to a dict that a frame, a variable and an argument hold, and nobody else."""


def level_of(called: FrameType | None) -> int:
    """The ``stacklevel``, of a warning that the caller gives, of who called that frame."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    below = called is None
    while frame is not None and not (below and not is_own(frame)):
        below = below or frame is called
        frame = frame.f_back
        level += 1
    return level


def mark_internal(package: str) -> None:
    """Take a library's code for graphc's own: what it compiles never warns.

    Errors, events and warnings then name the line that called the library. What it calls, such as a
    function that it is given, is not part of it.

    Args:
        package: The name of a package or module that can be imported.

    Raises:
        ArgumentError: There is none.

    Example:
        >>> mark_internal("this")
    """
    try:
        found = importlib.util.find_spec(package)
    except (AttributeError, ImportError, TypeError, ValueError):
        found = None
    if found is None or not found.has_location or found.origin is None:
        raise ArgumentError(
            f"mark_internal({package!r}): there is no such package.",
            "Give the name of a package or module that can be imported, as text.",
        )
    folders = found.submodule_search_locations
    for prefix in [f"{folder}{os.sep}" for folder in folders] if folders else [found.origin]:
        mark_own(prefix)
