"""Linear recurrences of several values that depend on each other, as in AR(2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import Op, TensorType, is_inexact
from graphc.ir.lengths import agree
from graphc.tensor.arrays.broadcast import broadcast_batch
from graphc.tensor.arrays.cumulative import shift_along
from graphc.tensor.core.axes import expand_dims, moveaxis, swapaxes
from graphc.tensor.core.elementwise import conj, wide_dtype
from graphc.tensor.core.tensor import Tensor

SHORT = 32
"""The largest number of steps that are as fast one by one as joined pairwise."""

WIDE = 1024
"""The number of elements of a step's matrices from which joining takes longer than stepping."""


@dataclass(frozen=True, slots=True)
class CoupledRecurrence(Op):
    """``y[i] = a[i] @ y[i - 1] + b[i]`` from 0, with i last; or ``y[i + 1]``, from the end.

    ``a`` is (k, k, ..., n), ``b`` and ``y`` are (k, ..., n). Axes between are batch axes.
    """

    reverse: bool = False
    name = "coupled_recurrence"

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if not all(agree(n, m) for n, m in zip(a.shape, (b.shape[0], *b.shape), strict=True)):
            raise ShapeError(f"{self.name}({a!r}, {b!r}): expected a matrix for each step.")
        return b

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        is_state = axis < 2 - i
        return 0 if is_state or (self.reverse and axis == type.ndim - 1) else "any"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        """Join steps pairwise, unless a product of factors overflows where no state may do so."""
        wide = wide_dtype(b.dtype)
        order = slice(None, None, -1 if self.reverse else 1)
        factors, terms = (x[..., order].astype(wide, copy=False) for x in (a, b))
        n = max(b.shape[-1], 1)
        y = (_step if factors.size // n >= WIDE else _join_pairs)(factors, terms)
        if is_inexact(b.dtype.name) and not np.isfinite(y).all():
            y = _step(factors, terms)
        return y[..., order].astype(b.dtype, copy=False)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Run the transposed recurrence in the other direction."""
        follows = -1 if self.reverse else 1
        factors = shift_along(conj(swapaxes(a, 0, 1)), a.ndim - 1, follows, 0)
        by_b = Tensor.make(CoupledRecurrence(not self.reverse), factors, g)
        before = conj(shift_along(y, y.ndim - 1, -follows, 0))
        return expand_dims(by_b, 1) * expand_dims(before, 0), by_b

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        a, b = broadcast_batch(size, batched, (a, b))
        y = Tensor.make(self, moveaxis(a, 0, 2), moveaxis(b, 0, 1))
        return moveaxis(y, 1, 0)


def apply_matrices(a: Any, y: Any, times: Callable[[Any, Any], Any]) -> Any:
    """Apply matrices (k, k, ..., n) to states (k, ..., n), in any library's arrays."""
    total = times(a[:, 0], y[0])
    for i in range(1, y.shape[0]):
        total = total + times(a[:, i], y[i])
    return total


def compose_matrices(a: Any, b: Any) -> Any:
    """Return the products of matrices (k, k, ..., n)."""
    total = a[:, 0, None] * b[None, 0]
    for i in range(1, b.shape[0]):
        total = total + a[:, i, None] * b[None, i]
    return total


def _join_pairs(a: Any, b: Any) -> Any:
    """Compute every second y by a recurrence of double steps, half as long; then the others."""
    n = b.shape[-1]
    if n <= SHORT:
        return _step(a, b)
    half = n // 2
    a_first, b_first = a[..., : 2 * half : 2], b[..., : 2 * half : 2]
    a_second = a[..., 1::2]
    terms = apply_matrices(a_second, b_first, np.multiply) + b[..., 1::2]
    y = np.empty_like(b)
    y[..., 0] = b[..., 0]
    y[..., 1::2] = _join_pairs(compose_matrices(a_second, a_first), terms)
    before = y[..., 1 : n - 1 : 2]
    y[..., 2::2] = apply_matrices(a[..., 2::2], before, np.multiply) + b[..., 2::2]
    return y


def _step(a: Any, b: Any) -> Any:
    """Apply one step after another, each a product of matrices."""
    factors = np.ascontiguousarray(np.moveaxis(a, (-1, 0, 1), (0, -2, -1)))
    y = np.moveaxis(b, (-1, 0), (0, -1))[..., None].copy()
    for before, i in pairwise(range(b.shape[-1])):
        y[i] += factors[i] @ y[before]
    return np.moveaxis(y[..., 0], (0, -1), (-1, 0))
