"""Reductions: sums, products, extremes and their indices, any and all."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx.builder import Complex, Value, constant, emit, vector, where
from graphc.export.onnx.kernels import kernel_dtype
from graphc.export.onnx.lower.sort import from_key, key_of
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.ir import is_complex
from graphc.loop import scan
from graphc.tensor.arrays.reduce import All, Any_, ArgExtreme, ArgMax, Extreme, Max, Prod, Sum


def emit_reduction(op: str, x: Value, axes: tuple[int, ...]) -> Value:
    """Emit a reduction; over no axes, x itself."""
    return emit(op, x, vector(axes), keepdims=0) if axes else x


@onnx.lower(Sum)
def sum(op: Sum, x: Any) -> Any:
    """Sum each part of complex numbers; of bool, whether any is true."""
    if isinstance(x, Complex):
        return Complex(
            emit_reduction("ReduceSum", x.re, op.axes), emit_reduction("ReduceSum", x.im, op.axes)
        )
    if x.dtype == "bool":
        return emit_reduction("ReduceMax", x, op.axes)
    return emit_reduction("ReduceSum", x, op.axes)


@onnx.lower(Prod)
def prod(op: Prod, x: Any) -> Any:
    if isinstance(x, Complex):
        return _complex_product(op, x)
    if x.dtype == "bool":
        return emit_reduction("ReduceMin", x, op.axes)
    return emit_reduction("ReduceProd", x, op.axes)


@by_graph
def _complex_product(op: Prod, x: Any) -> Any:
    assert is_complex(x.dtype)
    for axis in reversed(op.axes):
        rows = gt.moveaxis(x, axis, 0)
        start = gt.ones(gt.shape(rows)[1:], x.dtype) if x.ndim > 1 else gt.ones((), x.dtype)
        x = scan(lambda row, y: y * row, rows, start)[-1]
    return x


@onnx.lower(Extreme)
def extreme(op: Extreme, x: Any) -> Any:
    """Reduce to the extreme, or NaN if there is one."""
    name = "ReduceMax" if isinstance(op, Max) else "ReduceMin"
    if x.dtype == "uint64":
        return from_key(emit_reduction(name, key_of(x), op.axes), x.dtype)
    if not x.is_float:
        return integer_extreme(name, x, op.axes)
    y = emit_reduction(name, x, op.axes)
    has_nan = emit_reduction("ReduceMax", emit("IsNaN", x, dtype="bool"), op.axes)
    return where(has_nan, constant(np.nan, x.dtype), y)


def integer_extreme(name: str, x: Value, axes: tuple[int, ...]) -> Value:
    """Reduce integers; over no elements to the end of their dtype, not of a wider one."""
    wide = kernel_dtype(name, x.dtype)
    if x.dtype in {wide, "bool"}:
        return emit_reduction(name, x, axes)
    ends = np.iinfo(x.dtype)
    y = emit_reduction(name, x.cast(wide), axes)
    y = emit("Min", emit("Max", y, constant(ends.min, wide)), constant(ends.max, wide))
    return y.cast(x.dtype)


@onnx.lower(All, Any_)
def all_or_any(op: Any, x: Any) -> Any:
    return emit_reduction("ReduceMin" if isinstance(op, All) else "ReduceMax", x, op.axes)


@onnx.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """Return the index of the first of equal extremes, or of the first NaN."""
    largest = isinstance(op, ArgMax)
    key = key_of(x, nan_last=largest)
    name = "ArgMax" if largest else "ArgMin"
    return emit(name, key, dtype="int64", axis=op.axis, keepdims=0, select_last_index=0)
