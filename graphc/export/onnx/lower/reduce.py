"""Reductions: sums, extremes and their places, truths."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx.builder import Complex, Value, constant, emit, vector, where
from graphc.export.onnx.kernels import computed_in
from graphc.export.onnx.lower.sort import from_key, key_of
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.ir import is_complex
from graphc.loop import scan
from graphc.tensor.arrays.reduce import All, Any_, ArgExtreme, ArgMax, Extreme, Max, Prod, Sum


def reduced(op: str, x: Value, axes: tuple[int, ...]) -> Value:
    """A reduction; over no axes, x itself."""
    return emit(op, x, vector(axes), keepdims=0) if axes else x


@onnx.lower(Sum)
def add_up(op: Sum, x: Any) -> Any:
    """Part by part; of bool, whether any is true."""
    if isinstance(x, Complex):
        return Complex(reduced("ReduceSum", x.re, op.axes), reduced("ReduceSum", x.im, op.axes))
    if x.dtype == "bool":
        return reduced("ReduceMax", x, op.axes)
    return reduced("ReduceSum", x, op.axes)


@onnx.lower(Prod)
def multiply_up(op: Prod, x: Any) -> Any:
    """Of complex numbers, one factor after the other."""
    if isinstance(x, Complex):
        return _complex_product(op, x)
    if x.dtype == "bool":
        return reduced("ReduceMin", x, op.axes)
    return reduced("ReduceProd", x, op.axes)


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
    """NaN goes before all numbers."""
    name = "ReduceMax" if isinstance(op, Max) else "ReduceMin"
    if x.dtype == "uint64":
        return from_key(reduced(name, key_of(x), op.axes), x.dtype)
    if not x.is_float:
        return whole_extreme(name, x, op.axes)
    y = reduced(name, x, op.axes)
    found = reduced("ReduceMax", emit("IsNaN", x, dtype="bool"), op.axes)
    return where(found, constant(np.nan, x.dtype), y)


def whole_extreme(name: str, x: Value, axes: tuple[int, ...]) -> Value:
    """The extreme of integers; over no elements the end of their own dtype, not of a wider one."""
    wide = computed_in(name, x.dtype)
    if x.dtype in {wide, "bool"}:
        return reduced(name, x, axes)
    ends = np.iinfo(x.dtype)
    y = reduced(name, x.cast(wide), axes)
    y = emit("Min", emit("Max", y, constant(ends.min, wide)), constant(ends.max, wide))
    return y.cast(x.dtype)


@onnx.lower(All, Any_)
def truth(op: Any, x: Any) -> Any:
    """Whether all are true, or any is."""
    return reduced("ReduceMin" if isinstance(op, All) else "ReduceMax", x, op.axes)


@onnx.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """The first of equal values, or the first NaN."""
    largest = isinstance(op, ArgMax)
    key = key_of(x, nan_last=largest)
    name = "ArgMax" if largest else "ArgMin"
    return emit(name, key, dtype="int64", axis=op.axis, keepdims=0, select_last_index=0)
