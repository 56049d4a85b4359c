"""Cases of graphc.tensor.linalg.equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from graphc.tensor import linalg
from graphc.tensor.linalg.mirror import adjoint
from tests.contract.case import Case

FLOATS = ("float32", "float64", "complex128")
MATRIX = (3, 3)


def _shifted(n: Any, x: Any) -> Any:
    """Its eigenvalues lie on the right."""
    return x + 5 * n.eye(3, dtype=x.dtype)


def _stable(x: Any) -> Any:
    return x / 8


def _ours(a: Any, b: Any, c: Any) -> Any:
    unit = gt.eye(3, dtype=a.dtype)
    return linalg.solve_discrete_are(a / 2, b, c @ adjoint(c) + unit, unit * 2)


def _theirs(a: Any, b: Any, c: Any) -> Any:
    unit = np.eye(3, dtype=a.dtype)
    found = scipy.linalg.solve_discrete_are(a / 2, b, c @ np.conj(c.T) + unit, unit * 2)
    return found.astype(a.dtype)


FAMILIES: dict[str, dict[str, Case]] = {
    "equations": {
        "sylvester": Case(
            lambda a, b, q: linalg.solve_sylvester(_shifted(gt, a), b, q),
            (MATRIX, (2, 2), (3, 2)), FLOATS,
            lambda a, b, q: scipy.linalg.solve_sylvester(_shifted(np, a), b, q),
        ),
        "continuous lyapunov": Case(
            lambda a, q: linalg.solve_continuous_lyapunov(_shifted(gt, a), q), (MATRIX, MATRIX),
            FLOATS, lambda a, q: scipy.linalg.solve_continuous_lyapunov(_shifted(np, a), q),
        ),
        "riccati": Case(_ours, (MATRIX, MATRIX, MATRIX), FLOATS, _theirs),
        "sylvester of nothing": Case(
            linalg.solve_sylvester, ((0, 0), (2, 2), (0, 2)), FLOATS, lambda a, b, q: q
        ),
    } | {
        f"discrete lyapunov, {method}": Case(
            lambda a, q, method=method: linalg.solve_discrete_lyapunov(_stable(a), q, method),
            (MATRIX, MATRIX), FLOATS,
            lambda a, q: scipy.linalg.solve_discrete_lyapunov(_stable(a), q).astype(a.dtype),
        )
        for method in ("bilinear", "direct")
    },
}  # fmt: skip
