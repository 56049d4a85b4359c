"""Lengths, shapes and reshapes of padded arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.padding.counts import (
    Count,
    as_count,
    as_known,
    bound,
    is_known,
    is_known_to_backend,
    is_same,
)
from graphc.link.padding.graph import rule
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    along,
    as_node,
    at_least,
    extend,
    indices,
    length_of_buffer,
    make_padded,
    shape_of,
    unequal,
    unknown_length,
)
from graphc.link.padding.slices import take
from graphc.tensor.arrays.join import stack
from graphc.tensor.core.elementwise import maximum
from graphc.tensor.core.shape import Length, Reshape, Shape, complete_shape, lengths, reshape
from graphc.tensor.core.specify import SpecifyShape, specify
from graphc.tensor.core.tensor import Tensor, constant


@rule(Length)
def length(op: Length, node: Node, values: Sequence[Any]) -> Any:
    """Return a length: a count, or a known integer."""
    return shape_of(values[0])[op.axis]


@rule(Shape)
def shape(op: Shape, node: Node, values: Sequence[Any]) -> Tensor:
    """Return all lengths as an array, on which no shape may depend."""
    return stack([as_node(n) for n in shape_of(values[0])])


def requested_lengths(
    node: Node, static: Sequence[int | None], symbolic: Sequence[Any], least: int = 0
) -> list[Any]:
    """Return the lengths that an operation has as parameters, and as inputs for None.

    Args:
        node: The node, for errors.
        static: The parameters.
        symbolic: The values of the inputs.
        least: The smallest length that is allowed.

    Returns:
        An integer or a count for each length.
    """
    requested = [as_known(as_count(n)) for n in complete_shape(static, symbolic)]
    for n in requested:
        at_least(n, least, unequal(node))
    return requested


@rule(Reshape)
def reshape_padded(op: Reshape, node: Node, values: Sequence[Any]) -> Any:
    """Reshape the buffer if padding is behind all elements of one axis, else gather elements."""
    x, *symbolic = values
    old = shape_of(x)
    new = _without_rest(node, old, requested_lengths(node, op.shape, symbolic, least=-1))
    front = 0
    while front < min(len(old), len(new)) - 1 and is_same(old[front], new[front]):
        front += 1
    behind = [*old[front + 1 :], *new[front + 1 :]]
    by_rows = old and new and not any(isinstance(n, Count) for n in behind)
    by_rows = by_rows and as_node(x).type.shape[front] is not None
    if by_rows and not _is_exact(old[front]) and not _is_exact(new[front]) and 0 not in behind:
        return make_padded(_reshape_rows(as_node(x), new, front), new)
    return make_padded(_gather(as_node(x), old, new), new)


@rule(SpecifyShape)
def specify_shape(op: SpecifyShape, node: Node, values: Sequence[Any]) -> Any:
    """Compare lengths with the declared ones."""
    x, *symbolic = values
    declared = iter(requested_lengths(node, [n for n in op.shape if n != -1], symbolic))
    exact: list[Any] = []
    new: list[Any] = []
    for n, m in zip(shape_of(x), op.shape, strict=True):
        length = n if m == -1 else next(declared)
        agree(n, length, unequal(node))
        # The backend compares lengths that it knows when it compiles.
        is_exact = is_known_to_backend(n) and is_known_to_backend(length)
        exact.append(bound(length) if is_exact else None)
        new.append(n if is_known(n) or _is_exact(length) else length)
    fill = x.fill if isinstance(x, PaddedArray) else None
    return make_padded(specify(as_node(x), exact, op.title), new, fill)


def _is_exact(n: Any) -> bool:
    return isinstance(n, Count) and n.is_exact


def _without_rest(node: Node, old: Sequence[Any], new: Sequence[Any]) -> Sequence[Any]:
    """Return the new shape with the length for which -1 stands; check the number of elements."""
    if any(isinstance(n, Count) and n.low < 0 for n in new):
        # A negative count may be -1 or an error.
        raise unknown_length(node)
    if -1 not in new:
        agree(prod(old), prod(new), unequal(node))
        return new
    axis = new.index(-1)
    others, factors = [*new[:axis], *new[axis + 1 :]], [*old]
    at_least(prod(others), 1, unequal(node))
    # Lengths that are in both shapes cancel without a division.
    for n in tuple(others):
        same = next((i for i, m in enumerate(factors) if is_same(n, m)), None)
        if same is not None:
            del factors[same]
            others.remove(n)
    total, divisor = prod(factors), as_count(prod(others))
    # The divisor is not 0, so the total bounds the quotient.
    n = total // as_known(replace(divisor, low=max(divisor.low, 1)))
    agree(total, n * as_known(divisor), unequal(node))
    return [*new[:axis], n, *new[axis + 1 :]]


def _reshape_rows(buffer: Tensor, new: Sequence[Any], front: int) -> Tensor:
    """Reshape where the axis ``front``, alone padded, is merged with later axes or split."""
    size: tuple[Any, ...] = buffer.type.shape
    row, new_row = prod(size[front + 1 :]), prod(new[front + 1 :])
    step = new_row // gcd(row, new_row)
    rows = -(-size[front] // step) * step
    buffer = extend(buffer, {front: rows})
    return reshape(buffer, [*lengths(buffer)[:front], rows * row // new_row, *new[front + 1 :]])


def _gather(buffer: Tensor, old: Sequence[Any], new: Sequence[Any]) -> Tensor:
    """Read each element at its row-major position, counted in valid lengths."""
    size = buffer.type.shape
    while old and new and is_same(old[-1], new[-1]) and size[len(old) - 1]:
        # The last axis stays in one piece.
        old, new = old[:-1], new[:-1]
    position: Tensor = constant(np.int64(0))
    for axis, n in enumerate(new):
        position = position * as_node(n) + along(indices(bound(n)), axis, len(new))
    source, stride = position * 0, 1
    for axis in range(len(old))[::-1]:
        n = maximum(as_node(old[axis]), np.int64(1))
        # Positions behind the last element continue along the first axis.
        source = source + (position % n if axis else position) * stride
        position = position // n
        stride = stride * length_of_buffer(buffer, axis)
    elements = reshape(buffer, [-1, *size[len(old) :]])
    if elements.type.shape[0] == 0:
        elements = extend(elements, {0: 1})
    return take(elements, source, 0)
