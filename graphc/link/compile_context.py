"""The context in which a backend compiles: executables on disk, and the record of compilations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

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
