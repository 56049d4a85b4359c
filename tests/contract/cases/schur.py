"""Cases of graphc.tensor.linalg.schur."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from graphc.tensor import linalg
from graphc.tensor.linalg.mirror import adjoint
from tests.contract.case import Case

FLOATS = ("float32", "float64", "complex128")
UNDERIVED = ("float32", "complex64")
SQUARE = (3, 3)


def _whole(t: Any, z: Any, conj: Any) -> Any:
    return z @ t @ conj(z)


def _triangle(sort: str | None) -> Case:
    """Without the phases of the basis."""

    def theirs(x: Any) -> Any:
        found = scipy.linalg.schur(x, "complex" if np.iscomplexobj(x) else "real", sort=sort)
        return np.abs(found[0])

    return Case(lambda x: gt.abs(linalg.schur(x, sort=sort)[0]), (SQUARE,), UNDERIVED, theirs)


def _pair(a: Any, b: Any) -> Any:
    aa, _, q, z = linalg.qz(a, b, sort="lhp")
    return q @ aa @ adjoint(z)


def _eigenvalues(a: Any, b: Any) -> Any:
    _, _, alpha, beta, _, _ = linalg.ordqz(a, b, "ouc")
    return gt.sum(alpha / gt.cast(beta, alpha.dtype))


FAMILIES: dict[str, dict[str, Case]] = {
    "schur": {
        f"sorted by {sort}": _triangle(sort) for sort in (None, "lhp", "rhp", "iuc", "ouc")
    } | {
        "the whole": Case(
            lambda x: _whole(*linalg.schur(x), adjoint), ((2, 3, 3),), UNDERIVED, lambda x: x + 0
        ),
        "complex": Case(
            lambda x: _whole(*linalg.schur(x, "complex"), adjoint), (SQUARE,), UNDERIVED,
            lambda x: x.astype(np.complex64),
        ),
        "qz": Case(_pair, ((2, 3, 3), (3, 3)), UNDERIVED, lambda a, b: a + 0 * b),
        "ordqz": Case(
            _eigenvalues, (SQUARE, SQUARE), UNDERIVED,
            lambda a, b: np.sum(scipy.linalg.eigvals(a, b).astype(np.complex64)),
        ),
        "sqrtm": Case(
            lambda x: linalg.sqrtm(x @ adjoint(x) + gt.eye(3, dtype=x.dtype)), (SQUARE,), FLOATS,
            lambda x: scipy.linalg.sqrtm(x @ np.conj(x.T) + np.eye(3, dtype=x.dtype)),
        ),
        "sqrtm of nothing": Case(linalg.sqrtm, ((0, 0),), FLOATS, lambda x: x),
    },
}  # fmt: skip
