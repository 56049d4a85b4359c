"""Cases of graphc.tensor.linalg.eigen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from graphc.tensor import linalg
from graphc.tensor.linalg.mirror import adjoint
from tests.contract.case import Case

FLOATS = ("float32", "float64", "complex128")
SQUARE = (2, 3, 3)


def _definite(n: Any, x: Any, other: Any) -> Any:
    return x @ other + n.eye(3, dtype=x.dtype)


def _generalised(item: int) -> Case:
    def ours(a: Any, b: Any) -> Any:
        return gt.abs(linalg.eigh(a, _definite(gt, b, adjoint(b)))[item])

    def theirs(a: Any, b: Any) -> Any:
        return np.abs(scipy.linalg.eigh(a, _definite(np, b, np.conj(b.T)))[item])

    return Case(ours, ((3, 3), (3, 3)), FLOATS, theirs)


def _moments(n: Any, w: Any, v: Any) -> Any:
    """What depends neither on the order of eigenvalues nor on the phases of vectors."""
    return n.sum(w[..., None, :] * n.abs(v) ** 2, -1)


FAMILIES: dict[str, dict[str, Case]] = {
    "eigh": {
        "eigenvalues": Case(
            lambda x: linalg.eigh(x)[0], (SQUARE,), FLOATS, lambda x: np.linalg.eigh(x)[0]
        ),
        "eigenvectors": Case(
            lambda x: gt.abs(linalg.eigh(x)[1]), (SQUARE,), FLOATS,
            lambda x: np.abs(np.linalg.eigh(x)[1]),
        ),
        "of the upper triangle": Case(
            lambda x: gt.abs(linalg.eigh(x, lower=False)[1]), (SQUARE,), FLOATS,
            lambda x: np.abs(np.linalg.eigh(x, "U")[1]),
        ),
        "eigvalsh": Case(linalg.eigvalsh, (SQUARE,), FLOATS, np.linalg.eigvalsh),
        "eigvalsh of the upper triangle": Case(
            lambda x: linalg.eigvalsh(x, UPLO="U"), (SQUARE,), FLOATS,
            lambda x: np.linalg.eigvalsh(x, "U"),
        ),
        "eigvalsh of nothing": Case(linalg.eigvalsh, ((2, 0, 0),), FLOATS, np.linalg.eigvalsh),
        "of a pair": _generalised(0),
        "vectors of a pair": _generalised(1),
        "eigvalsh of a pair": Case(
            lambda a, b: linalg.eigvalsh(a, _definite(gt, b, adjoint(b))), ((3, 3), (3, 3)), FLOATS,
            lambda a, b: scipy.linalg.eigvalsh(a, _definite(np, b, np.conj(b.T))),
        ),
    },
    "eig": {
        "eigenvalues": Case(
            lambda x: gt.sum(linalg.eig(x)[0] ** 3, -1), (SQUARE,), FLOATS,
            lambda x: np.sum(np.linalg.eig(x)[0].astype(np.result_type(x, np.complex64)) ** 3, -1),
        ),
        "eigenvectors": Case(
            lambda x: _moments(gt, *linalg.eig(x)), (SQUARE,), FLOATS,
            lambda x: _moments(np, *np.linalg.eig(x.astype(np.result_type(x, np.complex64)))),
        ),
        "eigvals": Case(
            lambda x: gt.sum(linalg.eigvals(x) ** 2, -1), (SQUARE,), FLOATS,
            lambda x: np.sum(np.linalg.eigvals(x).astype(np.result_type(x, np.complex64)) ** 2, -1),
        ),
        "eigvals of nothing": Case(
            linalg.eigvals, ((0, 0),), FLOATS,
            lambda x: np.zeros(0, np.result_type(x, np.complex64)),
        ),
    },
}  # fmt: skip
