"""Cases of graphc.implicit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.implicit import ImplicitArray, with_fields
from graphc.implicit.quantized import ExpertMatmul, QuantizedMatmul, quantize
from graphc.implicit.straight_through import replace_derivative
from graphc.implicit.structures.toeplitz import ToeplitzProduct
from tests.contract.case import FLOATING, NUMERIC, SOME, Case, S, V, X

PACKED: Any = quantize(np.random.default_rng(0).normal(size=(4, 64)), "int4", group_size=32)
"""Codes whose scales and biases are the operands."""


@dataclass(frozen=True, repr=False)
class Outer(ImplicitArray):
    """``u`` times ``v``, which nothing handles."""

    u: Any
    v: Any

    def materialize(self) -> Any:
        return self.u[:, None] * self.v


@dataclass(frozen=True, repr=False)
class Shifted(ImplicitArray):
    """A number more than what may be implicit itself."""

    base: Any
    by: Any

    def materialize(self) -> Any:
        return self.base + self.by


def whole(x: ImplicitArray) -> Any:
    """What is made of it where it is whole."""
    return gt.cumsum(gt.as_tensor(x), 0, dtype=str(x.dtype))


def _quantized(x: Any, scales: Any, biases: Any) -> Any:
    op = QuantizedMatmul((1,), "affine", 4, 32, False)
    return gt.Tensor.make(op, x, gt.constant(PACKED.packed), scales, biases)


def _by_numpy(x: Any, scales: Any, biases: Any) -> Any:
    matrix = with_fields(PACKED, {"scales": scales, "biases": biases}).materialize()
    return x @ np.asarray(matrix)


STACK: Any = quantize(np.random.default_rng(1).normal(size=(3, 4, 64)), "int4", group_size=32)
"""Three matrices of codes, of which products take some."""
TAKEN = np.array([2, 0, -1])


def _of_experts(x: Any, scales: Any, biases: Any) -> Any:
    op = ExpertMatmul((2,), "affine", 4, 32, False)
    return gt.Tensor.make(op, x, gt.constant(STACK.packed), scales, biases, gt.constant(TAKEN))


def _of_experts_by_numpy(x: Any, scales: Any, biases: Any) -> Any:
    matrices = with_fields(STACK, {"scales": scales, "biases": biases}).materialize()
    return x @ np.asarray(matrices)[TAKEN]


def _toeplitz_by_numpy(t: Any, x: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(t, x.shape[-1])
    return x @ windows.T


FAMILIES: dict[str, dict[str, Case]] = {
    "implicit": {
        "of two fields": Case(
            lambda u, v: whole(Outer(u, v)), (V, (3,)), NUMERIC,
            lambda u, v: np.cumsum(u[:, None] * v, 0, dtype=u.dtype),
        ),
        "nested": Case(
            lambda u, v, by: whole(Shifted(Outer(u, v), by)), (V, (3,), S), NUMERIC,
            lambda u, v, by: np.cumsum(u[:, None] * v + by, 0, dtype=u.dtype),
        ),
        "of nothing": Case(
            lambda u, v: whole(Outer(u, v)), ((0,), (3,)), SOME, lambda u, v: u[:, None] * v,
        ),
    },
    "straight": {
        # Its derivative is that of the sum, so the other is zero in its value alone.
        "replaced": Case(lambda x: replace_derivative(x, 0 * x) * x, (X,), SOME, lambda x: x * x),
    },
    "quantized": {
        "product": Case(_quantized, ((3, 4), (4, 2), (4, 2)), FLOATING[2:], _by_numpy),
        "product of experts": Case(
            _of_experts, ((3, 2, 4), (3, 4, 2), (3, 4, 2)), FLOATING[2:], _of_experts_by_numpy,
        ),
    },
    "toeplitz": {
        "product": Case(
            lambda t, x: gt.Tensor.make(ToeplitzProduct(4, 6), t, x), ((9,), (2, 4)), FLOATING[2:],
            _toeplitz_by_numpy,
        ),
    },
}  # fmt: skip
