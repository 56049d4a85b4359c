"""Sums of integers are put together anew without a change, as they wrap around alike."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir import Graph
from graphc.rewrite import optimize
from graphc.rewrite.algebra.sums import exact_sum
from graphc.tensor import Tensor
from tests.rewrite.exact import awkward, values_of


def random_sum(choose: np.random.Generator, xs: list[Tensor], dtype: str) -> Tensor:
    pool = list(xs)
    for _ in range(choose.integers(3, 12)):
        a, b = (pool[i] for i in choose.integers(len(pool), size=2))
        number = gt.constant(choose.choice(awkward(dtype)), dtype=dtype)
        match choose.integers(6):
            case 0:
                y = a * number
            case 1:
                y = number + a
            case 2:
                y = number - a
            case 3:
                y = -a
            case 4:
                y = a + b
            case _:
                y = a - b
        pool.append(y)
    return pool[-1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32"])
def test_sums_of_integers_keep_their_values(dtype: str) -> None:
    for seed in range(60):
        choose = np.random.default_rng(seed)
        xs = [gt.tensor(name, dtype=dtype, shape=(None,)) for name in "xyz"]
        y = random_sum(choose, xs, dtype)
        new = optimize(Graph(xs, [y])).graph.outputs[0]
        values = {x: choose.choice(awkward(dtype), 20) for x in xs}
        before, after = values_of([y, new], values)
        np.testing.assert_array_equal(after, before)
        assert len(Graph(xs, [new])) <= len(Graph(xs, [y])) + 2


def test_a_long_sum_is_taken_together_where_its_terms_are_near() -> None:
    xs = [gt.lscalar() for _ in range(30)]
    rest = gt.add(*xs[:29])
    assert optimize(Graph(xs, [rest + xs[29] - xs[29]])).graph.outputs[0] is rest


SUMS = [
    (1.0, 2.0, "float32", 3.0),
    (0.1, 0.2, "float64", 0.1 + 0.2),
    (0.5, -0.5, "float64", 0.0),
    (1.0, 1e-10, "float64", None),
    (1.0, 1e-10, "float32", None),
    (1e308, 1e308, "float64", None),
    (40000.0, 40000.0, "float16", None),
    (1.0, 2.0**-7, "bfloat16", 1 + 2.0**-7),
    (1.0, 2.0**-12, "bfloat16", None),
]


@pytest.mark.parametrize(("a", "b", "dtype", "expected"), SUMS)
def test_numbers_are_added_where_neither_drowns(
    a: float, b: float, dtype: str, expected: float | None
) -> None:
    assert exact_sum(a, b, dtype) == expected
