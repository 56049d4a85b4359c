"""Joins and parts."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import emit, filled, several, vector
from graphc.export.onnx.lowering import by_parts, onnx
from graphc.ir import MakeTuple
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split


@onnx.lower(Concatenate)
@by_parts
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """One after the other."""
    return emit("Concat", *xs, axis=op.axis)


@onnx.lower(Split)
@by_parts
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Parts of these lengths."""
    sizes = vector(filled(op.sizes, symbolic))
    return tuple(several("Split", [x, sizes], [x.dtype] * len(op.sizes), axis=op.axis))


@onnx.lower(MakeTuple)
def make_tuple(op: MakeTuple, *xs: Any) -> Any:
    """What an operation with several results gives."""
    return xs
