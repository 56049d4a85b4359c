"""Reshapes, transposes and casts of arrays that may be structured or dense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from graphc.errors import MaterializeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import deferred_reports, materializing
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import dtype_of


class StructureLost(Exception):  # noqa: N818 (no error: the next attempt or handler follows)
    """A step that a structured array cannot take without becoming dense."""


def require(x: Any) -> Any:
    """Return the result of a method, unless it is NotImplemented.

    Raises:
        StructureLost: If the result is NotImplemented.
    """
    if x is NotImplemented:
        raise StructureLost
    return x


def first_of(attempts: Iterable[Callable[[], Any]]) -> Any:
    """Return the result of the first function that keeps the structure.

    Raises:
        StructureLost: If no function keeps the structure.
    """
    for attempt in attempts:
        with suppress(StructureLost):
            return require(attempt())
    raise StructureLost


def first_without_densifying(attempts: Sequence[Callable[[], Any]]) -> Any:
    """Try the functions without densifying any operand, then with densifying.

    Raises:
        StructureLost: If no function keeps the structure.
    """
    for attempt in attempts:
        with suppress(StructureLost, MaterializeError), deferred_reports(), materializing("error"):
            return require(attempt())
    return first_of(attempts)


def transpose(x: Any, axes: tuple[int, ...]) -> Any:
    """Permute axes: axis ``axes[i]`` becomes axis i."""
    if axes == tuple(range(len(axes))):
        return x
    return (
        require(x.permute(axes)) if isinstance(x, Structured) else numpy_like(x).transpose(x, axes)
    )


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Reshape in row-major order; a structured array needs known lengths."""
    shape = tuple(shape)
    if not isinstance(x, Structured):
        return numpy_like(x).reshape(x, shape)
    if not all(isinstance(n, int) for n in (*shape, *x.shape)):
        raise StructureLost
    return require(x.reshape_to(shape))


def broadcast(x: Any, shape: Sequence[Any], axes: tuple[int, ...]) -> Any:
    """Broadcast to a shape in which the array's axes are ``axes``."""
    shape = tuple(shape)
    if isinstance(x, Structured):
        if not all(isinstance(n, int) for n in (*shape, *x.shape)):
            raise StructureLost
        return x if x.shape == shape else require(x.broadcast(shape, axes))
    xp = numpy_like(x)
    new = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return xp.broadcast_to(xp.expand_dims(x, new) if new else x, shape)


def cast(x: Any, dtype: Any) -> Any:
    """Cast to another dtype."""
    if dtype_of(x) == dtype:
        return x
    return require(x.cast(dtype)) if isinstance(x, Structured) else numpy_like(x).cast(x, dtype)


def squeeze(x: Any, axes: tuple[int, ...]) -> Any:
    """Remove axes of length 1."""
    if not isinstance(x, Structured):
        return numpy_like(x).squeeze(x, axes) if axes else x
    return reshape(x, [n for axis, n in enumerate(x.shape) if axis not in axes])


def expand_dims(x: Any, axes: tuple[int, ...]) -> Any:
    """Insert axes of length 1 at these positions of the result."""
    if not isinstance(x, Structured):
        return numpy_like(x).expand_dims(x, axes) if axes else x
    lengths = iter(x.shape)
    return reshape(x, [1 if i in axes else next(lengths) for i in range(x.ndim + len(axes))])
