"""Cases of graphc.attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
from graphc.attention import flex_attention
from tests.attention import reference
from tests.contract.case import Case

SHAPES = ((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3), (4,))
"""Of queries, keys, values, and a number for each head."""


def steeper(score: Any, b: Any, h: Any, i: Any, j: Any, slope: Any) -> Any:
    """What the case makes of a score."""
    return score * slope[h] + (b + 1) * slope[h] ** 2 * (i - j)


def attended(q: Any, k: Any, v: Any, slope: Any) -> Any:
    """A symbolic case."""
    return flex_attention(
        q, k, v, lambda s, b, h, i, j: steeper(s, b, h, i, j, slope), scale=0.5, enable_gqa=True
    )


def expected(q: Any, k: Any, v: Any, slope: Any) -> Any:
    """The same by NumPy, of dense scores."""
    b, h, i, j = np.ogrid[:2, :4, :3, :5]
    plus = (b + 1) * slope[h] ** 2 * (i - j)
    return reference.forward(q, k, v, times=slope[:, None, None], plus=plus, scale=0.5).out.astype(
        q.dtype
    )


def moved(q: Any, k: Any, v: Any, slope: Any) -> Any:
    """How the sum of the results moves with the queries."""
    return graphc.grad(attended(q, k, v, slope).sum(), q)


def expected_move(q: Any, k: Any, v: Any, slope: Any) -> Any:
    """The same by NumPy."""
    b, h, i, j = np.ogrid[:2, :4, :3, :5]
    plus = (b + 1) * slope[h] ** 2 * (i - j)
    ones = np.ones((2, 4, 3, 3))
    options: Any = {"times": slope[:, None, None], "plus": plus, "scale": 0.5}
    return reference.backward(q, k, v, ones, **options).q.astype(q.dtype)


FAMILIES: dict[str, dict[str, Case]] = {
    "flex": {
        "flex": Case(attended, SHAPES, ("float32", "float64"), expected),
        "flex gradient": Case(moved, SHAPES, ("float32", "float64"), expected_move),
    },
}
