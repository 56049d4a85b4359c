"""What is said, on request, of arrays that become part of a graph without being asked to.

An array that an expression meets is captured: it stays what it was when the graph was built, and a
new one means a graph that is built again. ``config.warn_on_captured_constants`` tells of it: once a
trace, which is all that is built from one ``graphc.function`` to the next, and apart from that once
for each function that a loop or a branch is made of.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphc.errors import CapturedConstantWarning
from graphc.ir import Node, frames_up, here, where

__all__ = ["end_of_trace", "tell_of_captured", "within"]


class _Trace(threading.local):
    """What this thread builds.

    Attributes:
        inner: The functions within which nodes are being built, the innermost last.
        told: In which of them it was told already, by identity; None is the graph around all.
    """

    def __init__(self) -> None:
        self.inner: list[Any] = []
        self.told: dict[int, Any] = {}


_trace = _Trace()


def tell_of_captured(x: Node) -> None:
    """Warn of a leaf that nobody asked for, once a trace; a number is no array."""
    around = _trace.inner[-1] if _trace.inner else None
    if not x.type.ndim or id(around) in _trace.told:
        return
    _trace.told[id(around)] = around
    line = where(here())
    warnings.warn(
        f"An array is captured as a constant: {x.type!r}{f', {line}' if line else ''}. It stays as "
        "it is now; another one means that the graph is built again.\n"
        "Make it an input of the function, a graphc.shared variable, or say that it is meant: "
        "gt.constant(x).   silence: config.warn_on_captured_constants = False",
        CapturedConstantWarning,
        stacklevel=frames_up(),
    )


@contextmanager
def within(function: Any) -> Iterator[None]:
    """What is built in here is a function's of a loop or a branch."""
    _trace.inner.append(function)
    try:
        yield
    finally:
        _trace.inner.pop()


def end_of_trace() -> None:
    """What is built from now on is for another function."""
    if not _trace.inner:
        _trace.told.clear()
