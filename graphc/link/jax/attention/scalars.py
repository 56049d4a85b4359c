"""Arrays that depend on the indices of a mask, as graphs of scalars.

An array of a few distinct elements is stored as these elements: ``Scalars``. Indexing a captured
array returns an ``ArrayWindow`` of it, so that ``x[i][j]`` is one lookup in ``x``. The elements of
a larger array are represented by one scalar that may be any of them, which suffices for bounds.
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

MAX_ELEMENTS = 16
"""The largest number of elements of an array that are represented separately."""


class Scalars(NamedTuple):
    """An array by its distinct elements.

    Attributes:
        elements: The distinct elements, scalars.
        indices: The index of each element of the array in ``elements``; of the array's shape.
    """

    elements: tuple[Tensor, ...]
    indices: np.ndarray[Any, Any]


Start = Tensor | int


class ArrayWindow(NamedTuple):
    """A window of consecutive elements of an array along each axis.

    Attributes:
        table: The array, which depends on no index.
        starts: For each axis of the array, the index of the window's first element.
        sizes: For each axis of the array, the number of elements in the window.
        axes: For each axis of the window, the array's axis; axes of one element may be left out.
        fills: Conditions, each with the value of all elements where the condition is false.
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
    """Return a scalar that is unknown except for its dtype and the inputs that it depends on."""
    return Tensor.make(Opaque(dtype, next(_numbers)), *dict.fromkeys(inputs))


def number(value: Any, dtype: Any) -> Tensor:
    """Return a number of a dtype."""
    return Tensor.make(Constant.of(np.array(value, dtype)))


def value_of(x: Start) -> Any:
    """Return the value of a constant scalar; None for other scalars."""
    if isinstance(x, int):
        return x
    return x.op.value.item() if isinstance(x.op, Constant) else None


def index_within(x: Tensor, last: int) -> Start:
    """Return an index clipped to the range from 0 to ``last``."""
    constant = value_of(x)
    if constant is not None:
        return int(min(max(constant, 0), last))
    last = min(last, int(np.iinfo(x.dtype).max))
    clipped = gt.minimum(gt.maximum(x, number(0, x.dtype)), number(last, x.dtype))
    return gt.cast(clipped, "int32")


def add_offset(start: Start, by: Start) -> Start:
    """Return an index plus an offset."""
    if isinstance(start, int) and isinstance(by, int):
        return start + by
    a, b = [number(x, "int32") if isinstance(x, int) else x for x in (start, by)]
    return gt.add(a, b) if value_of(a) != 0 else b


# Arrays.


def uniform(element: Tensor, shape: Sequence[int] = ()) -> Scalars:
    """Return an array of equal elements."""
    return Scalars((element,), np.broadcast_to(np.intp(0), shape))


def full_window(table: Tensor) -> ArrayWindow:
    """Return the window of all elements of an array."""
    lengths: Any = table.type.shape
    return ArrayWindow(table, (0,) * len(lengths), lengths, tuple(range(len(lengths))))


def scalars(x: Scalars | ArrayWindow) -> Scalars:
    """Return the elements of a window; for a large one, one scalar that may be any of them."""
    if isinstance(x, Scalars):
        return x
    if math.prod(x.sizes) > MAX_ELEMENTS:
        anywhere = [_anywhere(n) for n in x.sizes]
        return uniform(_element(x, anywhere), x.shape)
    elements = tuple([_element(x, offsets) for offsets in np.ndindex(*x.sizes)])
    # ``axes`` are in order and leave out only axes of one element, so the order is the array's.
    return Scalars(elements, np.arange(len(elements)).reshape(x.shape))


def _anywhere(n: int) -> Start:
    return 0 if n == 1 else index_within(opaque("int32"), n - 1)


def _element(window: ArrayWindow, offsets: Sequence[Start]) -> Tensor:
    indices = tuple(map(add_offset, window.starts, offsets))
    element = window.table[indices] if indices else window.table
    for holds, fill in window.fills:
        element = gt.where(holds, element, fill)
    return element


def hull(x: Scalars) -> Tensor:
    """Return a scalar that may be any element."""
    return reduce(lambda a, b: gt.where(opaque("bool"), a, b), x.elements)


def map_elements(
    function: Callable[..., Tensor], shape: Sequence[int], *operands: Scalars
) -> Scalars:
    """Map a function over the elements of its operands, which broadcast.

    Args:
        function: A function of an element of each operand.
        shape: The shape of the result.
        operands: Arrays that have elements.
    """
    counts = [len(x.elements) for x in operands]
    if all(n == 1 for n in counts):
        return uniform(function(*[x.elements[0] for x in operands]), shape)
    indices = np.broadcast_arrays(*[x.indices for x in operands])
    codes, inverse = np.unique(np.ravel_multi_index(indices, counts), return_inverse=True)
    if codes.size > MAX_ELEMENTS:
        return uniform(function(*map(hull, operands)), shape)
    elements = [
        function(*[x.elements[i] for x, i in zip(operands, combination, strict=True)])
        for combination in zip(*np.unravel_index(codes, counts), strict=True)
    ]
    return Scalars(tuple(elements), np.broadcast_to(inverse.reshape(indices[0].shape), shape))
