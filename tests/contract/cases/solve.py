"""Cases of graphc.tensor.linalg.solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case

MATRICES = ("float16", "float32", "float64", "complex128")


def _adjoint(n: Any, a: Any) -> Any:
    return n.conj(n.swapaxes(a, -1, -2))


def _identity(n: Any, a: Any) -> Any:
    return n.eye(3, dtype=str(a.dtype))


def _general(n: Any, a: Any) -> Any:
    return a / 4 + 2 * _identity(n, a)


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "gen": _general,
    "banded": _general,
    "sym": lambda n, a: _general(n, a + n.swapaxes(a, -1, -2)),
    "her": lambda n, a: _general(n, a + _adjoint(n, a)),
    "pos": lambda n, a: a @ _adjoint(n, a) + 4 * _identity(n, a),
    "lower triangular": lambda n, a: n.tril(_general(n, a)),
    "upper triangular": lambda n, a: n.triu(_general(n, a)),
    "tridiagonal": lambda n, a: n.triu(n.tril(_general(n, a), 1), -1),
    "diagonal": lambda n, a: _general(n, a) * _identity(n, a),
}
"""A matrix of each kind, of one that is not."""


def _case(kind: str, transposed: bool, **options: Any) -> Case:
    make = KINDS[kind]

    def expected(a: Any, b: Any) -> Any:
        a = make(np, a)
        return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b)

    return Case(
        lambda a, b: gt.linalg.solve(
            make(gt, a), b, assume_a=kind, transposed=transposed, **options
        ),
        ((2, 3, 3), (2, 3, 2)), MATRICES, expected,
    )  # fmt: skip


def _householder(n: Any, a: Any) -> Any:
    """An orthogonal matrix, of a vector."""
    length = n.sum(a * a)
    return n.eye(3) - 2 * a[:, None] * a / length


FAMILIES: dict[str, dict[str, Case]] = {
    "solve": {
        f"solve of {kind}, transposed={t}": _case(kind, t) for kind in KINDS for t in (False, True)
    }
    | {f"solve of {kind}, lower": _case(kind, False, lower=True) for kind in ("sym", "her", "pos")}
    | {
        "solve with a vector": Case(
            lambda n, a, b: n.linalg.solve(_general(n, a), b), ((2, 3, 3), (3, 1)), MATRICES
        ),
        "solve with vectors": Case(
            lambda a, b: gt.linalg.solve(_general(gt, a), b, b_ndim=1), ((3, 3), (2, 4, 3)),
            ("float64",), lambda a, b: np.linalg.solve(_general(np, a), b[..., None])[..., 0],
        ),
        "solve of one matrix and many": Case(
            lambda a, b: gt.linalg.solve(_general(gt, a), b), ((2, 1, 3, 3), (4, 3, 2)),
            ("float64", "complex128"), lambda a, b: np.linalg.solve(_general(np, a), b),
            static=True,
        ),
        "solve of orthogonal": Case(
            lambda a, b: gt.linalg.solve(_householder(gt, a), b, assume_a="orthogonal"),
            ((3,), (3, 2)), ("float64",), lambda a, b: np.linalg.solve(_householder(np, a), b),
        ),
        "solve of the upper triangle": Case(
            lambda a, b: gt.linalg.solve(_general(gt, a), b, assume_a="sym"), ((3, 3), (3, 2)),
            ("float64",), lambda a, b: np.linalg.solve(_upper(_general(np, a)), b),
        ),
        "solve of nothing": Case(
            lambda n, a, b: n.linalg.solve(a, b), ((2, 0, 0), (2, 0, 3)), ("float64",)
        ),
    }
    | {
        f"cho_solve, lower={lower}": Case(
            lambda c, b, lower=lower: gt.linalg.cho_solve((_general(gt, c), lower), b),
            ((3, 3), (3, 2)), MATRICES,
            lambda c, b, lower=lower: np.linalg.solve(_product(_general(np, c), lower), b),
        )
        for lower in (True, False)
    },
}  # fmt: skip


def _upper(a: Any) -> Any:
    return np.triu(a) + np.swapaxes(np.triu(a, 1), -1, -2)


def _product(c: Any, lower: bool) -> Any:
    c = np.tril(c) if lower else np.triu(c)
    return c @ np.conj(c.T) if lower else np.conj(c.T) @ c
