"""Ranges, broadcast arrays and matrices with a diagonal, of unknown lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.padding.counts import (
    as_count,
    as_known,
    bound,
    ceil_divide,
    is_known,
    is_known_to_backend,
    least,
    most,
)
from graphc.link.padding.graph import rule
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    as_node,
    cut,
    extend,
    indices,
    length_of_buffer,
    make_padded,
    shape_of,
    unequal,
    unknown_length,
)
from graphc.link.padding.rules.shape import requested_lengths
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import Arange, Eye
from graphc.tensor.arrays.diagonal import FromDiagonal, diagonal_length
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import entries
from graphc.tensor.core.tensor import Tensor


@rule(Arange)
def arange(op: Arange, node: Node, values: Sequence[Any]) -> Any:
    """Fill a buffer that is as long as the largest possible result."""
    start, stop, step = values
    if not is_known(step) or not int(step) or node.type.numpy_dtype.kind not in "iu":
        raise unknown_length(node)
    start, stop = [as_known(as_count(n)) for n in (start, stop)]
    span = stop - start if step > 0 else start - stop
    count = ceil_divide(most(span, 0), abs(int(step)))
    elements = indices(bound(count)) * np.int64(step) + cast(as_node(start), "int64")
    return make_padded(cast(elements, node.type.dtype), [count])


def _with_shape(op: Any, shape: Sequence[Any], *arrays: Tensor) -> Tensor:
    """Apply an operation that creates an array of a shape: integers or nodes."""
    static, symbolic = entries(op.name, [*shape])
    return Tensor.make(replace(op, shape=static), *arrays, *symbolic)


@rule(Eye)
def eye(op: Eye, node: Node, values: Sequence[Any]) -> Any:
    """Return a matrix whose diagonal continues to the end of the buffer."""
    shape = requested_lengths(node, op.shape, values)
    return make_padded(_with_shape(op, list(map(bound, shape))), shape)


@rule(BroadcastTo)
def broadcast_to(op: BroadcastTo, node: Node, values: Sequence[Any]) -> Any:
    """Broadcast a buffer to the upper bounds of the requested lengths."""
    x, *symbolic = values
    shape = requested_lengths(node, op.shape, symbolic)
    sizes, buffer = list(map(bound, shape)), as_node(x)
    for axis, n in enumerate(shape_of(x)):
        if axis not in op.repeated:
            i = axis - buffer.ndim
            agree(n, shape[i], unequal(node))
            # The backend compares lengths that it knows when it compiles.
            if not is_known_to_backend(n) or not is_known_to_backend(shape[i]):
                shape[i] = shape[i] if is_known(shape[i]) else n
                buffer = cut(buffer, shape[i], axis)
                sizes[i] = length_of_buffer(buffer, axis)
    fill = x if is_known(x) and not np.ndim(x) else None
    return make_padded(_with_shape(op, sizes, buffer), shape, fill)


@rule(FromDiagonal)
def from_diagonal(op: FromDiagonal, node: Node, values: Sequence[Any]) -> Any:
    """Build a matrix from a buffer that is zero behind the elements of the diagonal."""
    v, *symbolic = values
    n, m = requested_lengths(node, op.shape, symbolic)
    *batch, length = shape_of(v)
    rows, columns = n - max(-op.offset, 0), m - max(op.offset, 0)
    agree(most(least(rows, columns), 0), length, unequal(node))
    axis, height, width = len(batch), bound(n), bound(m)
    buffer = (
        v.with_padding(0, [axis]) if isinstance(v, PaddedArray) and axis in v.axes else as_node(v)
    )
    if not all(map(is_known_to_backend, (n, m, length))):
        if not isinstance(height, int) or not isinstance(width, int):
            raise unknown_length(node)
        buffer = extend(buffer, {axis: diagonal_length(height, width, op.offset)})
    return make_padded(_with_shape(op, [height, width], buffer), [*batch, n, m])
