"""Compilations by MLX in the calls of an executable, noticed and recorded.

MLX compiles a function for the shapes that it is called with and does not report it; but it calls
the function to do so, which is seen here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter, time
from typing import Any

from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext, as_python
from graphc.link.mlx.arrays import to_numpy
from graphc.link.mlx.compiler import new_kernels
from graphc.progress import stage


class _Current(threading.local):
    call: Call | None = None


_current = _Current()


def watching() -> Call | None:
    """The call of an executable that this thread is in."""
    return _current.call


class Watch:
    """Over the calls of one executable.

    Args:
        spec: How it is called.
        context: Where compilations are recorded.
        is_large: Whether compiling it may take seconds, which are then told.

    Attributes:
        calls: Those that are open, each within the one before it.
    """

    def __init__(self, spec: CallSpec, context: CompileContext, *, is_large: bool) -> None:
        self.static = spec.static
        self.is_large = is_large
        self.context = context
        self.is_new = True
        self.calls: list[Call] = []

    def open(self, arguments: Sequence[Any]) -> Call:
        """A call of this executable, in this thread until it is closed."""
        call = Call(self, arguments)
        self.calls.append(call)
        if self.is_new:
            call.compiles()
        return call

    def close(self) -> Call:
        """The last call that was opened, which is over."""
        call = self.calls.pop()
        call.close()
        return call


class Call:
    """A call; within it there may be others, of the same executable too.

    A call is recorded once, however many functions MLX compiles in it; the first call always is.
    """

    __slots__ = ("arguments", "outer", "since", "stage", "watch")

    def __init__(self, watch: Watch, arguments: Sequence[Any]) -> None:
        self.watch = watch
        self.arguments = arguments
        self.since: float | None = None
        self.stage: stage | None = None
        self.outer = _current.call
        _current.call = self

    def close(self) -> None:
        """It is over."""
        _current.call = self.outer
        if self.stage is not None:
            self.stage.__exit__()

    def compiles(self) -> None:
        """MLX is about to compile something for this call.

        Raises:
            RecompileError: It is not to.
        """
        if self.since is None:
            shapes, values = self._signature()
            self.watch.context.before_compile(shapes, values)
            self.since = perf_counter()
            if self.watch.is_large:
                self.stage = stage(_Kernels(), blocking=True)
                self.stage.__enter__()

    def record(self) -> None:
        """Record it when it is over and nothing failed."""
        if self.since is not None:
            self.watch.is_new = False
            shapes, values = self._signature()
            self.watch.context.record("compile", shapes, values, perf_counter() - self.since)

    def _signature(self) -> tuple[list[tuple[int, ...]], dict[int, Any]]:
        values = {i: as_python(to_numpy(self.arguments[i])) for i in self.watch.static}
        return [tuple(x.shape) for x in self.arguments], values


class _Kernels:
    """What is told of a call while MLX compiles."""

    def __init__(self) -> None:
        self.since = time()

    def __call__(self) -> str:
        count = new_kernels(self.since)
        return f"first call on MLX: {count} kernel{'' if count == 1 else 's'} compiled"
