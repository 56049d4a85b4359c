"""Cases of graphc.optimize."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case, S, V

TIGHT = {"tol": 1e-14}


def _root(a: Any) -> Any:
    """Where sinh is a."""
    x = gt.zeros_like(a)
    return gt.optimize.root(gt.sinh(x) - a, x, optimizer_kwargs=TIGHT)[0]


def _minimum(a: Any) -> Any:
    """The same, as a convex function has its minimum there."""
    x = gt.zeros_like(a)
    objective = (gt.cosh(x) - a * x).sum()
    return gt.optimize.minimize(objective, x, "trust-exact", hess=True, optimizer_kwargs=TIGHT)[0]


def _root_scalar(a: Any) -> Any:
    x = gt.zeros_like(a)
    return gt.optimize.root_scalar(gt.sinh(x) - a, x, "newton", jac=True)[0]


FAMILIES: dict[str, dict[str, Case]] = {
    "optimize": {
        "root": Case(_root, (V,), ("float64",), np.arcsinh),
        "minimize": Case(_minimum, (V,), ("float64",), np.arcsinh),
        "root_scalar": Case(_root_scalar, (S,), ("float64",), np.arcsinh),
    },
}
