"""Cases of graphc.tensor.linalg."""

from __future__ import annotations

from functools import reduce

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case, S, X

SIGNED = ("int8", "float32", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "linalg": {
        "kron": Case(lambda n, a, b: n.kron(a, b), ((2, 3), (3, 2)), SIGNED),
        "kron of ranks": Case(lambda n, a, b: n.kron(a, b), ((2,), X), SIGNED),
        "kron of a scalar": Case(lambda n, a, b: n.kron(a, b), (S, (2, 3)), SIGNED),
        "cross": Case(lambda n, a, b: n.cross(a, b), ((2, 3), (3,)), SIGNED, static=True),
        "cross along axes": Case(
            lambda n, a, b: n.cross(a, b, axisa=0, axisb=1, axisc=1), ((3, 4, 2), (4, 3, 2)), SIGNED
        ),
        "matrix_dot": Case(
            gt.matrix_dot, ((2, 3), (3, 4), (4, 2)), SIGNED, lambda *xs: reduce(np.matmul, xs)
        ),
        "multi_dot": Case(
            lambda *xs: gt.multi_dot(xs), ((3,), (3, 4), (4, 2), (2, 3)), SIGNED,
            lambda *xs: reduce(np.matmul, xs),
        ),
        "multi_dot of known lengths": Case(
            lambda *xs: gt.multi_dot(xs), ((5, 2), (2, 5), (5,)), SIGNED,
            lambda *xs: reduce(np.matmul, xs), static=True,
        ),
    } | {
        f"matrix_power {n}": Case(
            lambda x, n=n: gt.matrix_power(x, n), ((2, 3, 3),), SIGNED,
            lambda x, n=n: np.linalg.matrix_power(x, n),
        )
        for n in (0, 1, 2, 5)
    },
}  # fmt: skip
