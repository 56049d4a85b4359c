"""The context in which a backend compiles: executables on disk, and the record of compilations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

T = TypeVar("T")


def as_python(value: np.ndarray[Any, Any]) -> Any:
    """A value that decides a shape, as numbers and tuples of them: comparable and printable."""
    return _as_tuples(value.tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


class CompileContext:
    """The context of a program's compilations; this one stores and records nothing."""

    def executable(
        self,
        name: str | None,
        load: Callable[[bytes], T | None],
        compile: Callable[[], tuple[T, Callable[[], bytes | None]]],
    ) -> T:
        """Return the executable stored under a name, or compile it, and store it.

        Args:
            name: Equal in every process for executables that can stand for each other; None for
                one that is of use in this process alone.
            load: Makes an executable of what was stored; None where it cannot.
            compile: Makes an executable, and what serializes it: to None where it is of use in
                this process alone.
        """
        return compile()[0]

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Raise where no further executable may be made; called before one is.

        Args:
            shapes: The shape of each argument it is for.
            values: The values it is for of the arguments that decide shapes, by position, as
                ``as_python`` gives them.

        Raises:
            RecompileError: Needless compilations are errors, and this is one.
        """

    def record(
        self,
        kind: Literal["compile", "load"],
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        """Record an executable that was compiled or loaded for the call under way.

        Args:
            kind: Whether it was compiled or loaded.
            shapes: The shape of each argument it is for.
            values: As for ``before_compile``.
            seconds: The time it took.
        """
