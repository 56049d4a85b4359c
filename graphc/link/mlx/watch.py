"""Detection and records of MLX's compilations in the calls of an executable.

MLX compiles a function for the shapes that it is called with and does not report it. But MLX calls
the Python function to trace it, and that call is detected here.
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


class _CallState(threading.local):
    call: Call | None = None


_state = _CallState()


def watching() -> Call | None:
    """Return the call of an executable that this thread is in, or None."""
    return _state.call


class Watch:
    """The calls of one executable, each nested in the one before it.

    The last ``lengths`` arguments are not recorded. If the program ``is_large``, compilation may
    take seconds, and its progress is reported.
    """

    def __init__(
        self, spec: CallSpec, context: CompileContext, lengths: int, *, is_large: bool
    ) -> None:
        self.recorded = len(spec.arguments) - lengths
        self.static = spec.static
        self.is_large = is_large
        self.context = context
        self.is_new = True
        self.calls: list[Call] = []

    def open(self, arguments: Sequence[Any]) -> Call:
        """Return a call of this executable in this thread, open until ``close``."""
        call = Call(self, arguments)
        self.calls.append(call)
        if self.is_new:
            call.compiles()
        return call

    def close(self) -> Call:
        """Close the last open call, and return it."""
        call = self.calls.pop()
        call.close()
        return call


class Call:
    """A call of an executable; calls may be nested, also in calls of the same executable.

    A call is recorded once, however many functions MLX compiles in it; the first call always is.
    """

    __slots__ = ("arguments", "outer", "since", "stage", "watch")

    def __init__(self, watch: Watch, arguments: Sequence[Any]) -> None:
        self.watch = watch
        self.arguments = arguments
        self.since: float | None = None
        self.stage: stage | None = None
        self.outer = _state.call
        _state.call = self

    def close(self) -> None:
        """End the call and its progress report."""
        _state.call = self.outer
        if self.stage is not None:
            self.stage.__exit__()

    def compiles(self) -> None:
        """Note that MLX is about to compile something for this call.

        Raises:
            RecompileError: If the context forbids compilation.
        """
        if self.since is None:
            shapes, values = self._signature()
            self.watch.context.before_compile(shapes, values)
            self.since = perf_counter()
            if self.watch.is_large:
                self.stage = stage(_KernelProgress(), blocking=True)
                self.stage.__enter__()

    def record(self) -> None:
        """Record a compilation in this call, once the call has ended without an error."""
        if self.since is not None:
            self.watch.is_new = False
            shapes, values = self._signature()
            self.watch.context.record("compile", shapes, values, perf_counter() - self.since)

    def _signature(self) -> tuple[list[tuple[int, ...]], dict[int, Any]]:
        recorded = self.arguments[: self.watch.recorded]
        static = [i for i in self.watch.static if i < len(recorded)]
        values = {i: as_python(to_numpy(recorded[i])) for i in static}
        return [tuple(x.shape) for x in recorded], values


class _KernelProgress:
    def __init__(self) -> None:
        self.since = time()

    def __call__(self) -> str:
        count = new_kernels(self.since)
        return f"first call on MLX: {count} kernel{'' if count == 1 else 's'} compiled"
