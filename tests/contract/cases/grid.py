"""Cases of graphc.tensor.arrays.grid."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import NUMERIC, Case, S

INEXACT = ("float32", "float64", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "grid": {
        "linspace": Case(
            lambda n, a, b: n.linspace(a, b, 5, axis=-1), ((2, 1), (1, 3)), INEXACT, static=True
        ),
        "linspace without its end": Case(
            lambda n, a, b: n.linspace(a, b, 4, endpoint=False), (S, S), INEXACT
        ),
        "linspace of one": Case(lambda n, a, b: n.linspace(a, b, 1), (S, S), INEXACT),
        "linspace by a length": Case(
            lambda a, b, x: gt.linspace(a, b, x.shape[0]), (S, S, (4,)), INEXACT,
            lambda a, b, x: np.linspace(a, b, 4),
        ),
        "logspace": Case(lambda n, a, b: n.logspace(a, b, 4, base=2.0), (S, S), ("float64",)),
        "geomspace": Case(
            lambda a, b: gt.geomspace(a**2 + 1, b**2 + 2, 4), (S, S), ("float64",),
            lambda a, b: np.exp(np.linspace(np.log(a**2 + 1), np.log(b**2 + 2), 4)),
        ),
        "meshgrid": Case(
            lambda n, a, b: n.meshgrid(a, b)[0] * n.meshgrid(a, b)[1], ((2,), (3,)), NUMERIC
        ),
    },
}  # fmt: skip
