"""What MLX compiles in the calls of an executable, as a ledger is told of it.

MLX compiles a function for the shapes that it is called with, and says nothing of it; but it calls
the function to do so, and that is seen here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from graphc.link.ledger import Ledger, plain
from graphc.link.mlx.arrays import to_numpy
from graphc.link.outline import Outline

__all__ = ["Call", "Watch", "watching"]


class _Current(threading.local):
    call: Call | None = None


_current = _Current()


def watching() -> Call | None:
    """The call of an executable that this thread is in."""
    return _current.call


class Watch:
    """Over the calls of one executable."""

    def __init__(self, outline: Outline, ledger: Ledger) -> None:
        self.static = outline.static
        self.ledger = ledger
        self.is_new = True


class Call:
    """Entered, a call; within it there may be others, of the same executable too.

    However many functions of MLX's a call needs, it is told of once; the first one always.
    """

    __slots__ = ("arguments", "outer", "since", "watch")

    def __init__(self, watch: Watch, arguments: Sequence[Any]) -> None:
        self.watch = watch
        self.arguments = arguments
        self.since: float | None = None

    def __enter__(self) -> None:
        self.outer = _current.call
        _current.call = self
        if self.watch.is_new:
            self.compiles()

    def __exit__(self, *_: object) -> None:
        _current.call = self.outer

    def compiles(self) -> None:
        """MLX is about to compile something for this call.

        Raises:
            RecompileError: It is not to.
        """
        if self.since is None:
            shapes, values = self._signature()
            self.watch.ledger.wanted(shapes, values)
            self.since = perf_counter()

    def tell(self) -> None:
        """Tell of it, when it is over and nothing failed."""
        if self.since is not None:
            self.watch.is_new = False
            shapes, values = self._signature()
            self.watch.ledger.made("compile", shapes, values, perf_counter() - self.since)

    def _signature(self) -> tuple[list[tuple[int, ...]], dict[int, Any]]:
        values = {i: plain(to_numpy(self.arguments[i])) for i in self.watch.static}
        return [tuple(x.shape) for x in self.arguments], values
