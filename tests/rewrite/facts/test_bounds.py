"""What is said of the values of a node before they are computed holds when they are."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir import Node
from graphc.rewrite.facts.bounds import MAX_LENGTH, bounds_of
from graphc.tensor import Tensor
from tests.rewrite.exact import awkward, values_of

UNARY = [
    gt.abs, gt.exp, gt.square, gt.sqrt, gt.sigmoid, gt.tanh, gt.negative, gt.sign, gt.floor,
    gt.ceil, gt.softplus, gt.sin, gt.erf, gt.erfc, gt.reciprocal, gt.cosh, gt.round, gt.arctan,
    lambda x: x**3, lambda x: x**-2, lambda x: gt.abs(x) ** 0.5, lambda x: x % 3,
]  # fmt: skip
BINARY = [gt.add, gt.subtract, gt.multiply, gt.divide, gt.maximum, gt.minimum, gt.fmax, gt.hypot]
WHOLE_UNARY = [
    gt.abs, gt.square, gt.negative, gt.sign, lambda x: x % 7, lambda x: x & 12, lambda x: x // 3,
    gt.invert, lambda x: x**3, lambda x: x << 2, lambda x: x >> 1, lambda x: gt.fmod(x, 5),
]  # fmt: skip
WHOLE_BINARY = [
    gt.add, gt.subtract, gt.multiply, gt.maximum, gt.minimum, gt.floor_divide, gt.remainder,
    gt.fmod, gt.bitwise_and, gt.bitwise_or, gt.bitwise_xor, gt.left_shift, gt.right_shift,
    lambda a, b: gt.cast(gt.logical_xor(gt.lt(a, b), gt.ge(a, 2)), a.dtype),
]  # fmt: skip
DTYPES = ("float64", "float32", "float16", "int8", "uint8", "int64")


def random_nodes(choose: np.random.Generator, dtype: str, x: Tensor) -> list[Tensor]:
    whole = "int" in dtype
    unary, binary = (WHOLE_UNARY, WHOLE_BINARY) if whole else (UNARY, BINARY)
    pool = [x, x * 2 + 1, gt.clip(x, 0, 3), gt.as_tensor(3, dtype=dtype)]
    for _ in range(16):
        a, b = (pool[i] for i in choose.integers(len(pool), size=2))
        match choose.integers(7):
            case 0:
                y = gt.where(gt.gt(a, b), a, b)
            case 1:
                y = gt.cast(gt.cast(a, choose.choice(DTYPES)), dtype)
            case 2 | 3:
                y = unary[choose.integers(len(unary))](a)
            case _:
                y = binary[choose.integers(len(binary))](a, b)
        pool.append(y)
    return pool


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_values_lie_within_their_bounds(dtype: str, seed: int) -> None:
    x = gt.tensor("x", dtype=dtype, shape=(None,))
    nodes = random_nodes(np.random.default_rng(seed), dtype, x)
    for node, values in zip(nodes, values_of(nodes, {x: awkward(dtype)}), strict=True):
        low, high = bounds_of(node)
        seen = values[~np.isnan(values)]
        assert (seen >= low).all(), node
        assert (seen <= high).all(), node


x, i = gt.vector("x"), gt.lvector("i")
n = gt.shape(x)[0]

KNOWN: list[tuple[Node, tuple[float, float]]] = [
    (gt.exp(x), (0, np.inf)),
    (gt.exp(x) + gt.abs(x), (0, np.inf)),
    (gt.sum(gt.square(x)), (0, np.inf)),
    (gt.abs(i), (-(2**63), 2**63 - 1)),
    (gt.abs(i % 10), (0, 9)),
    (n, (0, MAX_LENGTH)),
    (n + 1, (1, MAX_LENGTH + 1)),
    (n - 1, (-1, MAX_LENGTH - 1)),
    (n * n, (-(2**63), 2**63 - 1)),
    (gt.cast(gt.gt(x, 0), "int8"), (0, 1)),
    (gt.constant([2.0, np.nan, -3.0]), (-3, 2)),
    (gt.max(gt.exp(x)), (0, np.inf)),
    (x.astype("complex128"), (-np.inf, np.inf)),
    (gt.abs(gt.zvector()), (0, np.inf)),
    (gt.reshape(gt.exp(gt.matrix()), (-1,)).T[::-1], (0, np.inf)),
]


@pytest.mark.parametrize(("node", "bounds"), KNOWN)
def test_bounds_are_as_narrow_as_can_be_told(node: Node, bounds: tuple[float, float]) -> None:
    assert bounds_of(node) == bounds


def test_bounds_of_a_deep_graph_are_found() -> None:
    y = gt.exp(x)
    for _ in range(20_000):
        y = y + gt.abs(x)
    assert bounds_of(y).low == 0
