"""Arrays that depend on the indices of a mask, as graphs of scalars.

An array of a few distinct elements is those: ``Scalars``. What an index leaves of a captured
array is a ``Box`` in it, so that ``x[i][j]`` is one lookup in ``x``. In place of the elements of a
larger array stands one scalar that may be any of them, which is all that bounds ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import count
from typing import Any, NamedTuple

import numpy as np

import graphc.tensor as gt
from graphc.attention.intervals.graphs import Opaque
from graphc.ir import Constant, Node
from graphc.tensor import Tensor

MOST = 16
"""The most elements of an array that are told apart."""


class Scalars(NamedTuple):
    """An array by its distinct elements.

    Attributes:
        parts: The distinct elements, scalars.
        places: The number of each element among these; of the array's shape.
    """

    parts: tuple[Tensor, ...]
    places: np.ndarray[Any, Any]


Start = Tensor | int


class Box(NamedTuple):
    """A box of consecutive elements of an array along each axis.

    Attributes:
        table: The array, which depends on no index.
        starts: For each of its axes, the index of the box's first element.
        sizes: For each of its axes, how many elements of it are in the box.
        axes: For each axis of the box, that of the array; axes of one element may be left out.
        fills: Conditions, and what stands for all elements where one of them does not hold.
    """

    table: Tensor
    starts: tuple[Start, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    fills: tuple[tuple[Tensor, Tensor], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([self.sizes[axis] for axis in self.axes])


# Single scalars.

_numbers = count()


def opaque(dtype: str, inputs: Sequence[Node] = ()) -> Tensor:
    """A scalar of which nothing is known but its dtype, and what it depends on."""
    return Tensor.make(Opaque(dtype, next(_numbers)), *dict.fromkeys(inputs))


def number(value: Any, dtype: Any) -> Tensor:
    """A number of a dtype."""
    return Tensor.make(Constant.of(np.array(value, dtype)))


def value_of(x: Start) -> Any:
    """The number that a scalar is; None where it is none."""
    if isinstance(x, int):
        return x
    return x.op.value.item() if isinstance(x.op, Constant) else None


def index_within(x: Tensor, most: int) -> Start:
    """An index from 0 to ``most``, into which others are clipped."""
    known = value_of(x)
    if known is not None:
        return int(min(max(known, 0), most))
    most = min(most, int(np.iinfo(x.dtype).max))
    inside = gt.minimum(gt.maximum(x, number(0, x.dtype)), number(most, x.dtype))
    return gt.cast(inside, "int32")


def moved(start: Start, by: Start) -> Start:
    """An index further on."""
    if isinstance(start, int) and isinstance(by, int):
        return start + by
    a, b = [number(x, "int32") if isinstance(x, int) else x for x in (start, by)]
    return gt.add(a, b) if value_of(a) != 0 else b


# Arrays.


def single(part: Tensor, shape: Sequence[int] = ()) -> Scalars:
    """An array of equal elements."""
    return Scalars((part,), np.broadcast_to(np.intp(0), shape))


def whole(table: Tensor) -> Box:
    """All elements of an array."""
    lengths: Any = table.type.shape
    return Box(table, (0,) * len(lengths), lengths, tuple(range(len(lengths))))


def scalars(x: Scalars | Box) -> Scalars:
    """The elements of a box; of a large one, one scalar that is any of them."""
    if isinstance(x, Scalars):
        return x
    if math.prod(x.sizes) > MOST:
        anywhere = [_anywhere(n) for n in x.sizes]
        return single(_element(x, anywhere), x.shape)
    parts = tuple([_element(x, offsets) for offsets in np.ndindex(*x.sizes)])
    # Without axes of one element, and with those in order, elements are where they were.
    return Scalars(parts, np.arange(len(parts)).reshape(x.shape))


def _anywhere(n: int) -> Start:
    return 0 if n == 1 else index_within(opaque("int32"), n - 1)


def _element(box: Box, offsets: Sequence[Start]) -> Tensor:
    element = box.table[tuple(map(moved, box.starts, offsets))] if box.sizes else box.table
    for holds, fill in box.fills:
        element = gt.where(holds, element, fill)
    return element


def hull(x: Scalars) -> Tensor:
    """A scalar that may be any element."""
    return reduce(lambda a, b: gt.where(opaque("bool"), a, b), x.parts)


def combined(function: Callable[..., Tensor], shape: Sequence[int], *operands: Scalars) -> Scalars:
    """A function of elements, as many at a time as there are operands.

    Args:
        function: Of an element of each operand.
        shape: That of the result, to which the operands broadcast.
        operands: Arrays that have elements.
    """
    counts = [len(x.parts) for x in operands]
    if all(n == 1 for n in counts):
        return single(function(*[x.parts[0] for x in operands]), shape)
    places = np.broadcast_arrays(*[x.places for x in operands])
    codes, numbers = np.unique(np.ravel_multi_index(places, counts), return_inverse=True)
    if codes.size > MOST:
        return single(function(*map(hull, operands)), shape)
    parts = [
        function(*[x.parts[i] for x, i in zip(operands, each, strict=True)])
        for each in zip(*np.unravel_index(codes, counts), strict=True)
    ]
    return Scalars(tuple(parts), np.broadcast_to(numbers.reshape(places[0].shape), shape))
