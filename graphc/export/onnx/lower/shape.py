"""Shapes, concatenation and splits, diagonals and padding."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.builder import (
    as_length,
    complete_shape,
    emit,
    emit_several,
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
from graphc.export.onnx.lowering import by_graph, by_parts, onnx
from graphc.ir import MakeTuple, is_complex
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.all_sum import AllReduce
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.signal.pad import Pad


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


# Concatenation, splits and tuples.


@onnx.lower(Concatenate)
@by_parts
def concatenate(op: Concatenate, *xs: Any) -> Any:
    return emit("Concat", *xs, axis=op.axis)


@onnx.lower(Split)
@by_parts
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    sizes = vector(complete_shape(op.sizes, symbolic))
    return tuple(emit_several("Split", [x, sizes], [x.dtype] * len(op.sizes), axis=op.axis))


@onnx.lower(MakeTuple)
def make_tuple(op: MakeTuple, *xs: Any) -> Any:
    return xs


# Diagonals, padding, and matrices with two equal triangles.


@onnx.lower(MatrixDiagonal)
@by_graph
def diagonal(op: MatrixDiagonal, x: Any) -> Any:
    rows, columns = max(-op.offset, 0), max(op.offset, 0)
    n, m = x.shape[-2:]
    count = gt.maximum(gt.minimum(n - rows, m - columns), 0)
    i = gt.arange(count)
    return x[..., i + rows, i + columns]


@onnx.lower(FromDiagonal)
@by_graph
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    lengths = iter(symbolic)
    n, m = (next(lengths) if size is None else size for size in op.shape)
    rows, columns = max(-op.offset, 0), max(op.offset, 0)
    i = gt.arange(v.shape[-1])
    zeros = gt.zeros((*v.shape[:-1], n, m), v.dtype)
    return zeros[..., i + rows, i + columns].set(v)


@onnx.lower(Pad)
@by_parts
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    lengths = iter(symbolic)
    widths = [as_length(next(lengths)) if n is None else n for n in op.widths]
    number = emit("Reshape", value, vector([]))
    return emit("Pad", x, vector([*widths[::2], *widths[1::2]]), number)


@onnx.lower(Mirror)
@by_graph
def mirror(op: Mirror, x: Any) -> Any:
    """Copy one triangle onto the other, conjugated for Hermitian matrices."""
    i = gt.arange(x.shape[-1])
    below = i[:, None] - i[None, :]
    is_read = below > 0 if op.lower else below < 0
    other = gt.swapaxes(x, -1, -2)
    middle = x
    if op.conjugated and is_complex(x.dtype):
        other, middle = gt.conj(other), gt.cast(gt.real(x), x.dtype)
    return gt.where(is_read, x, gt.where(gt.equal(below, 0), middle, other))
