"""Cases of graphc.tensor.linalg.determinant."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node, picks
from graphc.tensor.linalg.determinant import Adjugate, AdjugateSlope, Det, SlogDet
from tests.contract.case import Case
from tests.contract.cases.solve import KINDS

MATRICES = ("float16", "float32", "float64", "complex128")
WIDE = ("float32", "float64", "complex128")


def _slogdet(kind: str, i: int) -> Any:
    return lambda a: picks(Node.make(SlogDet(kind), KINDS[kind](gt, a)))[i]


def _singular(n: Any, a: Any) -> Any:
    """Of rank 2, with a pivot that is exactly zero."""
    return n.stack([a[0], 2 * a[0], a[1]])


def _adjugate_slope(a: Any, k: Any) -> Any:
    """By the product rule, which takes regular matrices."""
    x = np.linalg.inv(a)
    along = np.trace(x @ k, axis1=-2, axis2=-1)[..., None, None]
    return np.linalg.det(a)[..., None, None] * (along * x - x @ k @ x)


FAMILIES: dict[str, dict[str, Case]] = {
    "determinant": {
        "det": Case(lambda n, a: n.linalg.det(a), ((2, 3, 3),), MATRICES),
        "det of one column exchanged": Case(
            lambda n, a: n.linalg.det(n.roll(a, 1, -1)), ((2, 2, 2),), MATRICES
        ),
        "det of singular": Case(
            lambda n, a: n.linalg.det(_singular(n, a)), ((2, 3),), ("float64",)
        ),
        "det of zeros": Case(
            lambda n, a: n.linalg.det(a - a), ((2, 2),), ("float64",)
        ),
        "det of nothing": Case(lambda n, a: n.linalg.det(a), ((2, 0, 0),), ("float64",)),
        "slogdet, sign": Case(lambda n, a: n.linalg.slogdet(a)[0], ((2, 3, 3),), MATRICES),
        "slogdet, logarithm": Case(lambda n, a: n.linalg.slogdet(a)[1], ((2, 3, 3),), MATRICES),
        "logdet": Case(
            lambda a: gt.linalg.logdet(KINDS["gen"](gt, a)), ((2, 3, 3),), WIDE,
            lambda a: np.log(np.linalg.det(KINDS["gen"](np, a))),
        ),
        "logdet of negative": Case(
            lambda a: gt.linalg.logdet(-KINDS["pos"](gt, a)), ((3, 3),), ("float64",),
            lambda a: np.log(np.linalg.det(-KINDS["pos"](np, a))), special=True,
        ),
        "adjugate": Case(
            lambda a: gt.Tensor.make(Adjugate("gen"), a), ((2, 3, 3),), ("float64", "complex128"),
            lambda a: np.linalg.det(a)[..., None, None] * np.linalg.inv(a),
        ),
        "slope of adjugate": Case(
            lambda a, k: gt.Tensor.make(AdjugateSlope(), a, k), ((2, 3, 3), (2, 3, 3)),
            ("float64", "complex128"), _adjugate_slope,
            differentiated=False,  # tests/tensor/linalg/test_determinant.py does
        ),
    }
    | {
        f"det of {kind}": Case(
            lambda a, kind=kind: gt.Tensor.make(Det(kind), KINDS[kind](gt, a)), ((2, 3, 3),), WIDE,
            lambda a, kind=kind: np.linalg.det(KINDS[kind](np, a)),
        )
        for kind in KINDS
    }
    | {
        f"slogdet of {kind}, {('sign', 'logarithm')[i]}": Case(
            _slogdet(kind, i), ((2, 3, 3),), WIDE,
            lambda a, kind=kind, i=i: np.linalg.slogdet(KINDS[kind](np, a))[i],
        )
        for kind in KINDS
        for i in range(2)
    },
}  # fmt: skip
