"""Concatenation, splits and tuples."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import complete_shape, emit, emit_several, vector
from graphc.export.onnx.lowering import by_parts, onnx
from graphc.ir import MakeTuple
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split


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
