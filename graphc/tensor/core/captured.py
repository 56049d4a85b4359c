"""The warning, on request, of arrays that become constants of a graph without being declared.

An array in an expression is captured: it keeps its values, and a new array requires a new graph.
``config.warn_on_captured_constants`` reports it once per trace, the graph built from one
``graphc.function`` to the next, and once more for each body of a loop or a branch.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphc.errors import CapturedConstantWarning
from graphc.ir import Node
from graphc.site import frames_up, user_line


class _Trace(threading.local):
    """The state of the graph that this thread builds.

    Attributes:
        inner: The functions within which nodes are being built, the innermost last.
        warned: The functions warned of already, by identity; None is the outermost graph.
    """

    def __init__(self) -> None:
        self.inner: list[Any] = []
        self.reported: dict[int, Any] = {}


_trace = _Trace()


def warn_of_captured(x: Node) -> None:
    """Warn of a captured array, once a trace; numbers are not reported."""
    around = _trace.inner[-1] if _trace.inner else None
    if not x.type.ndim or id(around) in _trace.reported:
        return
    _trace.reported[id(around)] = around
    line = user_line()
    warnings.warn(
        f"An array is captured as a constant: {x.type!r}{f', {line}' if line else ''}. It keeps "
        "its "
        "present value; another one requires a new graph.\n"
        "Make it an input of the function, a graphc.shared variable, or an explicit constant: "
        "gt.constant(x).   silence: config.warn_on_captured_constants = False",
        CapturedConstantWarning,
        stacklevel=frames_up(),
    )


@contextmanager
def within(function: Any) -> Iterator[None]:
    """Mark all nodes built in this context as the body of a loop or a branch."""
    _trace.inner.append(function)
    try:
        yield
    finally:
        _trace.inner.pop()


def end_of_trace() -> None:
    """Begin a new trace: later arrays belong to another function."""
    if not _trace.inner:
        _trace.reported.clear()
