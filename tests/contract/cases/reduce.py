"""Cases of graphc.tensor.arrays.reduce."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from graphc.tensor.arrays.reduce import MaxWithDefault
from tests.contract.case import EMPTY, EVERY, FLOATING, REAL, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "reduce": {
        "sum": Case(lambda n, x: n.sum(x, (0, 2)), (X,), EVERY),
        "sum of all": Case(lambda n, x: n.sum(x), (X,), EVERY),
        "sum of nothing": Case(lambda n, x: n.sum(x, 0), (EMPTY,), EVERY),
        "sum in a dtype": Case(lambda n, x: n.sum(x, 1, "float64"), (X,), ("int8", "float32")),
        "sum kept": Case(lambda n, x: n.sum(x, (1,), keepdims=True), (X,)),
        "sum of 4000": Case(lambda n, x: n.sum(x), ((4000,),), ("float16", "bfloat16", "float32")),
        "prod": Case(lambda n, x: n.prod(x, (0, 2)), (X,), EVERY),
        "prod of nothing": Case(lambda n, x: n.prod(x, 0), (EMPTY,), EVERY),
        "max": Case(lambda n, x: n.max(x, 1), (X,), REAL),
        "max of all": Case(lambda n, x: n.max(x), (X,), REAL),
        "max with a default": Case(
            lambda x: gt.Tensor.make(MaxWithDefault((1,)), x), (X,), FLOATING,
            lambda x: np.max(x, 1),
        ),
        "max with NaN": Case(lambda n, x: n.max(x, 0), ((7, 4),), FLOATING, special=True),
        "min": Case(lambda n, x: n.min(x, (0, 1)), (X,), REAL),
        "min with NaN": Case(lambda n, x: n.min(x, 0), ((7, 4),), FLOATING, special=True),
        "max without slices": Case(lambda n, x: n.max(x, 1), (EMPTY,), REAL),
        "all": Case(lambda n, x: n.all(x, 1), (X,), EVERY),
        "all of nothing": Case(lambda n, x: n.all(x, 0), (EMPTY,)),
        "all with NaN": Case(lambda n, x: n.all(x, 0), ((7, 4),), FLOATING, special=True),
        "any": Case(lambda n, x: n.any(x, (0, 1)), (X,), EVERY),
        "any of nothing": Case(lambda n, x: n.any(x, 0), (EMPTY,)),
        "any with NaN": Case(lambda n, x: n.any(x, 0), ((7, 4),), FLOATING, special=True),
        "argmax": Case(lambda n, x: n.argmax(x, 1), (X,), REAL),
        "argmax of all": Case(lambda n, x: n.argmax(x), (X,), REAL),
        "argmax with ties and NaN": Case(
            lambda n, x: n.argmax(x, 0), ((7, 4),), FLOATING, special=True
        ),
        "argmin": Case(lambda n, x: n.argmin(x, 2), (X,), REAL),
        "argmin with ties and NaN": Case(
            lambda n, x: n.argmin(x, 0), ((7, 4),), FLOATING, special=True
        ),
        "argmin without slices": Case(lambda n, x: n.argmin(x, 1), (EMPTY,), REAL),
        "mean": Case(lambda n, x: n.mean(x, (0, 2)), (X,), ("int8", "float64", "complex128")),
        "var": Case(lambda n, x: n.var(x, 1, ddof=1), (X,), ("int8", "float64", "complex128")),
        "std": Case(lambda n, x: n.std(x), (X,), ("int8", "float64", "complex128")),
    },
}  # fmt: skip
