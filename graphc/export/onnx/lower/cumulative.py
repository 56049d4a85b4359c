"""Running sums, products and extremes, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.builder import Complex, constant, emit
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.loop import scan
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Recurrence

COMBINE = {CumMax: gt.maximum, CumMin: gt.minimum, CumProd: gt.multiply}


@onnx.lower(CumSum)
def cumsum(op: CumSum, x: Any) -> Any:
    """Sum each part of complex numbers; of bool, whether any is true."""
    if isinstance(x, Complex):
        return Complex(cumsum(op, x.re), cumsum(op, x.im))
    if x.dtype == "bool":
        return cumsum(op, x.cast("int32")) > 0
    return emit("CumSum", x, constant(op.axis, "int64"), reverse=int(op.reverse))


@onnx.lower(CumProd)
def cumprod(op: CumProd, x: Any) -> Any:
    if isinstance(x, Complex):
        return accumulate_in_loop(op, x)
    return emit("CumProd", x, constant(op.axis, "int64"), reverse=int(op.reverse))


@onnx.lower(CumMax, CumMin)
@by_graph
def accumulate_in_loop(op: Any, x: Any) -> Any:
    rows = gt.moveaxis(x, op.axis, 0)
    combine = COMBINE[type(op)]
    rows = rows[::-1] if op.reverse else rows

    def step(row: Any, y: Any) -> Any:
        return combine(y, row)

    # An extreme of the first row and itself is the first row; products begin with 1.
    first = (
        gt.ones_like(_first_row_or_zeros(rows))
        if type(op) is CumProd
        else _first_row_or_zeros(rows)
    )
    y = scan(step, rows, first)
    return gt.moveaxis(y[::-1] if op.reverse else y, 0, op.axis)


def _first_row_or_zeros(rows: Any) -> Any:
    first = gt.sum(rows[:1], 0) if rows.dtype != "bool" else gt.any(rows[:1], 0)
    return gt.cast(first, rows.dtype)


@onnx.lower(Recurrence)
@by_graph
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    return _scan_recurrence(op, a, b, op.axis, lambda factor, y: y * factor)


@onnx.lower(CoupledRecurrence)
@by_graph
def coupled_recurrence(op: CoupledRecurrence, a: Any, b: Any) -> Any:
    return _scan_recurrence(
        op, a, b, -1, lambda factor, y: gt.sum(factor * gt.expand_dims(y, 0), 1)
    )


def _scan_recurrence(op: Any, a: Any, b: Any, axis: int, times: Callable[[Any, Any], Any]) -> Any:
    """Compute ``y[i] = a[i] y[i - 1] + b[i]`` in a loop; half-width floats in float32."""
    wide = "float32" if b.dtype in {"float16", "bfloat16"} else b.dtype
    factors, terms = (gt.moveaxis(gt.cast(x, wide), axis, 0) for x in (a, b))
    if op.reverse:
        factors, terms = factors[::-1], terms[::-1]
    # The first factor multiplies 0, which must not become NaN.
    factors = factors[1:]
    begun = terms[:1]

    def step(factor: Any, term: Any, y: Any) -> Any:
        return times(factor, y) + term

    rest = scan(step, [factors, terms[1:]], _first_row_or_zeros(terms))
    y = gt.concatenate([begun, rest])
    return gt.cast(gt.moveaxis(y[::-1] if op.reverse else y, 0, axis), b.dtype)
