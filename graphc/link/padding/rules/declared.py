"""Operations that need a little more than the padding that they declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphc.errors import GraphcError, RuntimeShapeError, ShapeError
from graphc.ir import Node
from graphc.link.padding.graph import by_declaration, rule
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    align,
    as_node,
    at_least,
    make_padded,
    ndim_of,
    number,
    shape_of,
    unequal,
    with_buffer,
    within,
)
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import Recurrence
from graphc.tensor.arrays.reduce import ArgExtreme, Extreme
from graphc.tensor.arrays.sort import SearchSorted
from graphc.tensor.core.axes import Squeeze
from graphc.tensor.core.elementwise import minimum, where


@rule(Squeeze)
def squeeze(op: Squeeze, node: Node, values: Sequence[Any]) -> Any:
    """Remove axes, whose padding is cut off first."""
    (x,) = values
    if isinstance(x, PaddedArray):
        for axis in op.axes:
            agree(x.shape[axis], 1, unequal(node))
        shape = [1 if axis in op.axes else n for axis, n in enumerate(x.shape)]
        x = make_padded(x.buffer, shape, x.fill)
    return by_declaration(node, [x])


@rule(Extreme, ArgExtreme)
def extreme(op: Any, node: Node, values: Sequence[Any]) -> Any:
    """Reduce slices that have elements, or a default."""
    (x,) = values
    reduction = op if isinstance(op, Extreme) else op.extreme((op.axis,))
    for axis in set(x.axes).intersection(reduction.axes) if isinstance(x, PaddedArray) else ():
        empty = [0 if i == axis else n for i, n in enumerate(x.buffer.type.shape)]
        try:
            reduction.refuse_empty(empty)
        except ShapeError as error:
            at_least(x.shape[axis], 1, partial(_empty_slice, node, error))
    return by_declaration(node, values)


def _empty_slice(node: Node, error: ShapeError, a: int, b: int) -> GraphcError:
    return RuntimeShapeError(error.problem, error.remedy, node.where)


@rule(Recurrence, CoupledRecurrence)
def recurrence(op: Any, node: Node, values: Sequence[Any]) -> Any:
    """Set the last factor to zero: it multiplies nothing, and may be infinite or NaN."""
    a, b = align(node, values)
    axis = op.axis if isinstance(op, Recurrence) else ndim_of(a) - 1
    if op.reverse and isinstance(a, PaddedArray) and axis in a.axes:
        others = within(a.buffer, axis, a.shape[axis] - 1)
        a = replace(a, buffer=where(others, a.buffer, number(0, a.buffer)))
    return by_declaration(node, [a, b])


@rule(SearchSorted)
def searchsorted(op: SearchSorted, node: Node, values: Sequence[Any]) -> Any:
    """Search sorted vectors; no position exceeds their length."""
    y = by_declaration(node, values)
    return with_buffer(y, minimum(as_node(y), as_node(shape_of(values[0])[-1])))
