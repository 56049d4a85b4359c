"""Lengths of axes, and changes of shape."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import (
    complete_shape,
    expand_to,
    insert_axes,
    length,
    lengths,
    permute_axes,
    remove_axes,
    reshape_to,
    scalar,
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
    return vector(lengths(x))


@onnx.lower(Length)
def length_of_axis(op: Length, x: Any) -> Any:
    return scalar(length(x, op.axis))


@onnx.lower(Reshape)
@by_parts
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """Reshape in row-major order; a length of 0 beside -1 fails when the model runs."""
    return reshape_to(x, complete_shape(op.shape, symbolic))


@onnx.lower(BroadcastTo)
@by_parts
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    return expand_to(x, complete_shape(op.shape, symbolic))


@onnx.lower(Transpose)
@by_parts
def transpose(op: Transpose, x: Any) -> Any:
    return permute_axes(x, op.axes)


@onnx.lower(ExpandDims)
@by_parts
def expand_dims(op: ExpandDims, x: Any) -> Any:
    return insert_axes(x, op.axes)


@onnx.lower(Squeeze)
@by_parts
def squeeze(op: Squeeze, x: Any) -> Any:
    return remove_axes(x, op.axes)


@onnx.lower(SpecifyShape, Shard, AllReduce)
def identity(op: Any, x: Any, *symbolic: Any) -> Any:
    return x
