"""The user's file and line: a cheap walk up the stack; the line is computed only on demand."""

from __future__ import annotations

import contextlib
import dis
import functools
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

INTERNAL = "<graphc "
"""The prefix of the file names of generated code."""

# Links are not resolved: code objects have the paths of the import.
_LIBRARIES = Path(np.__file__).parent.parent
"""The folder of NumPy and of other libraries, which may call methods of symbolic arrays."""

_ROOT = f"{Path(__file__).parent}/"
_CACHES_AND_CONTEXTS = {functools.__file__, contextlib.__file__}
_own_prefixes: tuple[str, ...] = (
    _ROOT,
    INTERNAL,
    "<frozen ",
    *[f"{_LIBRARIES}/{name}/" for name in ("jax", "numpy", "pandas", "scipy")],
)

Site = tuple[CodeType, int]
"""A code object and the offset of an instruction in it, from which ``where`` computes a line."""


class _Origin(threading.local):
    site: Site | None = None


_origin = _Origin()


def here() -> Site | None:
    """Return the site of the user's innermost frame, or the site of ``derived_from``, if any."""
    if _origin.site is not None:
        return _origin.site
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def is_own(frame: FrameType) -> bool:
    """Return whether a frame runs graphc's or generated code, or their caches and contexts."""
    name = frame.f_code.co_filename
    if name == "<string>":  # as of a dataclass
        generated = frame.f_code.co_name == "__init__"
        return generated or str(frame.f_globals.get("__name__", "")).startswith("graphc.")
    return _is_own_file(name)


def foreign_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of graphc, NumPy, SciPy, pandas and JAX."""
    if traceback is None:
        return None
    rest = foreign_frames(traceback.tb_next)
    if is_own(traceback.tb_frame):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


@functools.lru_cache(4096)
def _is_own_file(name: str) -> bool:
    return name.startswith(_own_prefixes) or name in _CACHES_AND_CONTEXTS


def mark_own(prefix: str) -> None:
    """Treat files whose names begin with a prefix as graphc's own, not as the user's code."""
    global _own_prefixes  # noqa: PLW0603 (one table for the process)
    if prefix not in _own_prefixes:
        _own_prefixes += (prefix,)
    _is_own_file.cache_clear()


def frames_up() -> int:
    """Return the ``stacklevel`` with which a warning of the caller names the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_own(frame):
        frame = frame.f_back
        level += 1
    return level


def is_users_call(wrappers: str) -> bool:
    """Return whether the user's code called the caller's caller, directly or through a wrapper.

    Args:
        wrappers: The file whose functions are wrappers, such as methods.
    """
    if _origin.site is not None:
        return False
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename == wrappers:
        frame = frame.f_back
    return frame is not None and not is_own(frame)


class derived_from:  # noqa: N801 (reads as a statement)
    """A context in which new nodes and errors have a given site, as in derivatives and rewrites."""

    __slots__ = ("before", "site")

    def __init__(self, site: Site | None) -> None:
        self.site = site

    def __enter__(self) -> Self:
        self.before = _origin.site
        _origin.site = self.site
        return self

    def move(self, site: Site | None) -> None:
        """Change the site within the context, which costs less than a new context."""
        _origin.site = site

    def __exit__(self, *error: object) -> None:
        _origin.site = self.before


def where(site: Site | None) -> str | None:
    """Return the ``file:line`` of a site.

    Example:
        >>> where(None) is None
        True
    """
    return None if site is None else _file_and_line(site[0].co_filename, *site)


@functools.lru_cache(1024)
def _file_and_line(file: str, code: CodeType, offset: int) -> str:
    # Equal code of two files is equal to a cache: code objects are compared without their file.
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return f"{Path(file).name}:{line}"
    return f"{Path(file).name}:{code.co_firstlineno}"


@functools.lru_cache(4096)
def site_at(file: str, line: int) -> Site:
    """Return a site for a file and line that another library or process recorded.

    Example:
        >>> where(site_at("model.py", 41))
        'model.py:41'
    """
    # Only the file and the line of the code are ever asked for.
    code = compile("0", file, "exec").replace(co_firstlineno=line)
    return code, next(start for start, _, n in code.co_lines() if n == line)


def user_line() -> str | None:
    """Return the ``file:line`` of the running user code, or None."""
    return where(here())


Targets = list[Any]
"""The names that an assignment unpacks to; a list for a nested target, as in ``[a, b], c = x``."""


def unpacking_targets() -> Targets | None:
    """Return the targets to which the user's running line unpacks a result.

    Returns:
        The targets of ``a, b = f(x)``; None for ``c = f(x)`` and ``a, *b = f(x)``. If a function of
        the user returns the result unchanged, the line of its caller counts.
    """
    instructions = _next_instructions()
    if not instructions or instructions[0].opname != UNPACK:
        return None
    return _names(_stores(instructions[1:]), instructions[0].arg or 0)


def constant_index() -> Any:
    """Return the constant with which the user's running line indexes a result: 0 of ``f(x)[0]``.

    None if the line does not index the result, or if the index is not a constant.
    """
    match _next_instructions()[:2]:
        case (load, take) if load.opname in LOADS and (
            take.opname == "BINARY_SUBSCR" or (take.opname, take.argrepr) == ("BINARY_OP", "[]")
        ):
            return load.argval
    return None


class Comparison(NamedTuple):
    """A comparison in the user's code.

    Attributes:
        operator: ``==`` or ``!=``.
        is_kept: Whether the code keeps the result. ``if a == b:`` only branches on it.
    """

    operator: str
    is_kept: bool


@functools.lru_cache(1024)
def compares(code: CodeType, offset: int) -> Comparison | None:
    """Return the comparison that an instruction makes, or None if it is no ``==`` or ``!=``."""
    instructions = _instructions_from(code, offset)
    if not instructions or instructions[0].opname != "COMPARE_OP":
        return None
    operator = str(instructions[0].argval)
    if operator not in ("==", "!="):
        return None
    names = [x.opname for x in instructions[1:3]]
    decides = any(name.startswith(DECISIONS) for name in names[: 2 if "COPY" in names[:1] else 1])
    return Comparison(operator, not decides)


DECISIONS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")


def _next_instructions() -> tuple[dis.Instruction, ...]:
    """Return the instructions that follow the running call in the user's innermost frame.

    A frame that returns the result at once is skipped.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if not is_own(frame):
            instructions = _instructions_from(frame.f_code, frame.f_lasti)
            if not instructions or instructions[0].opname != "RETURN_VALUE":
                return instructions
        frame = frame.f_back
    return ()


@functools.lru_cache(1024)
def _instructions_from(code: CodeType, offset: int) -> tuple[dis.Instruction, ...]:
    """Return the instructions from an offset on, without the call at the offset.

    If the offset is within a nested unpacking, they begin at the outermost one.
    """
    instructions = [x for x in dis.get_instructions(code) if x.opname != "CACHE"]
    positions = [i for i, x in enumerate(instructions) if x.offset <= offset]
    if not positions:
        return ()
    first = positions[-1]
    if instructions[first].opname.startswith("CALL"):
        first += 1
    while first and instructions[first - 1].opname == UNPACK:
        first -= 1
    return tuple(instructions[first:])


LOADS = {"LOAD_CONST", "LOAD_SMALL_INT"}
UNPACK = "UNPACK_SEQUENCE"


def _stores(instructions: Iterable[dis.Instruction]) -> Iterator[int | str]:
    """Yield the names that instructions store to, and the number of targets of each unpacking."""
    for x in instructions:
        if x.opname == UNPACK:
            yield x.arg or 0
        elif x.opname == "STORE_FAST_STORE_FAST":
            yield from x.argval
        elif x.opname.startswith("STORE_"):
            yield x.argval[0] if isinstance(x.argval, tuple) else str(x.argval)
        elif x.opname == "POP_TOP":  # the name is stored to again at once, as in ``_, _ = x``
            yield "_"


def _names(stores: Iterator[int | str], count: int) -> Targets:
    targets: Targets = []
    for x in stores if count else ():
        targets.append(_names(stores, x) if isinstance(x, int) else x)
        if len(targets) == count:
            break
    return targets


def expects_updates(targets: Targets | None) -> bool:
    """Return whether an assignment's targets look like the targets of outputs and updates.

    That holds for two targets if the second is called ``updates`` or ``_``, or if the first is
    unpacked itself. The answer affects only the words of a message.

    Example:
        >>> [expects_updates(["x", name]) for name in ("updates", "_scan_updates", "_", "updated")]
        [True, True, True, False]
    """
    match targets:
        case [list(), str()]:
            return True
        case [_, str(second)]:
            return not second.strip("_") or re.search(_UPDATES, second.lower()) is not None
    return False


_UPDATES = r"(^|_)(upd(ate|t)?s(_|\d|$)|upd(ate|t)?[_\d]*$)"
