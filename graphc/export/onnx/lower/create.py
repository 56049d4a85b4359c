"""Arrays made by a rule."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx.builder import (
    Complex,
    constant,
    counted,
    emit,
    filled,
    reshaped,
)
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.ir import Constant, is_complex, numpy_dtype, real_dtype
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.arrays.select import CheckedIndices


@onnx.lower(Constant)
def number(op: Constant) -> Any:
    """Part of the program."""
    return of_array(op.value)


def of_array(x: np.ndarray[Any, Any]) -> Any:
    """An array that is part of the program."""
    name = x.dtype.name
    if is_complex(name):
        return Complex(*[constant(part, real_dtype(name)) for part in (x.real, x.imag)])
    return constant(x, name)


@onnx.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    """Part of the program."""
    return of_array(op.perform())


@onnx.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    """Counted while it runs."""
    return emit("Range", start, stop, step)


@onnx.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    """Ones where a column is so far to the right of a row."""
    n, m = filled(op.shape, symbolic)
    rows, columns = reshaped(counted(n), [n, 1]), counted(m)
    ones = (columns - rows).equals(op.offset)
    if is_complex(op.dtype):
        part = ones.cast(real_dtype(op.dtype))
        return Complex(part, part - part)
    return ones.cast(op.dtype)


@onnx.lower(RepeatIndices)
@by_graph
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """For each place the first index whose running sum of counts is above it."""
    ends = gt.cumsum(gt.cast(counts, "int64"))
    total = gt.sum(gt.cast(counts, "int64"))
    return gt.searchsorted(ends, gt.arange(total), side="right")


@onnx.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Taken on trust; repeated for the lengths beside them."""
    zero = n * constant(0, n.dtype)
    return i + (zero.cast(i.dtype) if numpy_dtype(i.dtype) != numpy_dtype(n.dtype) else zero)
