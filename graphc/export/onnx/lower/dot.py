"""Products of arrays, summed over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.export.onnx.builder import (
    Complex,
    Length,
    Value,
    emit,
    lengths,
    permute_axes,
    product,
    reshape_to,
)
from graphc.export.onnx.lowering import onnx
from graphc.tensor.linalg.dot import DotGeneral


@onnx.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Emit products of batches of matrices; complex numbers take four real products."""
    if isinstance(a, Complex):
        re = _dot(op, a.re, b.re) - _dot(op, a.im, b.im)
        return Complex(re, _dot(op, a.re, b.im) + _dot(op, a.im, b.re))
    if a.dtype == "bool":
        counts = [x.cast("int32").with_type(x.type) for x in (a, b)]
        return _dot(op, *counts) > 0
    if a.dtype in {"float16", "bfloat16"}:
        wide = [x.cast("float32").with_type(x.type) for x in (a, b)]
        return _dot(op, *wide).cast(a.dtype)
    return _dot(op, a, b)


def _dot(op: DotGeneral, a: Value, b: Value) -> Value:
    """Emit one product of matrices, with the axes of each kind merged into one."""
    batch = op.batch_axes
    free = [op.free(side, x.type.ndim) for side, x in enumerate((a, b))]
    sizes = [lengths(a), lengths(b)]
    rows = _merge_axes(a, sizes[0], [*[[i] for i in batch[0]], free[0], op.contract[0]])
    columns = _merge_axes(b, sizes[1], [*[[i] for i in batch[1]], op.contract[1], free[1]])
    y = emit("MatMul", rows, columns)
    if len(free[0]) == len(free[1]) == 1:
        return y
    batch_sizes = [sizes[0][i] for i in batch[0]]
    return reshape_to(y, [*batch_sizes, *[sizes[side][i] for side in (0, 1) for i in free[side]]])


def _merge_axes(x: Value, sizes: Sequence[Length], groups: Sequence[Sequence[int]]) -> Value:
    """Transpose x to groups of axes, and merge each group into one axis."""
    x = permute_axes(x, [axis for group in groups for axis in group])
    if all(len(group) == 1 for group in groups):
        return x
    return reshape_to(x, [product([sizes[axis] for axis in group]) for group in groups])
