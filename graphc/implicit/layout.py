"""Reshapes, transposes and casts of arrays that may be structured or whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec

from graphc.errors import MaterializeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import deferred_reports, materializing
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import dtype_of

P = ParamSpec("P")


class StructureLost(Exception):  # noqa: N818 (no error: the next way is tried)
    """A step that a structured array cannot take without becoming whole."""


def kept(x: Any) -> Any:
    """Return a method's result, or raise where it is NotImplemented.

    Raises:
        StructureLost: Nothing.
    """
    if x is NotImplemented:
        raise StructureLost
    return x


def structural(function: Callable[P, Any]) -> Callable[P, Any]:
    """Make a function return NotImplemented where a step loses the structure."""

    @functools.wraps(function)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return function(*args, **kwargs)
        except StructureLost:
            return NotImplemented

    return attempt


def first_of(ways: Iterable[Callable[[], Any]]) -> Any:
    """Return the result of the first function that keeps the structure.

    Raises:
        StructureLost: None does.
    """
    for way in ways:
        with suppress(StructureLost):
            return kept(way())
    raise StructureLost


def sparing(ways: Sequence[Callable[[], Any]]) -> Any:
    """Try the functions without making any operand whole, then with it.

    Raises:
        StructureLost: None keeps the structure.
    """
    for way in ways:
        with suppress(StructureLost, MaterializeError), deferred_reports(), materializing("error"):
            return kept(way())
    return first_of(ways)


def transposed(x: Any, axes: tuple[int, ...]) -> Any:
    """Permute axes: axis ``axes[i]`` becomes axis i."""
    if axes == tuple(range(len(axes))):
        return x
    return kept(x.permuted(axes)) if isinstance(x, Structured) else numpy_like(x).transpose(x, axes)


def reshaped(x: Any, shape: Sequence[Any]) -> Any:
    """Reshape in row-major order; a structured array needs known lengths."""
    shape = tuple(shape)
    if not isinstance(x, Structured):
        return numpy_like(x).reshape(x, shape)
    if not all(isinstance(n, int) for n in (*shape, *x.shape)):
        raise StructureLost
    return kept(x.reshaped(shape))


def broadcast(x: Any, shape: Sequence[Any], axes: tuple[int, ...]) -> Any:
    """Broadcast to a shape in which the array's axes are ``axes``."""
    shape = tuple(shape)
    if isinstance(x, Structured):
        if not all(isinstance(n, int) for n in (*shape, *x.shape)):
            raise StructureLost
        return x if x.shape == shape else kept(x.broadcast(shape, axes))
    xp = numpy_like(x)
    new = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return xp.broadcast_to(xp.expand_dims(x, new) if new else x, shape)


def cast(x: Any, dtype: Any) -> Any:
    """Cast to another dtype."""
    if dtype_of(x) == dtype:
        return x
    return kept(x.cast(dtype)) if isinstance(x, Structured) else numpy_like(x).cast(x, dtype)


def squeezed(x: Any, axes: tuple[int, ...]) -> Any:
    """Remove axes of length 1."""
    if not isinstance(x, Structured):
        return numpy_like(x).squeeze(x, axes) if axes else x
    return reshaped(x, [n for axis, n in enumerate(x.shape) if axis not in axes])


def expanded(x: Any, axes: tuple[int, ...]) -> Any:
    """Insert axes of length 1 at these places of the result."""
    if not isinstance(x, Structured):
        return numpy_like(x).expand_dims(x, axes) if axes else x
    rest = iter(x.shape)
    return reshaped(x, [1 if i in axes else next(rest) for i in range(x.ndim + len(axes))])
