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
    product,
    reshaped,
    transposed,
)
from graphc.export.onnx.lowering import onnx
from graphc.tensor.linalg.dot import DotGeneral


@onnx.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """As batches of matrices; of complex numbers, four products of parts."""
    if isinstance(a, Complex):
        re = _dot(op, a.re, b.re) - _dot(op, a.im, b.im)
        return Complex(re, _dot(op, a.re, b.im) + _dot(op, a.im, b.re))
    if a.dtype == "bool":
        counts = [x.cast("int32").typed(x.type) for x in (a, b)]
        return _dot(op, *counts) > 0
    if a.dtype in {"float16", "bfloat16"}:
        wide = [x.cast("float32").typed(x.type) for x in (a, b)]
        return _dot(op, *wide).cast(a.dtype)
    return _dot(op, a, b)


def _dot(op: DotGeneral, a: Value, b: Value) -> Value:
    """The axes of each kind are merged into one."""
    batch = op.batch_axes
    free = [op.free(side, x.type.ndim) for side, x in enumerate((a, b))]
    sizes = [lengths(a), lengths(b)]
    left = _merged(a, sizes[0], [*[[i] for i in batch[0]], free[0], op.contract[0]])
    right = _merged(b, sizes[1], [*[[i] for i in batch[1]], op.contract[1], free[1]])
    y = emit("MatMul", left, right)
    if len(free[0]) == len(free[1]) == 1:
        return y
    kept = [sizes[0][i] for i in batch[0]]
    return reshaped(y, [*kept, *[sizes[side][i] for side in (0, 1) for i in free[side]]])


def _merged(x: Value, sizes: Sequence[Length], groups: Sequence[Sequence[int]]) -> Value:
    """x with each group of its axes as one axis, in order."""
    x = transposed(x, [axis for group in groups for axis in group])
    if all(len(group) == 1 for group in groups):
        return x
    return reshaped(x, [product([sizes[axis] for axis in group]) for group in groups])
