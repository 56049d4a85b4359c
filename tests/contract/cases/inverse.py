"""Cases of graphc.tensor.linalg.inverse."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from graphc.tensor.linalg.inverse import Inverse
from tests.contract.case import Case
from tests.contract.cases.solve import KINDS

MATRICES = ("float16", "float32", "float64", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "inverse": {
        "inv": Case(lambda n, a: n.linalg.inv(KINDS["gen"](n, a)), ((2, 3, 3),), MATRICES),
        "inv of nothing": Case(lambda n, a: n.linalg.inv(a), ((2, 0, 0),), ("float64",)),
        "matrix_power -3": Case(
            lambda a: gt.matrix_power(KINDS["gen"](gt, a), -3), ((2, 3, 3),),
            ("float32", "float64"), lambda a: np.linalg.matrix_power(KINDS["gen"](np, a), -3),
        ),
        "tensorinv": Case(
            lambda n, a: n.linalg.tensorinv(a + n.reshape(9 * n.eye(6), (2, 3, 6))), ((2, 3, 6),),
            ("float64", "complex128"),
        ),
        "tensorinv of one axis": Case(
            lambda n, a: n.linalg.tensorinv(a + n.reshape(9 * n.eye(6), (6, 2, 3)), 1),
            ((6, 2, 3),), ("float64",),
        ),
        "tensorsolve": Case(
            lambda n, a, b: n.linalg.tensorsolve(a + n.reshape(9 * n.eye(6), (2, 3, 6)), b),
            ((2, 3, 6), (2, 3)), ("float64", "complex128"),
        ),
        "tensorsolve along axes": Case(
            lambda n, a, b: n.linalg.tensorsolve(
                a + n.reshape(9 * n.eye(6), (2, 3, 6)), b, axes=(0, 1)
            ),
            ((2, 3, 6), (6,)), ("float64",),
        ),
    } | {
        f"inverse of {kind}": Case(
            lambda a, kind=kind: gt.Tensor.make(Inverse(kind), KINDS[kind](gt, a)), ((2, 3, 3),),
            ("float32", "float64", "complex128"),
            lambda a, kind=kind: np.linalg.inv(KINDS[kind](np, a)),
        )
        for kind in KINDS
    },
}  # fmt: skip
