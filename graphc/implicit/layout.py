"""Arrays that may be structures, brought into other forms: of whole ones that is a library call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec

from graphc.errors import MaterializeError
from graphc.implicit.form import dtype_of
from graphc.implicit.level import numpy_like
from graphc.implicit.policy import materializing, untold
from graphc.implicit.structured import Structured

__all__ = [
    "Lost",
    "broadcast",
    "cast",
    "expanded",
    "first_of",
    "kept",
    "reshaped",
    "sparing",
    "squeezed",
    "structural",
    "transposed",
]

P = ParamSpec("P")


class Lost(Exception):  # noqa: N818 (no error: the next way is tried)
    """A structure says of a step that it cannot keep itself through it."""


def kept(x: Any) -> Any:
    """What a structure gives for a step.

    Raises:
        Lost: Nothing.
    """
    if x is NotImplemented:
        raise Lost
    return x


def structural(function: Callable[P, Any]) -> Callable[P, Any]:
    """The same function, which gives NotImplemented where a step loses the structure."""

    @functools.wraps(function)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return function(*args, **kwargs)
        except Lost:
            return NotImplemented

    return attempt


def first_of(ways: Iterable[Callable[[], Any]]) -> Any:
    """What the first of several ways gives that keeps the structure.

    Raises:
        Lost: None does.
    """
    for way in ways:
        with suppress(Lost):
            return kept(way())
    raise Lost


def sparing(ways: Sequence[Callable[[], Any]]) -> Any:
    """The same of ways in which an operand may have to become whole: one in which none does first.

    Raises:
        Lost: None keeps the structure.
    """
    for way in ways:
        with suppress(Lost, MaterializeError), untold(), materializing("error"):
            return kept(way())
    return first_of(ways)


def transposed(x: Any, axes: tuple[int, ...]) -> Any:
    """Axis ``axes[i]`` as axis i."""
    if axes == tuple(range(len(axes))):
        return x
    return kept(x.permuted(axes)) if isinstance(x, Structured) else numpy_like(x).transpose(x, axes)


def reshaped(x: Any, shape: Sequence[Any]) -> Any:
    """The elements in row-major order in another shape; of a structure, lengths must be known."""
    shape = tuple(shape)
    if not isinstance(x, Structured):
        return numpy_like(x).reshape(x, shape)
    if not all(isinstance(n, int) for n in (*shape, *x.shape)):
        raise Lost
    return kept(x.reshaped(shape))


def broadcast(x: Any, shape: Sequence[Any], axes: tuple[int, ...]) -> Any:
    """Repeated to a shape, in which the array's axes are these."""
    shape = tuple(shape)
    if isinstance(x, Structured):
        if not all(isinstance(n, int) for n in (*shape, *x.shape)):
            raise Lost
        return x if x.shape == shape else kept(x.broadcast(shape, axes))
    xp = numpy_like(x)
    new = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return xp.broadcast_to(xp.expand_dims(x, new) if new else x, shape)


def cast(x: Any, dtype: Any) -> Any:
    """In another dtype."""
    if dtype_of(x) == dtype:
        return x
    return kept(x.cast(dtype)) if isinstance(x, Structured) else numpy_like(x).cast(x, dtype)


def squeezed(x: Any, axes: tuple[int, ...]) -> Any:
    """Without axes of length 1."""
    if not isinstance(x, Structured):
        return numpy_like(x).squeeze(x, axes) if axes else x
    return reshaped(x, [n for axis, n in enumerate(x.shape) if axis not in axes])


def expanded(x: Any, axes: tuple[int, ...]) -> Any:
    """With new axes of length 1, at these places of the result."""
    if not isinstance(x, Structured):
        return numpy_like(x).expand_dims(x, axes) if axes else x
    rest = iter(x.shape)
    return reshaped(x, [1 if i in axes else next(rest) for i in range(x.ndim + len(axes))])
