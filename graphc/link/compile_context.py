"""The context in which a backend compiles: executables in memory and on disk, and their record."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from graphc.config import config

T = TypeVar("T")


def as_python(value: np.ndarray[Any, Any]) -> Any:
    """Return a value that decides a shape as a number or nested tuples of numbers."""
    return _as_tuples(value.tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


class CompileContext:
    """The context of a program's compilations; this base class stores and records nothing."""

    def executable(
        self,
        name: str | None,
        load: Callable[[bytes], T | None],
        compile: Callable[[], tuple[T, Callable[[], bytes | None]]],
    ) -> T:
        """Return the executable stored under a name, or compile and store one.

        Args:
            name: A key that equal executables share in every process; None for an executable that
                only this process can run.
            load: Returns the executable for stored bytes, or None if it cannot.
            compile: Returns an executable and a function that serializes it, or returns None if
                only this process can run the executable.
        """
        return compile()[0]

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Check, before each compilation, whether another executable is allowed.

        Args:
            shapes: The shape of each argument.
            values: The values of arguments that decide shapes, by position, from ``as_python``.

        Raises:
            RecompileError: If needless compilations are errors, and this is one.
        """

    def record(
        self,
        kind: Literal["compile", "load"],
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        """Record an executable that was compiled or loaded for the current call.

        Args:
            kind: Whether the executable was compiled or loaded.
            shapes: The shape of each argument.
            values: The values of arguments that decide shapes, by position.
            seconds: The time that this took.
        """


class ExecutableCache(OrderedDict[Any, T]):
    """Executables by key; the least recently used is dropped beyond ``config.specializations``."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        # Executables belong to the process.
        return ExecutableCache, ()

    def get_or_add(self, key: Any, compile: Callable[[], T]) -> T:
        """Return the executable of a key; ``compile`` returns it at the first call."""
        # Two threads may ask for the same executable.
        with self._lock:
            if key not in self:
                self[key] = compile()
                if len(self) > config.specializations:
                    self.popitem(last=False)
            self.move_to_end(key)
            return self[key]
