"""What MLX compiles in the calls of an executable, as a ledger is told of it.

MLX compiles a function for the shapes that it is called with, and says nothing of it; but it calls
the function to do so, and that is seen here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Self

from graphc.link.ledger import Ledger
from graphc.link.mlx.arrays import to_numpy
from graphc.link.outline import Outline

__all__ = ["Watch", "watching"]


class _Current(threading.local):
    watch: Watch | None = None


_current = _Current()


def watching() -> Watch | None:
    """That of the executable that this thread runs."""
    return _current.watch


class Watch:
    """Over the calls of one executable, which take turns.

    However many functions of MLX's a call needs, it is told of once; the first one always.
    """

    def __init__(self, outline: Outline, ledger: Ledger) -> None:
        self.static = outline.static
        self.ledger = ledger
        self.is_new = True
        self.since: float | None = None
        self.arguments: Sequence[Any] = ()
        self.outer: Watch | None = None

    def over(self, arguments: Sequence[Any]) -> Self:
        """Itself, for a call with these arguments: enter it."""
        self.arguments = arguments
        return self

    def __enter__(self) -> None:
        self.outer = _current.watch
        _current.watch = self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _current.watch, self.outer = self.outer, None
        arguments, self.arguments = self.arguments, ()
        since, self.since = self.since, None
        if since is not None and kind is None:
            self.is_new = False
            seconds = perf_counter() - since
            self.ledger.made("compile", _shapes(arguments), self._values(arguments), seconds)

    def compiles(self) -> None:
        """MLX is about to compile something for the call under way.

        Raises:
            RecompileError: It is not to.
        """
        if self.since is None:
            self.ledger.wanted(_shapes(self.arguments), self._values(self.arguments))
            self.since = perf_counter()

    def _values(self, arguments: Sequence[Any]) -> dict[int, Any]:
        return {i: _plain(to_numpy(arguments[i]).tolist()) for i in self.static}


def _plain(value: Any) -> Any:
    """Numbers, and tuples of them."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _shapes(arguments: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(x.shape) for x in arguments]
