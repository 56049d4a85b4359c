"""Constants, ranges, identity matrices and indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx.builder import Complex, complete_shape, constant, emit, iota, reshape_to
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.ir import Constant, is_complex, numpy_dtype, real_dtype
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.arrays.select import CheckedIndices


@onnx.lower(Constant)
def constant_array(op: Constant) -> Any:
    return emit_constant(op.value)


def emit_constant(x: np.ndarray[Any, Any]) -> Any:
    name = x.dtype.name
    if is_complex(name):
        return Complex(*[constant(part, real_dtype(name)) for part in (x.real, x.imag)])
    return constant(x, name)


@onnx.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    return emit_constant(op.perform())


@onnx.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    return emit("Range", start, stop, step)


@onnx.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    n, m = complete_shape(op.shape, symbolic)
    rows, columns = reshape_to(iota(n), [n, 1]), iota(m)
    is_one = (columns - rows).equals(op.offset)
    if is_complex(op.dtype):
        re = is_one.cast(real_dtype(op.dtype))
        return Complex(re, re - re)
    return is_one.cast(op.dtype)


@onnx.lower(RepeatIndices)
@by_graph
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """Return for each position the first index whose running sum of counts exceeds it."""
    ends = gt.cumsum(gt.cast(counts, "int64"))
    total = gt.sum(gt.cast(counts, "int64"))
    return gt.searchsorted(ends, gt.arange(total), side="right")


@onnx.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Return the indices unchecked, broadcast with the lengths."""
    zero = n * constant(0, n.dtype)
    return i + (zero.cast(i.dtype) if numpy_dtype(i.dtype) != numpy_dtype(n.dtype) else zero)
