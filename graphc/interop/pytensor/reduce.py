"""Reductions: ``CAReduce`` and its subclasses, and the indices of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, Refusal
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.loop.functional import loop
from graphc.tensor.core.tensor import Tensor


def _product_without_zeros(x: Tensor, axis: Any) -> Tensor:
    return gt.prod(gt.where(gt.equal(x, 0), gt.ones_like(x), x), axis)


REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "Add": gt.sum,
    "Mul": gt.prod,
    "Maximum": gt.max,
    "Minimum": gt.min,
    "MulWithoutZeros": _product_without_zeros,
}
"""The reductions by a scalar operation."""

LOGICAL: dict[str, Callable[..., Tensor]] = {"AND": gt.all, "OR": gt.any}
"""The reductions of bools by a scalar operation."""


def reduction(at: Application, x: Tensor) -> Tensor:
    """Reduce by a scalar operation, in the accumulator's dtype of the operation."""
    op, name = at.op, type(at.op.scalar_op).__name__
    # A scalar may be reduced along an axis, as NumPy's reductions allow.
    axis = None if op.axis is None or not x.ndim else tuple(op.axis)
    if x.dtype == "bool" and name in LOGICAL and at.dtype == "bool":
        return LOGICAL[name](x, axis)
    x = in_dtype(x, getattr(op, "acc_dtype", None) or at.dtype)
    if name in REDUCTIONS:
        return REDUCTIONS[name](x, axis)
    return _fold(at, x, axis)


def _fold(at: Application, x: Tensor, axis: tuple[int, ...] | None) -> Tensor:
    """Reduce by any other scalar operation, one element after the other."""
    identity = getattr(at.op.scalar_op, "identity", None)
    if identity is None:
        raise Refusal(f"the scalar operation {at.op.scalar_op} has no identity")
    axes = range(x.ndim) if axis is None else axis
    remaining = [i for i in range(x.ndim) if i not in axes]
    transposed = gt.transpose(x, [*axes, *remaining])
    rows = transposed.reshape((-1, *[transposed.shape[i] for i in range(len(axes), x.ndim)]))
    first = gt.full_like(rows.sum(0), identity, dtype=x.dtype)

    def step(y: Tensor, row: Tensor) -> tuple[Tensor, None]:
        (new,) = at.conversion.scalar(at.of(at.op.scalar_op), [y, row])
        return in_dtype(new, x.dtype), None

    result, _ = loop(step, first, rows, name=str(at.op))
    return result


def argmax(at: Application, x: Tensor) -> Tensor:
    return gt.argmax(x, None if at.op.axis is None else tuple(at.op.axis))
