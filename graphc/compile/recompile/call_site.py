"""The call site of a function: the lines of the user's code that led to it, and whose they are."""

from __future__ import annotations

import dis
import functools
import importlib.util
import os
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from graphc import hooks
from graphc.compile.events import is_internal
from graphc.errors import ArgumentError
from graphc.site import INTERNAL, Site, is_own, mark_own
from graphc.tensor.core import tensor

MAX_DEPTH = 100
"""The number of innermost lines that distinguish call sites."""

TEST = "PYTEST_CURRENT_TEST"
"""The environment variable with pytest's running test: tests are distinct programs."""

FOLDER = str(Path(__file__).parents[1]) + "/"
PROVIDERS = str(Path(hooks.__file__).with_name("providers.py"))
ENTRY_FILES = (FOLDER, tensor.__file__, hooks.__file__, PROVIDERS, INTERNAL, functools.__file__)
"""The files of frames between a user's line and the function that it makes."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A site in the user's code, distinguished from others by all the lines that led there.

    A line is an instruction of a code object: a notebook's cell that is run again is another site,
    and so is another depth of a recursion.

    Attributes:
        sites: The lines, the innermost first.
        test: The running test, if there is one.
        is_internal: Whether graphc itself, or a library marked internal, is at the site.
    """

    sites: tuple[Site, ...]
    test: str | None
    is_internal: bool

    @property
    def key(self) -> Hashable:
        """A key, valid as long as ``sites`` are referenced."""
        return (self.test, *[(id(code), offset) for code, offset in self.sites])

    @property
    def site(self) -> Site | None:
        """The innermost line."""
        return self.sites[0] if self.sites else None


def call_site() -> CallSite:
    """Return the call site of the user's code that is running."""
    sites: list[Site] = []
    inside = False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(sites) < MAX_DEPTH:
        if not is_own(frame):
            sites.append((frame.f_code, _instruction(frame.f_code, frame.f_lasti)))
        elif not sites and not inside:
            inside = not frame.f_code.co_filename.startswith(ENTRY_FILES)
        frame = frame.f_back
    return CallSite(tuple(sites), os.environ.get(TEST), inside or is_internal())


CACHE = dis.opmap["CACHE"]
PRECALL = dis.opmap.get("PRECALL")
"""In Python 3.11 the instruction before a call's, which may be the one that runs."""


def _instruction(code: CodeType, offset: int) -> int:
    """Return the start of an instruction, whether the interpreter has specialised it or not."""
    steps = code.co_code
    while offset > 0 and steps[offset] == CACHE:
        offset -= 2
    if steps[offset] == PRECALL:
        offset += 2
        while steps[offset] == CACHE:
            offset += 2
    return offset


def user_frames() -> list[FrameType]:
    """Return the user's frames, the innermost first."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < MAX_DEPTH:
        if not is_own(frame):
            frames.append(frame)
        frame = frame.f_back
    return frames


def local_variables(frame: FrameType) -> dict[str, Any]:
    """Return the local variables of a frame, and leave the frame unchanged.

    Up to Python 3.12 a frame keeps the dict that ``f_locals`` once returned, which would keep
    functions and arrays alive that its code has dropped. It may not be cleared where the user got
    it from ``locals()``.
    """
    variables = frame.f_locals
    copy = dict(variables)
    is_private = type(variables) is dict and bool(frame.f_code.co_flags & CO_OPTIMIZED)
    if is_private and sys.getrefcount(variables) <= ALONE:
        variables.clear()
    return copy


ALONE = 3
"""The references to a dict that only a frame, a variable and an argument hold."""


def mark_internal(package: str) -> None:
    """Treat a library's code as graphc's own: its compilations never warn.

    Errors, events and warnings then name the line that called the library. Functions that are
    passed to the library, and that it calls, are not part of it.

    Args:
        package: The name of a package or module that can be imported.

    Raises:
        ArgumentError: There is no such package.

    Example:
        >>> mark_internal("this")
    """
    try:
        spec = importlib.util.find_spec(package)
    except (AttributeError, ImportError, TypeError, ValueError):
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        raise ArgumentError(
            f"mark_internal({package!r}): there is no such package.",
            "Give the name of a package or module that can be imported, as text.",
        )
    folders = spec.submodule_search_locations
    for prefix in [f"{folder}{os.sep}" for folder in folders] if folders else [spec.origin]:
        mark_own(prefix)
