"""Formulas that are taken apart and put together again stay finite, and keep their digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir import Constant, Graph, Node, toposort
from graphc.rewrite import optimize
from graphc.tensor import Tensor
from tests.rewrite.exact import DIGITS, TRUE, awkward, values_of

POINTS = 100
UNARY = [gt.negative, gt.square, gt.sqrt, gt.abs]
BINARY = [gt.add, gt.subtract, gt.multiply, gt.divide]
NUMBERS = [2.0, 3.0, -1.0, 0.5, -3.0, 1e-10, 7.0, 1e30, 1.0, 0.1, 1e-30]
EXPONENTS = [2, 3, -1, -2, 0.5, 1.5]


def root(x: Any) -> Any:
    return mpmath.sqrt(x) if x >= 0 else mpmath.nan


def power(a: Any, b: Any) -> Any:
    fractional = b != int(b)
    return mpmath.nan if (not a and b < 0) or (a < 0 and fractional) else a**b


EXACT: dict[Any, Callable[..., Any]] = TRUE | {gt.abs: abs, gt.sqrt: root, gt.power: power}


def random_formula(choose: np.random.Generator, xs: list[Tensor]) -> Tensor:
    pool = list(xs)
    for _ in range(choose.integers(2, 6)):
        a, b = (pool[i] for i in choose.integers(len(pool), size=2))
        number = float(choose.choice(NUMBERS))
        binary = BINARY[choose.integers(len(BINARY))]
        match choose.integers(10):
            case 0 | 1:
                y = UNARY[choose.integers(len(UNARY))](a)
            case 2:
                y = binary(a, number)
            case 3:
                y = binary(number, a)
            case 4:
                y = a ** float(choose.choice(EXPONENTS))
            case _:
                y = binary(a, b)
        pool.append(y)
    return pool[-1]


def truth(y: Node, values: dict[Node, Any]) -> Any:
    """The value as if numbers had no end."""
    with mpmath.workdps(2 * DIGITS):
        known = dict(values)
        for node in toposort([y], known):
            if isinstance(node.op, Constant):
                known[node] = mpmath.mpf(node.op.value.item())
            else:
                known[node] = EXACT[node.op](*[known[x] for x in node.inputs])
        return known[y]


def extreme(dtype: str) -> np.ndarray:
    """Values at which sums and products overflow, or have few digits."""
    kind = np.finfo(dtype)
    ends = [0.9 * kind.max, -0.7 * kind.max, 0.51 * kind.max, 2 * kind.tiny]
    roots = [0.9 * np.sqrt(kind.max), 0.9 / np.sqrt(kind.max)]
    values = awkward(dtype)
    return np.array([*values[np.isfinite(values)], *ends, *roots, 0.3, -8.25], dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(0, 400, 40))
def test_no_digit_is_lost_and_no_number_overflows(seed: int, dtype: str) -> None:
    for i in range(seed, seed + 40):
        choose = np.random.default_rng(i)
        xs = [gt.vector(name, dtype=dtype) for name in "xyz"]
        y = random_formula(choose, xs)
        new = optimize(Graph(xs, [y])).graph.outputs[0]
        if new is not y:
            points = {x: choose.choice(extreme(dtype), POINTS) for x in xs}
            compare(y, new, points, dtype)


def compare(y: Node, new: Node, points: dict[Any, Any], dtype: str) -> None:
    kind = np.finfo(dtype)
    eps, tiny, largest = float(kind.eps), float(kind.tiny), float(kind.max)
    before, after = (np.broadcast_to(v, POINTS) for v in values_of([y, new], points))
    for i in np.flatnonzero(np.isfinite(before) & (before != after)):
        true = truth(y, {x: mpmath.mpf(float(values[i])) for x, values in points.items()})
        if not mpmath.isfinite(true) or abs(true) > largest:
            continue
        assert np.isfinite(after[i]), (y, new, i)
        was, error = abs(float(before[i]) - true), abs(float(after[i]) - true)
        assert error <= 8 * was + 16 * eps * abs(true) + 4 * tiny, (y, new, true)
