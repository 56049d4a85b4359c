"""Lengths, and the same elements in another shape."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import (
    expanded,
    filled,
    length,
    lengths,
    reshaped,
    scalar,
    squeezed,
    transposed,
    unsqueezed,
    vector,
)
from graphc.export.onnx.lowering import by_parts, onnx
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.all_sum import AllReduce
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import SpecifyShape


@onnx.lower(Shape)
def shape(op: Shape, x: Any) -> Any:
    """All of them."""
    return vector(lengths(x))


@onnx.lower(Length)
def one_length(op: Length, x: Any) -> Any:
    """One of them."""
    return scalar(length(x, op.axis))


@onnx.lower(Reshape)
@by_parts
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """In row-major order; a length of 0 beside -1 fails when the model runs."""
    return reshaped(x, filled(op.shape, symbolic))


@onnx.lower(BroadcastTo)
@by_parts
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Repeated."""
    return expanded(x, filled(op.shape, symbolic))


@onnx.lower(Transpose)
@by_parts
def transpose(op: Transpose, x: Any) -> Any:
    """In another order."""
    return transposed(x, op.axes)


@onnx.lower(ExpandDims)
@by_parts
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """With new axes."""
    return unsqueezed(x, op.axes)


@onnx.lower(Squeeze)
@by_parts
def squeeze(op: Squeeze, x: Any) -> Any:
    """Without axes."""
    return squeezed(x, op.axes)


@onnx.lower(SpecifyShape, Shard, AllReduce)
def unchanged(op: Any, x: Any, *symbolic: Any) -> Any:
    """What is said of lengths and devices changes no value."""
    return x
